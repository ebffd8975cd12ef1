/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of a run whatever it was told, looked at from nothing: the books against what they
 * are kept of. */
#ifndef DT_TESTS_FUZZ_RDZV_TRUTH_H
#define DT_TESTS_FUZZ_RDZV_TRUTH_H

#include "rendezvous/rdzv/rdzv.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static inline bool has_workers(const struct dt_member *m)
{
    return m->doing == DT_MEMBER_RUNNING || m->doing == DT_MEMBER_DONE;
}

static inline void check_member(const struct dt_rdzv *r, const struct dt_member *m)
{
    FUZZ_CHECK(dt_members_find(&r->members, m->id) == m);
    FUZZ_CHECK(dt_members_find_name(&r->members, m->name.text) == m);
    FUZZ_CHECK(dt_node_linked(&m->in_time));
    FUZZ_CHECK(m->connected || m->link == DT_LINK_SUSPECT);
    if (r->state != DT_RUN_RUNNING || !has_workers(m))
        return;
    FUZZ_CHECK(m->seat >= 0 && (size_t)m->seat < r->seats_len);
    FUZZ_CHECK(r->seats[m->seat].holder == m->id);
    FUZZ_CHECK(r->seats[m->seat].done == (m->doing == DT_MEMBER_DONE));
    FUZZ_CHECK(m->round == r->round);
}

static inline size_t length(const struct dt_list *l)
{
    size_t n = 0;
    dt_list_each(l, i) n++;
    return n;
}

static inline void check_members(const struct dt_rdzv *r)
{
    const struct dt_members *ms = &r->members;
    size_t counts[DT_MEMBER_DOINGS][DT_LINKS] = {{0}};
    dt_list_each(&ms->all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        check_member(r, m);
        counts[m->doing][m->link]++;
        FUZZ_CHECK(r->state != DT_RUN_GATHERING || !has_workers(m));
    }
    FUZZ_CHECK(memcmp(counts, ms->counts, sizeof counts) == 0);
    FUZZ_CHECK(length(&ms->all) == ms->count);
    FUZZ_CHECK(length(&ms->unheard) == ms->connected);
    FUZZ_CHECK(ms->by_id.count == ms->count && ms->by_name.count == ms->count);
    FUZZ_CHECK(length(&ms->unheard) + length(&ms->lost) + length(&ms->restored) == ms->count);
}

/* A seat that nobody has is one of a node that was done, or one that is still waited for. */
static inline void check_seats(const struct dt_rdzv *r)
{
    size_t done_gone = 0;
    if (r->state != DT_RUN_RUNNING)
        return;
    FUZZ_CHECK(r->had_world && r->seats_len > 0);
    for (size_t i = 0; i < r->seats_len; i++) {
        const struct dt_seat *s = &r->seats[i];
        const struct dt_member *m = s->holder ? dt_members_find(&r->members, s->holder) : NULL;
        FUZZ_CHECK(!s->holder || (m && has_workers(m) && (size_t)m->seat == i));
        FUZZ_CHECK(s->holder || s->done || r->running.recovery.until);
        done_gone += !s->holder && s->done;
    }
    FUZZ_CHECK(done_gone == r->running.done_gone);
}

static inline void check_truth(const struct dt_rdzv *r)
{
    FUZZ_CHECK(r->round >= 0);
    check_members(r);
    check_seats(r);
}

/* Time that was looked at is not due again: else a timer would go off for ever. */
static inline void check_rest(struct dt_rdzv *r, struct dt_rdzv_actions *out, dt_ms now)
{
    for (int i = 0; i < 3 && !dt_rdzv_is_idle(r, now) && dt_rdzv_next(r) <= now; i++)
        dt_rdzv_step(r, &(struct dt_rdzv_event){.type = DT_EV_TICK}, now, out);
    FUZZ_CHECK(dt_rdzv_is_idle(r, now) || dt_rdzv_next(r) > now);
}

#endif
