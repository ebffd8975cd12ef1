/* SPDX-License-Identifier: Apache-2.0 */
/* How the workers of a node share their time between work of their own and waiting for others. In
 * lockstep all workers show one step time; the own time tells them apart. An agent measures it over
 * windows of some seconds, and tells the rendezvous of the last one with each beat: of constant
 * size, whatever the number of workers. */
#ifndef DT_RENDEZVOUS_PROTOCOL_OWN_TIME_H
#define DT_RENDEZVOUS_PROTOCOL_OWN_TIME_H

#include <stdbool.h>
#include <stdint.h>

#define DT_OWN_WHOLE 1000     /* a share of a window is told in parts of this */
#define DT_OWN_REASON_MAX 200 /* with its NUL */
#define DT_STRAGGLER_MAX 360  /* of the sentence about a straggler, with its NUL */

enum dt_own_witness {
    DT_OWN_BY_PAGES,  /* the workers say it themselves, on their progress pages */
    DT_OWN_BY_STACKS, /* where the main thread of each worker was seen, and its processor time */
    DT_OWN_WITNESSES,
};
/* "pages", "stacks": as on the wire. */
const char *dt_own_witness_name(enum dt_own_witness w);

struct dt_own_time {
    int64_t window; /* 1, 2, ... of the attempt; 0: nothing was measured yet */
    /* Steps of the attempt so far. Of workers that tell none: how often one was seen to begin to
     * wait for others, of which there are fewer. */
    int64_t steps;
    int64_t step_us; /* how long a step took in this window; 0: not told */
    enum dt_own_witness by;
    int ranks;          /* that were measured: all that run here */
    int rank;           /* the one of them with the most own time ... */
    int own;            /* ... which was so much of the window ... */
    int median;         /* ... and that of the median rank here, the lower of two */
    bool may_drain;     /* this node may be drained if it holds the others up */
    const char *reason; /* why RANK may be slow, as far as its node sees; NULL or "": not known */
};

#endif
