/* SPDX-License-Identifier: Apache-2.0 */
/* A look at all workers of the round: the nodes are asked together, and who does not answer within
 * a second is unknown; within more where calls of C code are asked for, too. However many people
 * ask, a node looks once a second at most; and once for C code. */
#include "rendezvous/rdzv/inside.h"

#include "base/log.h"

#define PATIENCE DT_SECOND               /* with those who were asked */
#define PATIENCE_NATIVE (14 * DT_SECOND) /* ... who give themselves 12 */
#define GOOD_FOR DT_SECOND

enum { STATES = DT_ROUND_LOOK_THERE + 1 };

/* clang-format off */
static const bool may_follow[STATES][STATES] = {
    [DT_ROUND_LOOK_NONE] = {[DT_ROUND_LOOK_ASKED] = true},
    [DT_ROUND_LOOK_ASKED] = {[DT_ROUND_LOOK_THERE] = true},
    [DT_ROUND_LOOK_THERE] = {[DT_ROUND_LOOK_ASKED] = true},
};
/* clang-format on */

static void become(struct dt_round_look *l, enum dt_round_look_state state)
{
    if (!may_follow[l->state][state])
        dt_bug("a look at a round is in state %d and cannot be in %d", l->state, state);
    l->state = state; /* the only assignment */
}

/* -- asking ----------------------------------------------------------------------------------- */

static bool can_be_asked(const struct dt_member *m)
{
    return m->doing == DT_MEMBER_RUNNING && m->looks && m->connected;
}

static void ask(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m)
{
    struct dt_round_look *l = &r->running.look;
    struct dt_rdzv_action *a = rdzv_send(out, m->id, DT_MSG_LOOK, r->round, 0);
    if (!a)
        return;
    a->look.id = l->id;
    a->look.native = l->native;
    m->asked = l->id;
    l->open++;
}

/* Workers that have succeeded are gone, which others may wait for in vain. */
static void note_done(struct dt_rdzv *r, const struct dt_member *m)
{
    struct dt_stance left = {.doing = DT_DOING_LEFT, .sequence = -1, .step = -1};
    struct dt_rank_range ranks = {m->first_rank, m->first_rank + m->workers - 1};
    struct dt_stance_group all = {left, &ranks, 1, m->workers};
    dt_stances_merge(&r->running.look.stances, &(struct dt_stances){&all, 1}, NULL);
}

/* Whether the last one still tells, and tells enough. */
static bool is_good(const struct dt_rdzv *r, bool native)
{
    const struct dt_round_look *l = &r->running.look;
    return l->state == DT_ROUND_LOOK_THERE && (l->native || !native) &&
           r->now < dt_clock_after(l->asked, GOOD_FOR);
}

void rdzv_look_begin(struct dt_rdzv *r, bool native, struct dt_rdzv_actions *out)
{
    struct dt_round_look *l = &r->running.look;
    if (r->state != DT_RUN_RUNNING || l->state == DT_ROUND_LOOK_ASKED || is_good(r, native))
        return;
    become(l, DT_ROUND_LOOK_ASKED);
    dt_stances_finish(&l->stances);
    l->id++;
    l->native = native;
    l->open = 0;
    l->asked = r->now;
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (can_be_asked(m))
            ask(r, out, m);
        else if (m->doing == DT_MEMBER_DONE)
            note_done(r, m);
    }
}

/* -- answers ---------------------------------------------------------------------------------- */

/* Nobody speaks for the workers of others. */
static bool is_own(const struct dt_member *m, const struct dt_stances *s)
{
    int last = m->first_rank + m->workers - 1;
    for (size_t i = 0; i < s->len; i++)
        for (size_t k = 0; k < s->at[i].len; k++)
            if (s->at[i].ranges[k].first < m->first_rank || s->at[i].ranges[k].last > last)
                return false;
    return true;
}

void rdzv_look_take(struct dt_rdzv *r, struct dt_member *m, const struct dt_message *f)
{
    struct dt_round_look *l = &r->running.look;
    const struct dt_stances *s = &f->looked.stances;
    if (r->state != DT_RUN_RUNNING || f->round != r->round || l->state != DT_ROUND_LOOK_ASKED ||
        f->looked.id != l->id || m->asked != l->id || m->looked == l->id)
        return;
    m->looked = l->id;
    l->open--;
    if (is_own(m, s))
        dt_stances_merge(&l->stances, s, NULL); /* no memory: they are unknown */
}

void rdzv_look_settle(struct dt_rdzv *r)
{
    struct dt_round_look *l = &r->running.look;
    if (l->state == DT_ROUND_LOOK_ASKED && (l->open == 0 || r->now >= rdzv_look_next(r)))
        become(l, DT_ROUND_LOOK_THERE);
}

dt_ms rdzv_look_next(const struct dt_rdzv *r)
{
    const struct dt_round_look *l = &r->running.look;
    if (l->state != DT_ROUND_LOOK_ASKED)
        return DT_FOREVER;
    return dt_clock_after(l->asked, l->native ? PATIENCE_NATIVE : PATIENCE);
}

void rdzv_look_forget(struct dt_rdzv *r)
{
    dt_stances_finish(&r->running.look.stances);
}

const struct dt_round_look *dt_rdzv_look(const struct dt_rdzv *r)
{
    return r->running.look.state == DT_ROUND_LOOK_THERE ? &r->running.look : NULL;
}

bool dt_rdzv_look_lacks(const struct dt_rdzv *r, const struct dt_member *m)
{
    return m->doing == DT_MEMBER_RUNNING && m->looked != r->running.look.id;
}
