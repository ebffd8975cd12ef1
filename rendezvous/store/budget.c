/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/budget.h"

static struct dt_store_holding *holder(struct dt_node *n)
{
    return dt_container_of(n, struct dt_store_holding, in_holders);
}

void dt_store_budget_init(struct dt_store_budget *b, uint64_t limit)
{
    *b = (struct dt_store_budget){.limit = limit};
    dt_list_init(&b->holders);
    dt_list_init(&b->waiting);
}

void dt_store_holding_init(struct dt_store_holding *h)
{
    *h = (struct dt_store_holding){0};
    dt_node_init(&h->in_holders);
    dt_node_init(&h->in_waiting);
}

uint64_t dt_store_budget_most(const struct dt_store_budget *b)
{
    return b->limit - b->limit / 8;
}

/* By how much the budget would be passed if H held BYTES; 0: there is room. */
static uint64_t lacking(const struct dt_store_budget *b, const struct dt_store_holding *h,
                        uint64_t bytes)
{
    uint64_t limit = bytes > DT_STORE_HOLDS_LITTLE ? dt_store_budget_most(b) : b->limit;
    uint64_t held = b->held - h->bytes + bytes;
    return bytes > h->bytes && held > limit ? held - limit : 0;
}

static void restart_clock(struct dt_store_budget *b, struct dt_store_holding *h, dt_ms now)
{
    h->moved = 0;
    h->moved_at = now;
    dt_list_remove(&h->in_holders);
    dt_list_append(&b->holders, &h->in_holders);
}

void dt_store_budget_set(struct dt_store_budget *b, struct dt_store_holding *h, uint64_t bytes,
                         dt_ms now)
{
    bool held_some = h->bytes > 0;
    b->held += bytes - h->bytes;
    h->bytes = bytes;
    if (bytes == 0)
        dt_list_remove(&h->in_holders);
    else if (!held_some)
        restart_clock(b, h, now);
}

bool dt_store_budget_take(struct dt_store_budget *b, struct dt_store_holding *h, uint64_t bytes,
                          dt_ms now)
{
    if (lacking(b, h, bytes) == 0) {
        dt_list_remove(&h->in_waiting);
        dt_store_budget_set(b, h, bytes, now);
        return true;
    }
    h->wanted = bytes;
    if (!dt_node_linked(&h->in_waiting))
        dt_list_append(&b->waiting, &h->in_waiting);
    return false;
}

void dt_store_budget_moved(struct dt_store_budget *b, struct dt_store_holding *h, uint64_t n,
                           dt_ms now)
{
    h->moved += n;
    if (h->bytes > 0 && h->moved >= DT_STORE_MOVE_LEAST)
        restart_clock(b, h, now);
}

void dt_store_budget_leave(struct dt_store_budget *b, struct dt_store_holding *h)
{
    dt_store_budget_set(b, h, 0, 0);
    dt_list_remove(&h->in_waiting);
}

static struct dt_store_holding *first_waiting(const struct dt_store_budget *b)
{
    struct dt_node *n = dt_list_first(&b->waiting);
    return n ? dt_container_of(n, struct dt_store_holding, in_waiting) : NULL;
}

struct dt_store_holding *dt_store_budget_next(struct dt_store_budget *b)
{
    struct dt_store_holding *h = first_waiting(b);
    if (!h || lacking(b, h, h->wanted) > 0)
        return NULL;
    dt_list_remove(&h->in_waiting);
    return h;
}

static bool still_for(const struct dt_store_holding *h, dt_ms time, dt_ms now)
{
    return dt_clock_after(h->moved_at, time) <= now;
}

static uint64_t choose(struct dt_store_holding *h, struct dt_list *gone)
{
    dt_list_remove(&h->in_holders);
    dt_list_append(gone, &h->in_holders);
    return h->bytes;
}

static bool is_waiting(const struct dt_store_holding *h)
{
    return dt_node_linked(&h->in_waiting);
}

/* Those that wait for room themselves have longer, and a deadline all the same: several that wait,
 * and one that moves just enough, would keep everybody else waiting. */
static uint64_t choose_overdue(struct dt_store_budget *b, dt_ms now, struct dt_list *gone)
{
    uint64_t freed = 0;
    dt_list_each(&b->holders, n)
    {
        struct dt_store_holding *h = holder(n);
        if (!still_for(h, DT_STORE_MOVE_DEADLINE, now))
            break; /* the list is ordered by that time */
        bool over = !is_waiting(h) || still_for(h, DT_STORE_MOVE_KEPT, now);
        if (over && !h->excused)
            freed += choose(h, gone);
    }
    return freed;
}

/* What all that wait need together, beyond what is free. */
static uint64_t wanted_by_all(const struct dt_store_budget *b)
{
    uint64_t wanted = b->held;
    dt_list_each(&b->waiting, n)
    {
        const struct dt_store_holding *h = dt_container_of(n, struct dt_store_holding, in_waiting);
        wanted += h->wanted - h->bytes;
    }
    uint64_t room = dt_store_budget_most(b);
    return !dt_list_empty(&b->waiting) && wanted > room ? wanted - room : 0;
}

/* Nobody who holds bytes can move them: each waits for the others. */
static bool is_deadlock(const struct dt_store_budget *b)
{
    dt_list_each(&b->holders, n) if (!is_waiting(holder(n))) return false;
    return true;
}

/* Who may have to go for others, and what these hold on average: who holds less is spared. */
struct candidates {
    bool waiting; /* those that wait themselves, or those that do not */
    dt_ms now;
    uint64_t least;
};

static bool is_candidate(const struct candidates *c, const struct dt_store_holding *h)
{
    return still_for(h, DT_STORE_MOVE_PRESSED, c->now) && is_waiting(h) == c->waiting &&
           h->bytes >= c->least;
}

static struct candidates find_candidates(const struct dt_store_budget *b, dt_ms now)
{
    struct candidates c = {.waiting = is_deadlock(b), .now = now};
    uint64_t count = 0, sum = 0;
    dt_list_each(&b->holders, n)
    {
        if (is_candidate(&c, holder(n))) {
            sum += holder(n)->bytes;
            count++;
        }
    }
    c.least = count ? sum / count : 0;
    return c;
}

void dt_store_budget_choose(struct dt_store_budget *b, dt_ms now, struct dt_list *gone)
{
    uint64_t freed = choose_overdue(b, now, gone), wanted = wanted_by_all(b);
    if (freed >= wanted)
        return;
    struct candidates c = find_candidates(b, now);
    dt_list_each(&b->holders, n)
    {
        if (freed >= wanted)
            return;
        if (is_candidate(&c, holder(n)))
            freed += choose(holder(n), gone);
    }
}
