/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker holds the others up, of what all nodes of the round tell with their beats: the judge
 * is rendezvous/lag. Nodes hear of it with the answers to their beats, again and again, so that one
 * that was away knows it too. A node that wants that is drained where a spare can take its place.
 */
#include "rendezvous/rdzv/inside.h"

#include <stdio.h>

void rdzv_straggler_forget(struct dt_rdzv *r)
{
    dt_lag_begin(&r->running.lag, 0);
    dt_list_each(&r->members.all, n) dt_container_of(n, struct dt_member, in_all)->lag =
        (struct dt_lag_node){0};
}

/* Nobody speaks for the workers of others. */
static bool is_own(const struct dt_member *m, const struct dt_own_time *t)
{
    return t->ranks == m->workers && t->rank >= m->first_rank &&
           t->rank - m->first_rank < m->workers;
}

/* Another agent on the host of M is drained with it. */
static bool has_spare(const struct dt_rdzv *r, const struct dt_member *m)
{
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *other = dt_container_of(n, struct dt_member, in_all);
        if (rdzv_is_ready(other) && !rdzv_is_out(r, other, NULL) &&
            strcmp(other->said_name, m->said_name) != 0)
            return true;
    }
    return false;
}

/* A rank that is slow wherever it runs is so by its program or its data: then no spare helps, and
 * one after the other would go. */
static bool may_help(const struct dt_rdzv *r, int rank)
{
    return !r->swapped || rank != r->swapped_rank;
}

static void drain(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                  const struct dt_own_time *t)
{
    char why[DT_STRAGGLER_MAX];
    bool known = t->reason && *t->reason;
    snprintf(why, sizeof why, "rank %d held the others up%s%s", t->rank, known ? ": " : "",
             known ? t->reason : "");
    if (dt_exclude_drain(r->exclude, m->name.text, false, why, r->now) < 0)
        return; /* no memory: it stays */
    r->swapped = true;
    r->swapped_rank = t->rank;
    rdzv_journal_node(out, m->name.text);
    rdzv_drain_member(r, out, m);
}

/* One that is named and whose node wants that. */
static void make_room(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                      const struct dt_own_time *t)
{
    if (!may_help(r, t->rank))
        rdzv_say(out, DT_EVENT_INFO,
                 "%s is not drained: rank %d was slow on another node too, so its program or its "
                 "data is to blame",
                 m->name.text, t->rank);
    else if (has_spare(r, m))
        drain(r, out, m, t);
}

/* The sentence is about a rank of M. */
static void tell(const struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_member *m)
{
    const struct dt_lag *l = &r->running.lag;
    enum dt_event_kind kind =
        l->state == DT_LAG_THERE ? DT_EVENT_STRAGGLER : DT_EVENT_STRAGGLER_OVER;
    struct dt_rdzv_action *a = rdzv_tell(r, out, kind, m->name.text, "%s", l->sentence);
    if (a)
        a->tell.rank = l->rank;
}

void rdzv_straggler_take(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                         const struct dt_own_time *t)
{
    struct dt_lag *l = &r->running.lag;
    if (!is_own(m, t))
        return;
    if (l->size != r->size) {
        rdzv_straggler_forget(r);
        dt_lag_begin(l, r->size);
    }
    if (!dt_lag_take(l, &m->lag, m->name.text, t, r->now))
        return;
    tell(r, out, m);
    if (l->state == DT_LAG_THERE && t->may_drain)
        make_room(r, out, m, t);
}

const struct dt_lag *dt_rdzv_straggler(const struct dt_rdzv *r)
{
    return r->state == DT_RUN_RUNNING && r->running.lag.state == DT_LAG_THERE ? &r->running.lag
                                                                              : NULL;
}
