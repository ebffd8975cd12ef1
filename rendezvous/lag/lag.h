/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker holds the others up: the one whose own time (protocol/own_time.h) stays far above
 * that of the median of all. Own times of nodes in, a sentence out. Pure; the time is an argument.
 *
 *          slow for long enough             fast for long enough
 *   NONE -----------------------> THERE -------------------------> OVER
 *                                   ^    slow for long enough        |
 *                                   +--------------------------------+
 *
 * That nobody is named who does no harm counts for more than being fast. A worker is slow in a
 * window if its own time is above 1.3 medians and the difference above a tenth of the step, or
 * nobody would gain by it. It is named when all windows say so for 20 steps, 5 windows and 10
 * seconds: what takes long once is in one window, or two. */
#ifndef DT_RENDEZVOUS_LAG_LAG_H
#define DT_RENDEZVOUS_LAG_LAG_H

#include "base/clock.h"
#include "rendezvous/protocol/own_time.h"
#include "rendezvous/protocol/spec.h"

#define DT_LAG_STEPS 20
#define DT_LAG_WINDOWS 5
#define DT_LAG_TIME (10 * DT_SECOND)

/* Of one node; zeroed memory: nothing is known of it yet. */
struct dt_lag_node {
    int64_t window; /* the last that was taken */
    enum dt_own_witness by;
    int ranks, median; /* as it told then */
    int rank;
    int slow;      /* windows in a row in which RANK was */
    int fast;      /* ... in which the one that is named was slow no more */
    dt_ms since;   /* SLOW began */
    int64_t steps; /* ... after so many of the job */
};

enum dt_lag_state { DT_LAG_NONE, DT_LAG_THERE, DT_LAG_OVER };

/* Of a round of a job. */
struct dt_lag {
    int size;                   /* of the world */
    int at[DT_OWN_WHOLE + 1];   /* how many ranks have that median */
    int told[DT_OWN_WITNESSES]; /* how many ranks were measured, by each witness */
    int64_t steps;              /* the most that a node told */
    enum dt_lag_state state;
    int rank;                        /* that is named, or was last ... */
    const struct dt_lag_node *whose; /* ... and its node */
    char who[DT_NODE_NAME_MAX + 32];
    dt_ms since;
    char sentence[DT_STRAGGLER_MAX]; /* NONE: "" */
};

void dt_lag_begin(struct dt_lag *l, int size);

/* NODE, called NAME ("": there is no other), tells T. True: there is a new sentence. NODE stays
 * where it is as long as L is used. */
bool dt_lag_take(struct dt_lag *l, struct dt_lag_node *node, const char *name,
                 const struct dt_own_time *t, dt_ms now);

#endif
