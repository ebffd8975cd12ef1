/* SPDX-License-Identifier: Apache-2.0 */
/* When a job that runs takes in nodes that came late. Each new round costs all nodes their
 * start-up, so nodes that come one after the other, as those of a rack do, are taken in together.
 */
#include "rendezvous/rdzv/inside.h"

#include <stdio.h>

#define QUIET (5 * DT_SECOND) /* nobody else has come for so long */

/* Those who are ready, and may be taken in. */
struct newcomers {
    size_t count;
    const struct dt_member *one;
    dt_ms first, last; /* when they came */
};

static struct newcomers find_newcomers(const struct dt_rdzv *r)
{
    struct newcomers new = {0};
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (!rdzv_is_ready(m) || rdzv_is_out(r, m, NULL))
            continue;
        if (new.count++ == 0) {
            new.one = m;
            new.first = m->joined_at;
        }
        new.last = m->joined_at;
    }
    return new;
}

/* When they are to be taken in: the round may run for --grow-interval, and others who are on their
 * way are waited for as in a last call, but only while the job can use them. */
static dt_ms time_to_grow(const struct dt_rdzv *r, const struct newcomers *new)
{
    dt_ms interval = r->spec.grow_interval, quiet = interval < QUIET ? interval : QUIET;
    dt_ms at = dt_clock_after(r->since, interval);
    dt_ms call = new->last + quiet, end = dt_clock_after(new->first, r->spec.last_call);
    bool full = r->seats_len + new->count >= rdzv_target(r);
    bool complete = r->expected > 0 && r->members.count == (size_t)r->expected;
    if (call > end)
        call = end;
    return full || complete || call < at ? at : call;
}

/* Once somebody is done nobody is taken in any more: the job is about to end. */
static bool can_grow(const struct dt_rdzv *r)
{
    const size_t(*counts)[DT_LINKS] = r->members.counts;
    return r->state == DT_RUN_RUNNING && !r->running.recovery.until &&
           r->seats_len < rdzv_target(r) &&
           counts[DT_MEMBER_DONE][DT_LINK_ONLINE] + counts[DT_MEMBER_DONE][DT_LINK_SUSPECT] +
                   r->running.done_gone ==
               0;
}

static void take_in(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct newcomers *new)
{
    char why[DT_WHY_MAX];
    size_t others = new->count - 1;
    if (others == 0)
        snprintf(why, sizeof why, "%s joins", new->one->name.text);
    else
        snprintf(why, sizeof why, "%s and %zu other node%s join", new->one->name.text, others,
                 others == 1 ? "" : "s");
    rdzv_fence(r, out, true, why);
}

void rdzv_grow(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    if (!can_grow(r) || r->members.counts[DT_MEMBER_WAITING][DT_LINK_ONLINE] == 0 ||
        r->now < r->running.grow_at)
        return;
    struct newcomers new = find_newcomers(r);
    r->running.grow_at = new.count ? time_to_grow(r, &new) : dt_exclude_next(r->exclude, r->now);
    if (new.count && r->now >= r->running.grow_at)
        take_in(r, out, &new);
}

bool rdzv_will_grow(const struct dt_rdzv *r)
{
    return can_grow(r) && r->running.grow_at > r->now && r->running.grow_at < DT_FOREVER;
}
