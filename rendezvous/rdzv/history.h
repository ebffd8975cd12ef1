/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of a run that are over, oldest first: what ended each, what it cost, and what was
 * decided. The last DT_HISTORY_MOST of them are kept. Pure. */
#ifndef DT_RENDEZVOUS_RDZV_HISTORY_H
#define DT_RENDEZVOUS_RDZV_HISTORY_H

#include "base/buf.h"
#include "base/clock.h"
#include "rendezvous/protocol/messages.h"

#define DT_HISTORY_MOST 64
#define DT_DECIDED_MAX 160

struct dt_past_round {
    int round;
    int64_t ended_us; /* of the wall clock, since 1970; 0: unknown */
    dt_ms lasted;     /* it ran for so long ... */
    dt_ms lost;       /* ... and so long nothing ran behind it; -1: nothing has since */
    int64_t first_step, last_step; /* of training, as heard of; -1: none was */
    bool told;                     /* CAUSE is what the next world, or the end, tells all nodes */
    char cause[DT_WHY_MAX];        /* why it ended, the same on all nodes */
    char decided[DT_DECIDED_MAX];  /* "restart 1 of 3"; "": nothing yet */
};

/* Zeroed memory is an empty one. */
struct dt_history {
    struct dt_past_round *at;
    size_t len;
};
void dt_history_finish(struct dt_history *h);

/* A round is over. Returns its place, for the cause and what is decided; good until the next one.
 * NULL: no memory, and it is not kept. */
struct dt_past_round *dt_history_add(struct dt_history *h, const struct dt_past_round *past);
/* The one that ended last; NULL: none has. */
struct dt_past_round *dt_history_last(const struct dt_history *h);

/* For the journal. False: what IN holds is no history, and IN is bad. */
void dt_history_save(const struct dt_history *h, struct dt_buf *out);
bool dt_history_restore(struct dt_history *h, struct dt_reader *in);

#endif
