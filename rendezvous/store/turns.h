/* SPDX-License-Identifier: Apache-2.0 */
/* The turns of the loop that peers take: who has work for the next one, how long one may last, and
 * whether to sleep before it. Inside the server only.
 *
 * What is done for all peers together in one turn ends after a time, so that timers and signals
 * have theirs. From then on everybody stands in one queue, in the order of coming, until all that
 * was left over is done.
 *
 * Sleeping until the next request costs a wake-up of this process, which on an idle machine is most
 * of a round trip. So after a request the loop goes on looking for some time. Where that finds
 * nothing it is tried ever more rarely, up to one time in 1024: on a machine that needs its
 * processors for others, or with clients that ask now and then, next to nothing is spent on it. */
#ifndef DT_RENDEZVOUS_STORE_TURNS_H
#define DT_RENDEZVOUS_STORE_TURNS_H

#include "base/list.h"
#include "base/loop/ending.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* The owner sets the first block before dt_store_turns_open(). */
struct dt_store_turns {
    uv_loop_t *loop;
    void (*on_due)(struct dt_node *in_due);    /* its turn has come; it is on no list any more */
    void (*on_turn)(struct dt_store_turns *t); /* one begins */

    uint64_t half; /* ns of a turn, set before it runs: for the queue, and for what sockets bring */
    uint64_t number;    /* of the turn that runs */
    struct dt_list due; /* have work for the next */
    uint64_t ends;      /* this turn, on the clock of uv_hrtime(); 0: nobody has asked yet */
    bool late;          /* a turn ended before all was done: who comes now queues up behind */
    bool working;       /* those of the queue are called */
    uv_prepare_t count;
    uv_idle_t work; /* active while somebody is due, or requests are expected at once */
    struct dt_ending ending;
    uint64_t spin_until; /* no sleep before, on the clock of uv_hrtime(); 0: not spinning */
    uint64_t spin_turn;  /* the turn that spinning was last thought of */
    unsigned spin_misses, spin_skips;
};

void dt_store_turns_open(struct dt_store_turns *t);
void dt_store_turns_close(struct dt_store_turns *t, void (*on_closed)(void *arg), void *arg);

/* IN_DUE is called for in the next turn, or a later one when many are; once, however often it is
 * asked. dt_list_remove() takes it back. */
void dt_store_turns_add(struct dt_store_turns *t, struct dt_node *in_due);

/* Whether whoever asks has to leave what is left of its work for a later turn. */
bool dt_store_turns_over(struct dt_store_turns *t);

/* A request came, so another may: keeps the loop awake for SPIN nanoseconds. */
void dt_store_turns_expect_more(struct dt_store_turns *t, uint64_t spin);

#endif
