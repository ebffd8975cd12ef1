/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_SHOWN 4
#define PAIRS_TOLD_APART 3 /* of two nobody can say which one is slow */

/* How bad it is when a trait differs; one that begins so, for those with a path behind. */
static const struct rule {
    const char *trait;
    enum dt_grade grade;
    const char *advice;
} rules[] = {
    {"file ", DT_GRADE_FAIL, "mount the same folder on all nodes, or copy the file again"},
    {"NCCL", DT_GRADE_FAIL, "install one version on all nodes: NCCL refuses to mix them"},
    {"script", DT_GRADE_WARN, "copy the same script to all nodes"},
    {"PyTorch", DT_GRADE_WARN, "install one version on all nodes"},
    {"CUDA of PyTorch", DT_GRADE_WARN, "install the same PyTorch on all nodes"},
    {"Python", DT_GRADE_WARN, "use the same environment on all nodes"},
    {"dtrun", DT_GRADE_WARN, "install one version on all nodes"},
    {"GPUs", DT_GRADE_WARN, "the fast ones wait for the slow ones; leave that node out"},
    {"InfiniBand", DT_GRADE_WARN, "look at the ports of that node"},
    {"MTU", DT_GRADE_WARN, "set one MTU on all hosts and switches"},
    {"", DT_GRADE_NOTE, "it may be meant so"},
};

static const struct rule *find_rule(const char *trait)
{
    const struct rule *r = rules;
    while (strncmp(trait, r->trait, strlen(r->trait)) != 0)
        r++;
    return r;
}

static const char *value_of(const struct dt_compared *node, const char *trait)
{
    const char *value = dt_sheet_trait(node->sheet, trait);
    return value ? value : "not told";
}

static size_t count_alike(const struct dt_compared *nodes, size_t count, const char *trait,
                          const char *value)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        n += strcmp(value_of(&nodes[i], trait), value) == 0;
    return n;
}

/* What most have; of two that are equally many the one that comes first. */
static const char *common_value(const struct dt_compared *nodes, size_t count, const char *trait)
{
    const char *common = value_of(&nodes[0], trait);
    size_t most = 0;
    for (size_t i = 0; i < count && most <= count / 2; i++) {
        const char *value = value_of(&nodes[i], trait);
        size_t n = count_alike(nodes, count, trait, value);
        if (n > most) {
            most = n;
            common = value;
        }
    }
    return common;
}

/* "node3, node7 and 5 more": those from FIRST on that have VALUE. */
static void list_nodes(const struct dt_compared *nodes, size_t count, size_t first,
                       const char *trait, const char *value, char *out, size_t size)
{
    size_t shown = 0, len = 0, alike = count_alike(nodes, count, trait, value);
    for (size_t i = first; i < count && shown < NAMES_SHOWN && len < size; i++) {
        if (strcmp(value_of(&nodes[i], trait), value) != 0)
            continue;
        len += (size_t)snprintf(out + len, size - len, "%s%.24s", shown ? ", " : "", nodes[i].name);
        shown++;
    }
    if (alike > shown && len < size)
        snprintf(out + len, size - len, " and %zu more", alike - shown);
}

static bool is_first_with(const struct dt_compared *nodes, size_t i, const char *trait)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(value_of(&nodes[k], trait), value_of(&nodes[i], trait)) == 0)
            return false;
    return true;
}

static void compare_trait(const struct dt_compared *nodes, size_t count, const char *trait,
                          struct dt_sheet *out)
{
    const char *common = common_value(nodes, count, trait);
    const struct rule *rule = find_rule(trait);
    char names[160];
    for (size_t i = 0; i < count; i++) {
        const char *value = value_of(&nodes[i], trait);
        if (strcmp(value, common) == 0 || !is_first_with(nodes, i, trait))
            continue;
        list_nodes(nodes, count, i, trait, value, names, sizeof names);
        dt_sheet_remark(out, "nodes", rule->grade, rule->advice, "%s: %.48s %.40s, %s %.40s", names,
                        trait, value,
                        count_alike(nodes, count, trait, common) == 1 ? "the other" : "the others",
                        common);
    }
}

static bool was_seen(const struct dt_compared *nodes, size_t node, size_t trait)
{
    const char *name = nodes[node].sheet->traits[trait].name;
    for (size_t i = 0; i < node; i++)
        if (dt_sheet_trait(nodes[i].sheet, name))
            return true;
    return false;
}

void dt_compare_traits(const struct dt_compared *nodes, size_t count, struct dt_sheet *out)
{
    size_t before = out->remark_count;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < nodes[i].sheet->trait_count; k++)
            if (!was_seen(nodes, i, k))
                compare_trait(nodes, count, nodes[i].sheet->traits[k].name, out);
    if (out->remark_count == before)
        dt_sheet_remark(out, "nodes", DT_GRADE_OK, NULL,
                        "%zu nodes, alike in all that was compared", count);
}

/* -- what others found ------------------------------------------------------------------------ */

static void tell_grade(const struct dt_compared *nodes, size_t count, size_t own,
                       enum dt_grade grade, const char *what, struct dt_sheet *out)
{
    char names[160] = "";
    size_t alike = 0, len = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == own || nodes[i].worst != grade)
            continue;
        if (alike < NAMES_SHOWN)
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%.24s", alike ? ", " : "",
                                    nodes[i].name);
        alike++;
    }
    if (alike > NAMES_SHOWN)
        snprintf(names + len, sizeof names - len, " and %zu more", alike - NAMES_SHOWN);
    if (alike > 0)
        dt_sheet_remark(out, "elsewhere", grade, "read what is printed there", "%s %s", names,
                        what);
}

void dt_compare_grades(const struct dt_compared *nodes, size_t count, size_t own,
                       struct dt_sheet *out)
{
    tell_grade(nodes, count, own, DT_GRADE_FAIL, "found what will break the job", out);
    tell_grade(nodes, count, own, DT_GRADE_WARN, "found what can make it fail or slow", out);
}

/* -- clocks ----------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* By how much more than a trip can explain. */
static int64_t beyond_trip(const struct dt_compared *node)
{
    int64_t doubt = node->trip_us / 2;
    int64_t off = node->offset_us;
    return off > doubt ? off - doubt : off < -doubt ? off + doubt : 0;
}

static const char *direction(int64_t us)
{
    return us > 0 ? "ahead of" : "behind";
}

void dt_compare_clocks(const struct dt_compared *nodes, size_t count, size_t own,
                       struct dt_sheet *out)
{
    size_t reached = 0, before = out->remark_count;
    int64_t *sorted = calloc(count + 1, sizeof *sorted), middle = 0;
    static const char advice[] = "start chrony, ntpd or systemd-timesyncd on all nodes";
    for (size_t i = 0; sorted && i < count; i++)
        if (i != own && nodes[i].reached)
            sorted[reached++] = beyond_trip(&nodes[i]);
    if (reached > 0) {
        qsort(sorted, reached, sizeof *sorted, by_size);
        middle = sorted[reached / 2];
    }
    free(sorted);
    /* Of two nodes nobody can say which one is wrong. */
    if (reached > 1 && llabs(middle) > DT_CLOCKS_APART_US) {
        dt_sheet_remark(out, "clocks", DT_GRADE_WARN, advice,
                        "the clock of this host is %.1f s %s those of most other nodes",
                        (double)llabs(middle) / 1e6, direction(-middle));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t off = i != own && nodes[i].reached ? beyond_trip(&nodes[i]) : 0;
        if (llabs(off) > DT_CLOCKS_APART_US)
            dt_sheet_remark(out, "clocks", DT_GRADE_WARN, advice,
                            "the clock of %s is %.1f s %s the one here", nodes[i].name,
                            (double)llabs(off) / 1e6, direction(off));
    }
    if (reached > 0 && out->remark_count == before)
        dt_sheet_remark(out, "clocks", DT_GRADE_OK, NULL,
                        "those of %zu other node%s agree with the one here", reached,
                        reached == 1 ? "" : "s");
}

/* -- pairs ------------------------------------------------------------------------------------ */

static int by_rate(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void dt_compare_pairs(const struct dt_pair *pairs, size_t count, struct dt_sheet *out)
{
    size_t n = 0, before = out->remark_count;
    double *sorted = calloc(count + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < count; i++)
        if (pairs[i].rate > 0)
            sorted[n++] = pairs[i].rate;
    if (n == 0) {
        free(sorted);
        return;
    }
    qsort(sorted, n, sizeof *sorted, by_rate);
    double middle = sorted[n / 2];
    free(sorted);
    for (size_t i = 0; i < count; i++)
        if (n >= PAIRS_TOLD_APART && pairs[i].rate > 0 && pairs[i].rate < middle / 2)
            dt_sheet_remark(out, "bandwidth", DT_GRADE_WARN,
                            "look at cables, ports and switches between them",
                            "%.0f MB/s from %s to %s; other pairs have about %.0f",
                            pairs[i].rate / 1e6, pairs[i].from, pairs[i].to, middle / 1e6);
    if (out->remark_count == before)
        dt_sheet_remark(out, "bandwidth", DT_GRADE_OK, NULL,
                        "about %.0f MB/s over one connection of TCP, in %zu pair%s of nodes",
                        middle / 1e6, n, n == 1 ? "" : "s");
}
