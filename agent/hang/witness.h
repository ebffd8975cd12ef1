/* SPDX-License-Identifier: Apache-2.0 */
/* Since when the workers of a node stand still, and whether that is too long. Samples in, times
 * out. Pure.
 *
 * A worker moves if anything tells so: its progress page, another place in its program, or code of
 * a library that computes. It stands still if it waits at one place, and also if it computes within
 * a few lines of its own: that is how a loop without an end looks.
 *
 * A loop over many lines looks like work. But a worker that does not leave one function for much
 * longer, while all others here stand still and wait, counts as one that stands still, too. */
#ifndef DT_AGENT_HANG_WITNESS_H
#define DT_AGENT_HANG_WITNESS_H

#include "agent/hang/place.h"
#include "agent/plan.h"
#include "base/clock.h"

#define DT_WITNESS_EVERY DT_SECOND /* a sample is to be taken */

/* Too long where a person has not said what is. */
#define DT_WITNESS_STEPS 5                 /* as long as that many median steps, and at least ... */
#define DT_WITNESS_LEAST (2 * DT_SECOND)   /* ... where nobody computes */
#define DT_WITNESS_BUSY (10 * DT_SECOND)   /* ... where somebody does: this may be a longer step */
#define DT_WITNESS_STACKS (10 * DT_SECOND) /* without steps, where only stacks tell */
#define DT_WITNESS_ROUND (60 * DT_SECOND)  /* for who stays in one function, and at least ... */
#define DT_WITNESS_ROUNDS 5                /* ... so many times as long as is too long */
#define DT_WITNESS_IMPORT (60 * DT_SECOND) /* who imports moves, until idle for so long */

/* Of one worker. */
struct dt_sample {
    bool over;       /* it has ended, so that nothing can be said of it */
    bool told;       /* it has written to its page: the next two are there */
    bool slow;       /* it does what takes its time, like a checkpoint */
    int64_t step;    /* -1: none */
    int64_t mark[4]; /* changes with all that the page tells, NCCL's calls among it */
    struct dt_place place;
    char state;                      /* of the main thread, as in ps(1) */
    uint64_t cpu_ms, faults, sleeps; /* its own so far, as in struct dt_look_task */
};

struct dt_witness;

/* AFTER: how long is too long; DT_HANG_AUTO: as above. NULL: no memory. */
struct dt_witness *dt_witness_create(int count, dt_ms after);
void dt_witness_destroy(struct dt_witness *w);

/* SAMPLES has one of each worker, taken at NOW. */
void dt_witness_note(struct dt_witness *w, dt_ms now, const struct dt_sample *samples);

/* So long this worker has stood still at the last sample; or all of them. */
dt_ms dt_witness_still_of(const struct dt_witness *w, int i);
dt_ms dt_witness_still(const struct dt_witness *w);

/* The lines between which this worker goes to and fro, where that counts as standing still; one
 * that never goes back to a line above is at one line. 0 and 0: it does not count so. */
struct dt_witness_round {
    int first, last;
};
struct dt_witness_round dt_witness_round_of(const struct dt_witness *w, int i);

/* How long is too long now; DT_FOREVER: that cannot be told. */
dt_ms dt_witness_limit(const struct dt_witness *w);

/* Whether that comes from steps or a person, and not from stacks alone. */
bool dt_witness_is_sure(const struct dt_witness *w);

#endif
