/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the own time of a node's workers, window by window (rendezvous/protocol/own_time.h).
 * Samples in, windows out. Pure.
 *
 * A worker that keeps a progress page with its own time is believed. Of any other Python, what
 * counts as waiting is the time that its main thread slept, times the part of the samples in which
 * it was seen asleep inside a collective: so one that computes all the time needs no luck with its
 * samples, and one that sleeps for a loader is not taken for one that waits for others. A window
 * ends after whole steps: else it would show a part of one in which all ranks compute.
 *
 * Nothing is measured while one worker cannot be, or does what one rank does for all: compiles,
 * saves, imports. */
#ifndef DT_AGENT_LAG_GAUGE_H
#define DT_AGENT_LAG_GAUGE_H

#include "agent/hang/place.h"
#include "base/clock.h"
#include "rendezvous/protocol/own_time.h"

#define DT_GAUGE_PAGES (2 * DT_SECOND)  /* a window lasts so long at least, by pages ... */
#define DT_GAUGE_STACKS (5 * DT_SECOND) /* ... or by stacks */
#define DT_GAUGE_WAITS 4                /* ... in which one is seen to begin to wait so often */
#define DT_GAUGE_MOST (8 * DT_SECOND)   /* ... or, where no worker here ever waits, so long */

/* Of one worker, so far. */
struct dt_gauge_sample {
    bool over;                  /* it has ended */
    int64_t step;               /* by its page; -1: none */
    int64_t own_ns, updated_ns; /* likewise; 0: not told */
    int64_t data_ns;            /* of the own time, for its data */
    int64_t ran_ns;             /* its main thread has run, or waited for a processor */
    enum dt_place_kind kind;    /* where its main thread is ... */
    char state;                 /* ... as in ps(1) */
};

/* What a closed window says of one worker beside its own time: for who looks for the reason. */
struct dt_gauge_part {
    int64_t span_ns; /* how long the window was */
    int own;         /* of DT_OWN_WHOLE */
    int data;        /* ... for its data, by its page */
    int asleep;      /* its main thread was, in its own time */
    int stopped;     /* samples in which a signal or a debugger had stopped it ... */
    int disk;        /* ... it waited for a disk ... */
    int samples;     /* ... of so many */
};

struct dt_gauge;

/* NULL: no memory. */
struct dt_gauge *dt_gauge_create(int count);
void dt_gauge_destroy(struct dt_gauge *g);

/* SAMPLES has one of each worker, taken at NOW. True: a window has ended, and OUT (its rank is a
 * local one, its reason NULL) and dt_gauge_part() tell of it. */
bool dt_gauge_note(struct dt_gauge *g, dt_ms now, const struct dt_gauge_sample *samples,
                   struct dt_own_time *out);

/* Of the window that ended last. */
const struct dt_gauge_part *dt_gauge_part(const struct dt_gauge *g, int i);

#endif
