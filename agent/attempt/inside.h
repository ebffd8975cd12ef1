/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of an attempt share. Nobody else includes this. */
#ifndef DT_AGENT_ATTEMPT_INSIDE_H
#define DT_AGENT_ATTEMPT_INSIDE_H

#include "agent/attempt/attempt.h"
#include "agent/lineup.h"
#include "agent/stay.h"
#include "agent/watch/meter.h"
#include "agent/watch/watchdog.h"
#include "base/loop/ending.h"

struct dt_attempt {
    struct dt_attempt_means means;
    struct dt_world world; /* what means points to */
    const struct dt_attempt_events *events;
    void *arg;
    struct dt_watchdog *watchdog;
    struct dt_pages *pages;         /* NULL: none could be made */
    struct dt_meter *meter;         /* of them; NULL: no memory */
    struct dt_recorders *recorders; /* likewise */
    struct dt_kernel_log *kernel;   /* NULL: it may not be read */
    struct dt_group *group;
    struct dt_hang *hang;     /* NULL: nobody may look, or no longer needs to */
    struct dt_lag_watch *lag; /* likewise; or there is nobody to compare them with */
    struct dt_ending ending;
    uv_timer_t last_words;
    uv_timer_t leaving;         /* looks at workers that are to leave their round */
    dt_ms held;                 /* when they were told to */
    struct dt_stay_fact *facts; /* of each worker, for looks at them */
    bool waits;                 /* all that live have left it ... */
    bool dead_are_silent;       /* ... and what the others printed is out */
    bool stopped;               /* we were told to end it */
    bool failed;                /* a worker did, and it was said */
    bool hung;                  /* ... as we ended it, since it hung */
    bool drains;                /* the group is over and what it printed is not all out */
};

/* attempt.c. A pager on its first page would keep us for ever, and other nodes that wait for us. */
void attempt_limit_last_words(struct dt_attempt *t);
/* What its workers are started from. */
struct dt_lineup attempt_lineup(const struct dt_attempt *t);

/* holding.c. The round is over. Where nobody can stay the group stops as it does. */
void attempt_hold(struct dt_attempt *t);
/* A worker of a group that holds is over. The next round of all nodes waits for what it printed. */
void attempt_silence(struct dt_attempt *t, int local_rank);

/* watches.c */
int attempt_open_watchdog(struct dt_attempt *t, struct dt_err *err);
void attempt_close_watchdog(struct dt_attempt *t);
/* Those who look at the workers of a round, while they are in it. */
int attempt_open_watches(struct dt_attempt *t, struct dt_err *err);
void attempt_close_watches(struct dt_attempt *t);

#endif
