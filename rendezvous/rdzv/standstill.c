/* SPDX-License-Identifier: Apache-2.0 */
/* A job stands still when all its nodes say so of their workers. Then all are looked at together,
 * the judge says why, and every node is told, once. The first node whose workers move again ends
 * it.
 *
 *           all nodes say so                 there is a reason
 *   NONE ---------------------> LOOKING --------------------------> FOUND
 *     ^                            | there is none, or one moves       | one moves
 *     +----------------------------+-----------------------------------+ */
#include "rendezvous/rdzv/inside.h"

#include "base/log.h"
#include "base/str.h"
#include "rendezvous/hang/doubt.h"
#include "rendezvous/hang/finding.h"

#include <stdio.h>

#define LOOK_AGAIN (5 * DT_SECOND) /* after a look that explained nothing */

enum { STATES = DT_STANDSTILL_FOUND + 1 };

/* clang-format off */
static const bool may_follow[STATES][STATES] = {
    [DT_STANDSTILL_NONE] = {[DT_STANDSTILL_LOOKING] = true},
    [DT_STANDSTILL_LOOKING] = {
        [DT_STANDSTILL_FOUND] = true,
        [DT_STANDSTILL_NONE] = true,
    },
    [DT_STANDSTILL_FOUND] = {[DT_STANDSTILL_NONE] = true},
};
/* clang-format on */

static void become(struct dt_standstill *s, enum dt_standstill_state state)
{
    if (!may_follow[s->state][state])
        dt_bug("a standstill is in state %d and cannot be in %d", s->state, state);
    s->state = state; /* the only assignment */
}

/* -- do all stand still? ---------------------------------------------------------------------- */

static bool moves(const struct dt_member *m)
{
    return m->doing == DT_MEMBER_RUNNING && m->still_at == 0;
}

static bool runs(const struct dt_member *m)
{
    return m->doing == DT_MEMBER_RUNNING;
}

/* All nodes of the round are there, and none of those whose workers run has not said so. */
static bool all_stand_still(struct dt_rdzv *r)
{
    struct dt_standstill *s = &r->running.standstill;
    const struct dt_member *last = dt_members_find(&r->members, s->mover);
    bool any = false;
    if (r->running.recovery.until || (last && moves(last)))
        return false;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        any = any || runs(m);
        if (!moves(m))
            continue;
        s->mover = m->id;
        return false;
    }
    return any;
}

/* For how long all of them have, and whether one of them knows that this is no way to work. */
static dt_ms for_how_long(const struct dt_rdzv *r, bool *sure)
{
    dt_ms least = DT_FOREVER;
    *sure = false;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (!runs(m))
            continue;
        dt_ms still = dt_clock_after(m->still, r->now - m->still_at);
        least = still < least ? still : least;
        *sure = *sure || m->still_sure;
    }
    return least;
}

/* -- why? ------------------------------------------------------------------------------------- */

/* On which RANK runs; NULL: on none that is here. */
static const char *node_of(const struct dt_rdzv *r, int rank)
{
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (runs(m) && rank >= m->first_rank && rank - m->first_rank < m->workers)
            return m->name.text;
    }
    return NULL;
}

static void tell(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m)
{
    bool has_part = m->doing == DT_MEMBER_RUNNING || m->doing == DT_MEMBER_DONE;
    if (!has_part || !m->looks || !m->connected || m->told_finding)
        return;
    struct dt_rdzv_action *a = rdzv_send(out, m->id, DT_MSG_FINDING, r->round, 0);
    if (!a)
        return;
    a->finding.what = &r->running.standstill.finding;
    a->finding.stances = &r->running.standstill.stances;
    m->told_finding = true;
}

static void tell_all(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    dt_list_each(&r->members.all, n) tell(r, out, dt_container_of(n, struct dt_member, in_all));
}

/* Of the first rank of those for whom the others wait, and its node. */
static void say_found(const struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    const struct dt_standstill *s = &r->running.standstill;
    int rank = dt_hang_first_rank(&s->stances, s->finding.culprit);
    struct dt_rdzv_action *a =
        rdzv_tell(r, out, DT_EVENT_HANG, node_of(r, rank), "%s", s->finding.sentence);
    if (a)
        a->tell.rank = rank;
}

static void judge(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    struct dt_standstill *s = &r->running.standstill;
    const struct dt_stances *all = &r->running.look.stances;
    bool sure;
    dt_ms still = for_how_long(r, &sure);
    dt_hang_judge(all, r->size, still, &s->finding);
    if (s->finding.class == DT_HANG_NONE || (!sure && dt_hang_is_in_doubt(all))) {
        become(s, DT_STANDSTILL_NONE);
        s->not_before = dt_clock_after(r->now, LOOK_AGAIN);
        return;
    }
    become(s, DT_STANDSTILL_FOUND);
    s->since = r->now - still;
    dt_stances_finish(&s->stances);
    dt_stances_merge(&s->stances, all, NULL); /* no memory: the sentence alone goes out */
    say_found(r, out);
    tell_all(r, out);
}

/* -- it is over ------------------------------------------------------------------------------- */

static void forget_told(struct dt_rdzv *r)
{
    dt_list_each(&r->members.all, n) dt_container_of(n, struct dt_member, in_all)->told_finding =
        false;
}

static void move_again(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_member *m)
{
    struct dt_standstill *s = &r->running.standstill;
    char time[32];
    if (s->state == DT_STANDSTILL_FOUND) {
        dt_str_from_duration(r->now - s->since, time, sizeof time);
        rdzv_tell(r, out, DT_EVENT_HANG_OVER, m->name.text, "moves again, as %s says, after %s",
                  m->name.text, time);
        forget_told(r);
    }
    if (s->state != DT_STANDSTILL_NONE)
        become(s, DT_STANDSTILL_NONE);
    s->mover = m->id;
}

void rdzv_standstill_forget(struct dt_rdzv *r)
{
    dt_stances_finish(&r->running.standstill.stances);
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        m->still = m->still_at = 0;
        m->asked = m->looked = 0;
        m->told_finding = false;
    }
}

/* -- what comes ------------------------------------------------------------------------------- */

void rdzv_standstill_take(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                          const struct dt_message *f)
{
    if (r->state != DT_RUN_RUNNING || f->round != r->round || !runs(m))
        return;
    m->still = f->still.still;
    m->still_at = f->still.still > 0 ? r->now : 0;
    m->still_sure = f->still.sure;
    if (m->still_at == 0)
        move_again(r, out, m);
    else if (r->running.standstill.state == DT_STANDSTILL_FOUND)
        tell(r, out, m); /* it was not connected when the others were told */
}

void rdzv_standstill_settle(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    struct dt_standstill *s = &r->running.standstill;
    if (r->state != DT_RUN_RUNNING)
        return;
    if (s->state == DT_STANDSTILL_NONE && r->now >= s->not_before && all_stand_still(r)) {
        become(s, DT_STANDSTILL_LOOKING);
        rdzv_look_begin(r, false, out);
        rdzv_look_settle(r); /* nobody may be there to be asked */
    }
    if (s->state == DT_STANDSTILL_LOOKING && r->running.look.state == DT_ROUND_LOOK_THERE)
        judge(r, out);
}

dt_ms rdzv_standstill_next(const struct dt_rdzv *r)
{
    const struct dt_standstill *s = &r->running.standstill;
    return s->state == DT_STANDSTILL_NONE && s->not_before > r->now ? s->not_before : DT_FOREVER;
}

const char *dt_rdzv_standstill(const struct dt_rdzv *r)
{
    const struct dt_standstill *s = &r->running.standstill;
    return s->state == DT_STANDSTILL_FOUND ? s->finding.sentence : NULL;
}
