/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/turns.h"

#include <sched.h>

/* How many peers with work left over get their share in one turn; when it is late, all that it has
 * time for. */
#define PEERS_PER_TURN 4
#define MOST_SPIN_MISSES 10

static bool spinning(struct dt_store_turns *t)
{
    if (t->spin_until == 0)
        return false;
    if (uv_hrtime() < t->spin_until) {
        sched_yield(); /* to the very client that is waited for, where it shares our processor */
        return true;
    }
    t->spin_until = 0;
    if (t->spin_misses < MOST_SPIN_MISSES)
        t->spin_misses++;
    t->spin_skips = (1u << t->spin_misses) - 1;
    return false;
}

bool dt_store_turns_over(struct dt_store_turns *t)
{
    if (t->late && !t->working)
        return true;
    uint64_t now = uv_hrtime();
    if (t->ends == 0)
        t->ends = now + t->half;
    if (now < t->ends)
        return false;
    t->late = true;
    return true;
}

/* Calls those that were due when it began, until it is time to look at the sockets again; the
 * others stay in front of whoever has come meanwhile. */
static void call_due(struct dt_store_turns *t)
{
    struct dt_list now;
    struct dt_node *n;
    dt_list_init(&now);
    dt_list_move(&now, &t->due);
    t->working = true;
    t->ends = 0;
    for (int i = 0; i < PEERS_PER_TURN || t->late; i++) {
        if (dt_store_turns_over(t) || !(n = dt_list_pop(&now)))
            break;
        t->on_due(n);
    }
    t->working = false;
    dt_list_move(&now, &t->due);
    dt_list_move(&t->due, &now);
}

static void on_work(uv_idle_t *h)
{
    struct dt_store_turns *t = dt_container_of(h, struct dt_store_turns, work);
    call_due(t);
    if (dt_list_empty(&t->due))
        t->late = false;
    if (dt_list_empty(&t->due) && !spinning(t))
        uv_idle_stop(&t->work);
}

void dt_store_turns_add(struct dt_store_turns *t, struct dt_node *in_due)
{
    if (dt_node_linked(in_due))
        return;
    uv_idle_start(&t->work, on_work); /* does nothing where it is active */
    dt_list_append(&t->due, in_due);
}

void dt_store_turns_expect_more(struct dt_store_turns *t, uint64_t spin)
{
    if (spin == 0 || t->spin_turn == t->number)
        return;
    t->spin_turn = t->number;
    uint64_t now = uv_hrtime();
    if (now < t->spin_until) {
        t->spin_misses = 0;
    } else if (t->spin_skips > 0) {
        t->spin_skips--;
        return;
    }
    t->spin_until = now + spin;
    uv_idle_start(&t->work, on_work);
}

static void on_prepare(uv_prepare_t *h)
{
    struct dt_store_turns *t = dt_container_of(h, struct dt_store_turns, count);
    t->number++;
    t->ends = 0;
    t->on_turn(t);
}

void dt_store_turns_open(struct dt_store_turns *t)
{
    dt_list_init(&t->due);
    uv_prepare_init(t->loop, &t->count);
    uv_prepare_start(&t->count, on_prepare);
    uv_unref((uv_handle_t *)&t->count); /* counting turns keeps no loop alive */
    uv_idle_init(t->loop, &t->work);
}

void dt_store_turns_close(struct dt_store_turns *t, void (*on_closed)(void *arg), void *arg)
{
    dt_ending_begin(&t->ending, NULL, NULL, on_closed, arg);
    dt_ending_close(&t->ending, &t->count);
    dt_ending_close(&t->ending, &t->work);
}
