/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/probes/links.h"

#include "base/auto.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOPBACK 772 /* ARPHRD_LOOPBACK */
#define ETHERNET_MTU 1500
#define SLOW 10000 /* megabits a second: ranks on several hosts wait for less */

bool dt_links_match(const char *list, const char *name)
{
    bool excludes = *list == '^', exact = *list == '=', found = false;
    list += excludes || exact;
    while (*list && !found) {
        size_t n = strcspn(list, ",");
        found = n > 0 && strncmp(list, name, n) == 0 && (!exact || name[n] == '\0');
        list += n + (list[n] == ',');
    }
    return found != excludes;
}

static bool may_carry(const struct dt_link *l)
{
    return l->is_up && !l->is_loopback;
}

/* Whole names, and dots where there are more of them than SIZE has room for. */
static void add_name(char *names, size_t size, const char *name)
{
    static const char more[] = ", ...";
    size_t n = strlen(names);
    bool full = n + strlen(name) + 2 * sizeof more > size;
    if (!full)
        snprintf(names + n, size - n, "%s%s", n ? ", " : "", name);
    else if (n < sizeof more || strcmp(names + n + 1 - sizeof more, more) != 0)
        snprintf(names + n, size - n, "%s", more);
}

static void judge_choice(const struct dt_links *l, const char *variable, const char *list,
                         struct dt_sheet *sheet)
{
    char names[128] = "";
    for (size_t i = 0; i < l->count; i++) {
        if (!may_carry(&l->at[i]))
            continue;
        if (dt_links_match(list, l->at[i].name))
            return;
        add_name(names, sizeof names, l->at[i].name);
    }
    dt_sheet_remark(sheet, "links", DT_GRADE_FAIL, "choose one of these, or unset it",
                    "%s=%.64s names no interface that is up here (%s)", variable, list, names);
}

static void judge_link(const struct dt_link *l, int hosts, struct dt_sheet *sheet)
{
    if (hosts > 1 && l->is_real && l->mtu > 0 && l->mtu < ETHERNET_MTU)
        dt_sheet_remark(sheet, "links", DT_GRADE_NOTE,
                        "a tunnel may need it; without one: ip link set mtu 1500",
                        "%s has an MTU of %d, below the %d of an Ethernet", l->name, l->mtu,
                        ETHERNET_MTU);
    if (hosts > 1 && l->is_real && l->megabits > 0 && l->megabits < SLOW)
        dt_sheet_remark(sheet, "links", DT_GRADE_NOTE, "a bad cable makes a link slower, too",
                        "%s carries %" PRId64 " Mbit/s: workers of several hosts will wait for it",
                        l->name, l->megabits);
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* What nodes compare: the names of interfaces differ between hosts that work well together. */
static void tell_mtus(const struct dt_links *l, struct dt_sheet *sheet)
{
    int mtus[DT_LINKS_MAX], last = 0;
    size_t n = 0;
    char text[96] = "";
    for (size_t i = 0; i < l->count; i++)
        if (may_carry(&l->at[i]) && l->at[i].is_real)
            mtus[n++] = l->at[i].mtu;
    qsort(mtus, n, sizeof *mtus, by_number);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(text);
        if (mtus[i] != last && len < sizeof text - 16)
            snprintf(text + len, sizeof text - len, "%s%d", len ? " " : "", mtus[i]);
        last = mtus[i];
    }
    if (*text)
        dt_sheet_set(sheet, "MTU", "%s", text);
}

void dt_links_judge(const struct dt_links *l, int hosts, struct dt_sheet *sheet)
{
    char names[192] = "", name[DT_PROBE_NAME + 32];
    size_t before = sheet->remark_count, up = 0;
    for (size_t i = 0; i < l->count; i++) {
        if (!may_carry(&l->at[i]))
            continue;
        up++;
        judge_link(&l->at[i], hosts, sheet);
        snprintf(name, sizeof name, "%s (MTU %d)", l->at[i].name, l->at[i].mtu);
        add_name(names, sizeof names, name);
    }
    if (up == 0 && hosts > 1)
        dt_sheet_remark(sheet, "links", DT_GRADE_FAIL, "ip link shows them",
                        "no network interface is up but loopback, and the job has %d hosts", hosts);
    if (up > 0 && hosts > 1 && l->nccl)
        judge_choice(l, "NCCL_SOCKET_IFNAME", l->nccl, sheet);
    if (up > 0 && hosts > 1 && l->gloo)
        judge_choice(l, "GLOO_SOCKET_IFNAME", l->gloo, sheet);
    if (sheet->remark_count == before)
        dt_sheet_remark(sheet, "links", DT_GRADE_OK, NULL, "%s",
                        up ? names : "only loopback, which is enough for one node");
    tell_mtus(l, sheet);
}

static bool has_folder(const char *root, const struct dt_link *l, const char *folder)
{
    char path[160], child[1][DT_PROBE_NAME];
    snprintf(path, sizeof path, "/sys/class/net/%s/%s", l->name, folder);
    return dt_probe_list(root, path, child, 1) > 0;
}

static void read_link(const char *root, struct dt_link *l)
{
    char path[160], text[32];
    snprintf(path, sizeof path, "/sys/class/net/%s/operstate", l->name);
    dt_probe_read(root, path, text, sizeof text);
    l->is_up = strcmp(text, "up") == 0 || strcmp(text, "unknown") == 0;
    snprintf(path, sizeof path, "/sys/class/net/%s/type", l->name);
    l->is_loopback = dt_probe_read_number(root, path, 0) == LOOPBACK;
    snprintf(path, sizeof path, "/sys/class/net/%s/mtu", l->name);
    l->mtu = (int)dt_probe_read_number(root, path, 0);
    snprintf(path, sizeof path, "/sys/class/net/%s/speed", l->name);
    l->megabits = dt_probe_read_number(root, path, -1);
    l->is_bridge = has_folder(root, l, "bridge");
    l->is_real = has_folder(root, l, "device") || has_folder(root, l, "bonding");
}

static int by_name_real_first(const void *a, const void *b)
{
    const struct dt_link *x = a, *y = b;
    return x->is_real != y->is_real ? y->is_real - x->is_real : strcmp(x->name, y->name);
}

static void find_real(struct dt_links *l)
{
    bool any = false;
    for (size_t i = 0; i < l->count; i++)
        any = any || (l->at[i].is_real && may_carry(&l->at[i]));
    for (size_t i = 0; i < l->count && !any; i++)
        l->at[i].is_real = !l->at[i].is_bridge;
    qsort(l->at, l->count, sizeof *l->at, by_name_real_first);
}

void dt_links_probe(const struct dt_checkup *c, struct dt_sheet *sheet)
{
    DT_AUTO_FREE char(*names)[DT_PROBE_NAME] = calloc(DT_LINKS_MAX, sizeof *names);
    DT_AUTO_FREE struct dt_link *links = calloc(DT_LINKS_MAX, sizeof *links);
    struct dt_links l = {
        .at = links, .nccl = getenv("NCCL_SOCKET_IFNAME"), .gloo = getenv("GLOO_SOCKET_IFNAME")};
    if (!names || !links)
        return;
    l.count = dt_probe_list(c->root, "/sys/class/net", names, DT_LINKS_MAX);
    for (size_t i = 0; i < l.count; i++) {
        snprintf(l.at[i].name, sizeof l.at[i].name, "%s", names[i]);
        read_link(c->root, &l.at[i]);
    }
    find_real(&l);
    dt_links_judge(&l, c->hosts, sheet);
}
