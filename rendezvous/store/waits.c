/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/waits.h"

#include <stdlib.h>

/* A name that somebody waits for. */
struct awaited {
    struct dt_map_node node;
    struct dt_list tickets; /* the oldest first; never empty between calls */
    uint8_t name[];
};

/* One waiter's interest in one name. */
struct dt_store_ticket {
    struct dt_node in_awaited; /* unlinked: the name has come */
    struct awaited *awaited;
    struct dt_store_waiter *waiter;
};

void dt_store_waits_init(struct dt_store_waits *w, struct dt_store_account *account,
                         uint64_t hash_seed)
{
    w->account = account;
    dt_map_init(&w->awaited, offsetof(struct awaited, name), hash_seed);
}

void dt_store_waits_finish(struct dt_store_waits *w)
{
    dt_map_finish(&w->awaited, free);
}

static uint64_t awaited_cost(size_t name_len)
{
    return sizeof(struct awaited) + name_len + DT_STORE_ALLOCATION_COST;
}

static struct awaited *find_or_create(struct dt_store_waits *w, struct dt_bytes name,
                                      struct dt_err *err)
{
    struct awaited *a = dt_map_find(&w->awaited, name);
    if (a)
        return a;
    if (dt_store_charge(w->account, awaited_cost(name.len), err) < 0)
        return NULL;
    a = malloc(sizeof *a + name.len);
    if (!a) {
        dt_store_no_memory(w->account, awaited_cost(name.len), err);
        return NULL;
    }
    dt_bytes_copy(a->name, name);
    dt_list_init(&a->tickets);
    if (dt_store_enter(w->account, &w->awaited, a, (uint32_t)name.len, err) == 0)
        return a;
    dt_store_credit(w->account, awaited_cost(name.len));
    free(a);
    return NULL;
}

static void forget(struct dt_store_waits *w, struct awaited *a)
{
    dt_store_take_out(w->account, &w->awaited, (struct dt_bytes){a->name, a->node.key_len});
    dt_store_credit(w->account, awaited_cost(a->node.key_len));
    free(a);
}

static void drop_tickets(struct dt_store_waits *w, struct dt_store_waiter *who)
{
    dt_store_credit(w->account, who->ticket_count * sizeof *who->tickets);
    free(who->tickets);
    who->tickets = NULL;
    who->ticket_count = 0;
    who->missing = 0;
}

static void take_off(struct dt_store_waits *w, struct dt_store_ticket *t)
{
    dt_list_remove(&t->in_awaited);
    w->account->counts.waiting--;
}

void dt_store_waits_cancel(struct dt_store_waits *w, struct dt_store_waiter *who)
{
    for (size_t i = 0; i < who->ticket_count; i++) {
        struct dt_store_ticket *t = &who->tickets[i];
        if (!t->awaited || !dt_node_linked(&t->in_awaited))
            continue;
        take_off(w, t);
        if (dt_list_empty(&t->awaited->tickets))
            forget(w, t->awaited);
    }
    drop_tickets(w, who);
}

int dt_store_waits_begin(struct dt_store_waits *w, struct dt_store_waiter *who, uint64_t most,
                         struct dt_err *err)
{
    uint64_t cost = most * sizeof *who->tickets;
    dt_store_waits_cancel(w, who);
    if (dt_store_charge(w->account, cost, err) < 0)
        return -1;
    who->tickets = calloc(most, sizeof *who->tickets);
    if (!who->tickets)
        return dt_store_no_memory(w->account, cost, err);
    who->ticket_count = most;
    return 0;
}

/* Whether the last ticket on A is WHO's. All names of one wait are added at once, so it is if the
 * same name was added before. */
static bool is_added(const struct awaited *a, const struct dt_store_waiter *who)
{
    if (dt_list_empty(&a->tickets))
        return false;
    const struct dt_node *last = a->tickets.head.prev;
    return dt_container_of(last, struct dt_store_ticket, in_awaited)->waiter == who;
}

int dt_store_waits_add(struct dt_store_waits *w, struct dt_store_waiter *who, struct dt_bytes name,
                       struct dt_err *err)
{
    struct awaited *a = find_or_create(w, name, err);
    if (!a) {
        dt_store_waits_cancel(w, who);
        return -1;
    }
    if (is_added(a, who))
        return 0; /* so that one name wakes no more tickets than there are waiters */
    struct dt_store_ticket *t = &who->tickets[who->missing++];
    *t = (struct dt_store_ticket){.awaited = a, .waiter = who};
    dt_list_append(&a->tickets, &t->in_awaited);
    w->account->counts.waiting++;
    return 0;
}

size_t dt_store_waits_names(const struct dt_store_waiter *who, struct dt_bytes *names, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < who->ticket_count && n < most; i++) {
        const struct dt_store_ticket *t = &who->tickets[i];
        if (t->awaited && dt_node_linked(&t->in_awaited))
            names[n++] = (struct dt_bytes){t->awaited->name, t->awaited->node.key_len};
    }
    return n;
}

/* What ticket T waits for has come. The waiter's tickets are freed with the last of them, when none
 * is on any list. */
static void redeem(struct dt_store_waits *w, struct dt_store_ticket *t)
{
    struct dt_store_waiter *who = t->waiter;
    take_off(w, t);
    if (--who->missing > 0)
        return;
    drop_tickets(w, who);
    w->account->counts.woken++;
    who->woken(who);
}

static void redeem_first(struct dt_store_waits *w, struct awaited *a)
{
    redeem(w, dt_container_of(dt_list_first(&a->tickets), struct dt_store_ticket, in_awaited));
}

static struct awaited *find(const struct dt_store_waits *w, struct dt_bytes name)
{
    return w->awaited.count ? dt_map_find(&w->awaited, name) : NULL;
}

void dt_store_waits_wake_all(struct dt_store_waits *w, struct dt_bytes name)
{
    struct awaited *a = find(w, name);
    if (!a)
        return;
    while (!dt_list_empty(&a->tickets))
        redeem_first(w, a);
    forget(w, a);
}

void dt_store_waits_wake_one(struct dt_store_waits *w, struct dt_bytes name)
{
    struct awaited *a = find(w, name);
    if (!a)
        return;
    redeem_first(w, a);
    if (dt_list_empty(&a->tickets))
        forget(w, a);
}
