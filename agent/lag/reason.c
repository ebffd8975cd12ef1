/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/lag/reason.h"

#include <stddef.h>
#include <stdio.h>

#define CROWDED (DT_OWN_WHOLE / 20) /* of the time, waiting for a processor */

/* Of two that explain as much, the first one counts. A share is printed in percent; a number of
 * times explains less than any share. */
struct row {
    size_t at; /* in the signs */
    int least;
    bool share;
    const char *before, *behind; /* the number */
};

/* clang-format off */
#define SIGN(member) offsetof(struct dt_lag_signs, member)
static const struct row rows[] = {
    {SIGN(stopped), 50, true, "signals stop it again and again, ", " % of the time"},
    {SIGN(throttled), 50, true, "its control group may use no more processor time (cpu.max), ", " % of the time"},
    {SIGN(stolen), 50, true, "the host of this virtual machine takes its processors away, ", " % of the time (steal)"},
    {SIGN(waited), CROWDED, true, "other programs run on its processors: it is ready and has to wait for ", " % of the time"},
    {SIGN(heat), 1, false, "its processors are too hot: they were slowed down ", " times within seconds"},
    {SIGN(slow), 150, true, "the clock of its processors is slower than that of the others by ", " %"},
    {SIGN(faults), 50, false, "its memory comes back from a disk: ", " page faults a second"},
    {SIGN(disk), 100, true, "it waits for a disk, ", " % of the time"},
    {SIGN(data), 100, true, "it waits for its data, ", " % of the time"},
    {SIGN(asleep), 100, true, "it sleeps outside of collectives, ", " % of the time"},
};
/* clang-format on */

static int value_of(const struct dt_lag_signs *s, const struct row *r)
{
    return *(const int *)((const char *)s + r->at);
}

/* -- what the numbers mean -------------------------------------------------------------------- */

static int share_of(int64_t part, int64_t whole)
{
    if (part <= 0 || whole <= 0)
        return 0;
    return part >= whole ? DT_OWN_WHOLE : (int)((double)part / (double)whole * DT_OWN_WHOLE);
}

static void take_counts(struct dt_lag_signs *s, const struct dt_lag_facts *before,
                        const struct dt_lag_facts *after)
{
    int64_t span = after->at_ns - before->at_ns;
    if (!before->there || !after->there || span <= 0)
        return;
    int64_t disk_ns = (after->disk_ms - before->disk_ms) * 1000000;
    s->waited = share_of(after->waited_ns - before->waited_ns, span);
    s->throttled = share_of((after->throttled_us - before->throttled_us) * 1000, span);
    s->stolen =
        share_of(after->stolen_ms - before->stolen_ms, after->processor_ms - before->processor_ms);
    s->heat = (int)(after->heat - before->heat);
    s->faults = (int)((double)(after->faults - before->faults) * 1e9 / (double)span);
    if (share_of(disk_ns, span) > s->disk)
        s->disk = share_of(disk_ns, span);
}

void dt_lag_signs_note(struct dt_lag_signs *s, const struct dt_gauge_part *part,
                       const struct dt_lag_facts *before, const struct dt_lag_facts *after)
{
    struct dt_lag_signs now = {
        .data = part->data,
        .asleep = part->asleep,
        .stopped = share_of(part->stopped, part->samples),
        .disk = share_of(part->disk, part->samples),
    };
    take_counts(&now, before, after);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        int *mean = (int *)((char *)s + rows[k].at);
        int value = value_of(&now, &rows[k]);
        *mean = (*mean + value + (value > *mean)) / 2;
    }
}

/* The lower of two in the middle: of COUNT numbers found at OF. No sorting of what is not ours. */
static int median(const void *first, size_t size, size_t at, int count)
{
    for (int i = 0; i < count; i++) {
        int v = *(const int *)((const char *)first + (size_t)i * size + at), less = 0, equal = 0;
        for (int k = 0; k < count; k++) {
            int other = *(const int *)((const char *)first + (size_t)k * size + at);
            less += other < v;
            equal += other == v;
        }
        if (less <= (count - 1) / 2 && (count - 1) / 2 < less + equal)
            return v;
    }
    return 0;
}

void dt_lag_signs_compare_clocks(struct dt_lag_signs *all, int count,
                                 const struct dt_lag_facts *after)
{
    int usual = median(after, sizeof *after, offsetof(struct dt_lag_facts, mhz), count);
    for (int i = 0; i < count; i++)
        all[i].slow = after[i].mhz > 0 ? share_of(usual - after[i].mhz, usual) : 0;
}

bool dt_lag_is_crowded(const struct dt_lag_signs *s)
{
    return s->waited >= CROWDED;
}

/* -- which of them tells ---------------------------------------------------------------------- */

/* How much of the time it explains; -1: nothing. */
static int weigh(const struct row *r, const struct dt_lag_signs *all, int count, int i, bool shared)
{
    int value = value_of(&all[i], r);
    bool stands_out = count == 1 || value >= 2 * median(all, sizeof *all, r->at, count);
    if (value < r->least || !(shared || stands_out))
        return -1;
    /* One that is throttled counts as ready to run, and one that each of the others keeps sleeps.
     */
    if (r->at == SIGN(waited))
        value -= all[i].throttled;
    else if (r->at == SIGN(asleep))
        value -= all[i].stopped + all[i].throttled + all[i].disk + all[i].data;
    return r->share ? value : 0;
}

static const struct row *find(const struct dt_lag_signs *all, int count, int i, bool alone)
{
    const struct row *found = NULL;
    int most = -1;
    for (int shared = 0; !found && shared <= !alone; shared++)
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            int weight = weigh(&rows[k], all, count, i, shared);
            if (weight <= most)
                continue;
            most = weight;
            found = &rows[k];
        }
    return found;
}

const char *dt_lag_reason(const struct dt_lag_signs *all, int count, int i, bool alone,
                          const char *rival, const char *where, char out[DT_OWN_REASON_MAX])
{
    const struct row *r = find(all, count, i, alone);
    *out = '\0';
    if (!r)
        return out;
    int value = value_of(&all[i], r) * (r->share ? 100 : 1) / (r->share ? DT_OWN_WHOLE : 1);
    bool named = r->at == SIGN(waited) && *rival, placed = r->at == SIGN(asleep) && *where;
    snprintf(out, DT_OWN_REASON_MAX, "%s%d%s%s%.90s", r->before, value, r->behind,
             named    ? "; one is "
             : placed ? ", mostly at "
                      : "",
             named    ? rival
             : placed ? where
                      : "");
    return out;
}
