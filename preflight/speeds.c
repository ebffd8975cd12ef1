/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/speeds.h"

#include "base/auto.h"

#include <stdlib.h>
#include <string.h>

#define KINDS_MAX 8 /* that are compared: a cluster has one or two */
#define NAMED_MAX 8 /* that are slow in one way */
#define OF_PROCESSORS "look at what else runs there, its governor and its heat"

static const struct figure {
    size_t at;
    const char *what; /* it is slow at */
    double unit;
    const char *unit_name;
    double least; /* the part of the middle one that is well */
    const char *advice;
} figures[] = {
    {offsetof(struct dt_speed, flops), "multiplies matrices at", 1e12, "TFLOP/s", 0.75,
     "look at its clocks, heat and power: nvidia-smi -q -d PERFORMANCE,CLOCK; others wait for it, "
     "so leave that node out until it is cured"},
    {offsetof(struct dt_speed, written), "is written to at", 1e9, "GB/s", 0.5,
     "look at its PCIe link: nvidia-smi -q shows width and generation; have it put in anew"},
    {offsetof(struct dt_speed, got), "is read from at", 1e9, "GB/s", 0.5,
     "look at its PCIe link: nvidia-smi -q shows width and generation; have it put in anew"},
};

static uint64_t value_of(const struct dt_speed *s, const struct figure *f)
{
    uint64_t value;
    memcpy(&value, (const char *)s + f->at, sizeof value);
    return value;
}

/* Processors may be at work for others, and their memory is the host's. */
static bool is_processor(const struct dt_speed *s)
{
    return strcmp(s->device, DT_SPEED_CPU) == 0;
}

static bool is_compared(const struct dt_speed *s, const struct figure *f)
{
    return value_of(s, f) > 0 && (!is_processor(s) || f == figures);
}

static double least_of(const struct dt_speed *s, const struct figure *f)
{
    return is_processor(s) ? 0.5 : f->least;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The values of all of KIND, sorted. */
static size_t sort_values(const struct dt_speed_of *all, size_t count, const char *kind,
                          const struct figure *f, uint64_t *sorted)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (strcmp(all[i].speed->kind, kind) == 0 && is_compared(all[i].speed, f))
            sorted[n++] = value_of(all[i].speed, f);
    qsort(sorted, n, sizeof *sorted, by_size);
    return n;
}

static void name_slow(const struct dt_speed_of *d, const struct figure *f, uint64_t middle,
                      size_t n, struct dt_sheet *out)
{
    const struct dt_speed *s = d->speed;
    dt_sheet_remark(out, "compute", DT_GRADE_WARN, is_processor(s) ? OF_PROCESSORS : f->advice,
                    "%.63s%s%s%s%s%s %s %.3g %s; the middle one of %zu %.40s has %.3g",
                    d->node ? d->node : "", d->node ? ": " : "", s->device, *s->id ? " (" : "",
                    s->id, *s->id ? ")" : "", f->what, (double)value_of(s, f) / f->unit,
                    f->unit_name, n, s->kind, (double)middle / f->unit);
}

/* How many of KIND are slow. Of an even number the faster one is the middle, so that of two
 * devices one can be slow. */
static size_t find_slow(const struct dt_speed_of *all, size_t count, const char *kind,
                        const struct figure *f, uint64_t *sorted, struct dt_sheet *out)
{
    size_t slow = 0, n = sort_values(all, count, kind, f, sorted);
    for (size_t i = 0; i < count && n > 0; i++) {
        const struct dt_speed *s = all[i].speed;
        uint64_t middle = sorted[n / 2];
        if (strcmp(s->kind, kind) != 0 || !is_compared(s, f) ||
            (double)value_of(s, f) >= least_of(s, f) * (double)middle)
            continue;
        if (slow++ < NAMED_MAX)
            name_slow(&all[i], f, middle, n, out);
    }
    if (slow > NAMED_MAX)
        dt_sheet_remark(out, "compute", DT_GRADE_WARN, f->advice, "and %zu more such %.40s",
                        slow - NAMED_MAX, kind);
    return slow;
}

static void compare_kind(const struct dt_speed_of *all, size_t count, const char *kind,
                         uint64_t *sorted, struct dt_sheet *out)
{
    size_t slow = 0;
    for (size_t f = 0; f < sizeof figures / sizeof *figures; f++)
        slow += find_slow(all, count, kind, &figures[f], sorted, out);
    size_t n = sort_values(all, count, kind, figures, sorted);
    if (slow == 0 && n == 1)
        dt_sheet_remark(out, "compute", DT_GRADE_OK, NULL,
                        "matrices are multiplied at %.3g TFLOP/s by one %.63s",
                        (double)sorted[0] / 1e12, kind);
    else if (slow == 0 && n > 0)
        dt_sheet_remark(out, "compute", DT_GRADE_OK, NULL,
                        "matrices are multiplied at %.3g to %.3g TFLOP/s by %zu %.63s",
                        (double)sorted[0] / 1e12, (double)sorted[n - 1] / 1e12, n, kind);
}

static bool is_first_of_kind(const struct dt_speed_of *all, size_t i, const char *const *kinds,
                             size_t known)
{
    for (size_t k = 0; k < known; k++)
        if (strcmp(kinds[k], all[i].speed->kind) == 0)
            return false;
    return true;
}

void dt_speeds_compare(const struct dt_speed_of *all, size_t count, struct dt_sheet *out)
{
    const char *kinds[KINDS_MAX];
    size_t known = 0;
    DT_AUTO_FREE uint64_t *sorted = calloc(count + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < count && known < KINDS_MAX; i++) {
        if (!is_first_of_kind(all, i, kinds, known))
            continue;
        kinds[known++] = all[i].speed->kind;
        compare_kind(all, count, all[i].speed->kind, sorted, out);
    }
}

void dt_speeds_compare_nodes(const struct dt_compared *nodes, size_t count, struct dt_sheet *out)
{
    size_t n = 0, most = 0;
    for (size_t i = 0; i < count; i++)
        most += nodes[i].sheet->speed_count;
    DT_AUTO_FREE struct dt_speed_of *all = calloc(most + 1, sizeof *all);
    for (size_t i = 0; all && i < count; i++)
        for (size_t k = 0; k < nodes[i].sheet->speed_count; k++)
            all[n++] =
                (struct dt_speed_of){.node = nodes[i].name, .speed = &nodes[i].sheet->speeds[k]};
    dt_speeds_compare(all, n, out);
}
