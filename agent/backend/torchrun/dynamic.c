/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/dynamic.h"

#include <stdlib.h>
#include <string.h>

/* All agents of a job have to go by the same times, and torchrun's are fixed. */
#define BEAT (5 * DT_SECOND)
#define SILENCE (3 * BEAT)       /* then a node is taken for dead */
#define ROLLBACK (5 * DT_SECOND) /* to take back one's joining when the time for it is over */

static int64_t us(dt_ms t)
{
    return t * 1000;
}

/* -- who is there ----------------------------------------------------------------------------- */

static int compare(const struct dt_dynamic_node *a, const struct dt_dynamic_node *b)
{
    int by_addr = strcmp(a->addr, b->addr); /* UTF-8 sorts as code points do */
    if (by_addr != 0)
        return by_addr;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return a->local_id < b->local_id ? -1 : a->local_id > b->local_id;
}

struct dt_dynamic_member *dt_dynamic_find(const struct dt_dynamic_state *s,
                                          const struct dt_dynamic_node *node)
{
    for (size_t i = 0; i < s->count; i++)
        if (compare(&s->members[i].node, node) == 0)
            return &s->members[i];
    return NULL;
}

struct dt_dynamic_member *dt_dynamic_add(struct dt_dynamic_state *s,
                                         const struct dt_dynamic_node *node)
{
    struct dt_dynamic_member *m = dt_dynamic_find(s, node);
    if (m)
        return m;
    if (s->count == s->room) {
        size_t room = s->room ? 2 * s->room : 16;
        if (s->count == DT_DYNAMIC_NODES_MAX || !(m = realloc(s->members, room * sizeof *m)))
            return NULL;
        s->members = m;
        s->room = room;
    }
    m = &s->members[s->count++];
    *m = (struct dt_dynamic_member){.node = *node};
    return m;
}

/* One that is in no list any more. */
static void drop_strangers(struct dt_dynamic_state *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct dt_dynamic_member *m = &s->members[i];
        if (m->participates || m->waits || m->redundant || m->beats)
            s->members[kept++] = *m;
    }
    s->count = kept;
}

void dt_dynamic_finish(struct dt_dynamic_state *s)
{
    free(s->members);
    *s = (struct dt_dynamic_state){0};
}

int dt_dynamic_copy(struct dt_dynamic_state *to, const struct dt_dynamic_state *from,
                    struct dt_err *err)
{
    struct dt_dynamic_member *members = calloc(from->count + 1, sizeof *members);
    if (!members)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a rendezvous of %zu nodes", from->count);
    for (size_t i = 0; i < from->count; i++)
        members[i] = from->members[i];
    dt_dynamic_finish(to);
    *to = *from;
    to->members = members;
    to->room = from->count + 1;
    return 0;
}

size_t dt_dynamic_participants(const struct dt_dynamic_state *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += s->members[i].participates;
    return n;
}

size_t dt_dynamic_waiting(const struct dt_dynamic_state *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        n += s->members[i].waits;
    return n;
}

const struct dt_dynamic_member *dt_dynamic_missing(const struct dt_dynamic_state *then,
                                                   const struct dt_dynamic_state *now)
{
    for (size_t i = 0; i < then->count; i++) {
        const struct dt_dynamic_member *was = &then->members[i];
        const struct dt_dynamic_member *is = dt_dynamic_find(now, &was->node);
        if (was->participates && (now->round != then->round || !is || !is->participates))
            return was;
    }
    return NULL;
}

/* -- changes ---------------------------------------------------------------------------------- */

static void after_removal(struct dt_dynamic_state *s, const struct dt_dynamic_self *self)
{
    size_t left = dt_dynamic_participants(s);
    if (s->complete && left == 0) {
        s->complete = false;
        s->round++;
    } else if (!s->complete && left < self->min_nodes) {
        s->deadline = 0;
    }
}

/* M is in no list any more, and is gone. */
static enum dt_dynamic_act remove_member(struct dt_dynamic_state *s,
                                         const struct dt_dynamic_self *self,
                                         struct dt_dynamic_member *m)
{
    bool participated = m->participates;
    m->participates = m->waits = m->redundant = m->beats = false;
    drop_strangers(s);
    if (participated)
        after_removal(s, self);
    return DT_DYNAMIC_WRITE;
}

void dt_dynamic_sanitize(struct dt_dynamic_state *s, const struct dt_dynamic_self *self,
                         int64_t wall)
{
    bool participated = false;
    for (size_t i = 0; i < s->count; i++) {
        struct dt_dynamic_member *m = &s->members[i];
        if (!m->beats || m->heartbeat >= wall - us(SILENCE))
            continue;
        participated |= m->participates;
        m->participates = m->waits = m->redundant = m->beats = false;
    }
    drop_strangers(s);
    if (participated)
        after_removal(s, self);
}

static enum dt_dynamic_act beat(struct dt_dynamic_member *m, int64_t wall)
{
    m->beats = true;
    m->heartbeat = wall;
    return DT_DYNAMIC_WRITE;
}

static void complete(struct dt_dynamic_state *s)
{
    s->complete = true;
    s->deadline = 0;
    for (size_t i = 0; i < s->count; i++) {
        s->members[i].rank = 0;
        for (size_t j = 0; j < s->count; j++)
            s->members[i].rank +=
                s->members[j].participates && compare(&s->members[j].node, &s->members[i].node) < 0;
    }
}

static enum dt_dynamic_act participate(struct dt_dynamic_state *s,
                                       const struct dt_dynamic_self *self, int64_t wall)
{
    struct dt_dynamic_member *me = dt_dynamic_add(s, &self->node);
    if (!me)
        return DT_DYNAMIC_FULL;
    me->waits = me->redundant = false;
    me->participates = true;
    me->rank = 0;
    beat(me, wall);
    if (dt_dynamic_participants(s) == self->min_nodes)
        s->deadline = wall + us(self->last_call);
    if (dt_dynamic_participants(s) == self->max_nodes)
        complete(s);
    return DT_DYNAMIC_WRITE;
}

/* For the next round; as one too many where the dialect has that. */
static enum dt_dynamic_act queue_up(struct dt_dynamic_state *s, const struct dt_dynamic_self *self,
                                    bool redundant, int64_t wall)
{
    struct dt_dynamic_member *me = dt_dynamic_add(s, &self->node);
    if (!me)
        return DT_DYNAMIC_FULL;
    me->redundant = redundant;
    me->waits = !redundant;
    return beat(me, wall);
}

/* -- what an agent is about ------------------------------------------------------------------- */

enum dt_dynamic_act dt_dynamic_beat(struct dt_dynamic_state *s, const struct dt_dynamic_self *self,
                                    int64_t wall)
{
    struct dt_dynamic_member *me = dt_dynamic_find(s, &self->node);
    return me && me->beats && me->heartbeat <= wall - us(BEAT) ? beat(me, wall) : DT_DYNAMIC_DONE;
}

/* Keeps itself alive meanwhile. */
static enum dt_dynamic_act idle(struct dt_dynamic_state *s, const struct dt_dynamic_self *self,
                                int64_t wall)
{
    return dt_dynamic_beat(s, self, wall) == DT_DYNAMIC_WRITE ? DT_DYNAMIC_WRITE : DT_DYNAMIC_SLEEP;
}

enum dt_dynamic_act dt_dynamic_exit(struct dt_dynamic_state *s, const struct dt_dynamic_self *self)
{
    struct dt_dynamic_member *me = dt_dynamic_find(s, &self->node);
    return me && me->participates ? remove_member(s, self, me) : DT_DYNAMIC_DONE;
}

enum dt_dynamic_act dt_dynamic_leave(struct dt_dynamic_state *s, const struct dt_dynamic_self *self)
{
    struct dt_dynamic_member *me = dt_dynamic_find(s, &self->node);
    return me ? remove_member(s, self, me) : DT_DYNAMIC_DONE;
}

enum dt_dynamic_act dt_dynamic_close(struct dt_dynamic_state *s)
{
    if (s->closed)
        return DT_DYNAMIC_DONE;
    s->closed = true;
    return DT_DYNAMIC_WRITE;
}

/* No time-out here: it is not waited for, and may wait. */
static enum dt_dynamic_act be_redundant(struct dt_dynamic_state *s, struct dt_dynamic_self *self,
                                        struct dt_dynamic_member *me, dt_ms now, int64_t wall)
{
    if (dt_dynamic_participants(s) == self->max_nodes)
        return idle(s, self, wall);
    self->deadline = dt_clock_after(now, self->join_timeout);
    return remove_member(s, self, me);
}

static enum dt_dynamic_act be_late(struct dt_dynamic_state *s, const struct dt_dynamic_self *self,
                                   struct dt_dynamic_member *me, dt_ms now)
{
    bool listed = me && (me->participates || me->waits);
    return listed && now <= dt_clock_after(self->deadline, ROLLBACK) ? remove_member(s, self, me)
                                                                     : DT_DYNAMIC_TIMEOUT;
}

/* A round is under way without this node. */
static enum dt_dynamic_act await_round(struct dt_dynamic_state *s,
                                       const struct dt_dynamic_self *self,
                                       const struct dt_dynamic_member *me, int64_t wall)
{
    bool full = dt_dynamic_participants(s) >= self->max_nodes;
    if ((me && me->waits) || (full && !s->dialect.redundancy))
        return idle(s, self, wall);
    return queue_up(s, self, full, wall);
}

/* In a round that has not begun. */
static enum dt_dynamic_act await_nodes(struct dt_dynamic_state *s,
                                       const struct dt_dynamic_self *self, int64_t wall)
{
    size_t n = dt_dynamic_participants(s);
    if (n < self->min_nodes || n > self->max_nodes || s->deadline == 0 || s->deadline >= wall)
        return idle(s, self, wall);
    complete(s);
    return DT_DYNAMIC_WRITE;
}

enum dt_dynamic_act dt_dynamic_join(struct dt_dynamic_state *s, struct dt_dynamic_self *self,
                                    dt_ms now, int64_t wall)
{
    struct dt_dynamic_member *me = dt_dynamic_find(s, &self->node);
    bool participates = me && me->participates, redundant = me && me->redundant;
    if (s->closed)
        return redundant ? DT_DYNAMIC_RELEASED : DT_DYNAMIC_CLOSED;
    if (redundant)
        return be_redundant(s, self, me, now, wall);
    if (s->complete && participates)
        return DT_DYNAMIC_DONE;
    if (now > self->deadline)
        return be_late(s, self, me, now);
    if (s->complete)
        return await_round(s, self, me, wall);
    return participates ? await_nodes(s, self, wall) : participate(s, self, wall);
}
