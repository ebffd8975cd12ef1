/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of one attempt, as one: they are started together, and the first that fails, or a
 * signal, ends all, unless the others are held for a next round. Nothing of them is left when it is
 * over.
 *
 * This folder starts, stops and buries processes; nothing else in dtrun forks. The rest of the
 * agent calls a group; below it are the guard (guard.h), which spawns (spawn.h) and reaps (reap.h),
 * and what tells why a process could not start or died: control groups, limits, memory (oom.h).
 *
 * Stopping: the signal goes to every worker's process group at once (or to the leaders first); when
 * all leaders are gone, to whatever else they started; after the shutdown timeout everything that
 * is left is killed. What has left its worker's session has outlived the worker that it was there
 * for, and has only a few seconds from then. */
#ifndef DT_AGENT_PROCESS_GROUP_H
#define DT_AGENT_PROCESS_GROUP_H

#include "agent/plan.h"
#include "agent/process/oom.h"
#include "agent/process/spawn.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct dt_group;

enum dt_group_outcome {
    DT_GROUP_SUCCEEDED, /* every worker exited with 0 */
    DT_GROUP_FAILED,    /* at least one did not, by itself */
    DT_GROUP_STOPPED,   /* we were told to stop it */
    DT_GROUP_REFUSED,   /* a worker could not be started: dt_group_refusal() */
};

/* What became of a worker. */
enum dt_worker_end {
    DT_WORKER_NEVER_STARTED,
    DT_WORKER_RUNS,
    DT_WORKER_SUCCEEDED,
    DT_WORKER_FAILED,
    DT_WORKER_TERMINATED, /* by us, or after we had asked it to end */
};

#define DT_WORKER_WHY_MAX 512

struct dt_worker {
    pid_t pid;
    enum dt_worker_end end;
    int status; /* as of waitpid() */
    int64_t started_ns, exited_ns;
    bool ours;                   /* a signal that we sent for its own fault ended it */
    struct dt_oom oom;           /* of one that failed */
    char why[DT_WORKER_WHY_MAX]; /* we ended it; else "" */
};

/* All told from the loop, never from inside a call. */
struct dt_group_events {
    void (*on_worker_started)(void *arg, int local_rank, pid_t pid);
    void (*on_worker_exited)(void *arg, int local_rank);
    void (*on_over)(void *arg); /* no process is left; the last event */
};

/* Starts the workers: SPAWNS has one for each of PLAN, needed during the call only. */
struct dt_group *dt_group_start(uv_loop_t *loop, const struct dt_plan *plan,
                                const struct dt_spawn *spawns,
                                const struct dt_spawn_inherited *inherited,
                                const struct dt_group_events *events, void *arg,
                                struct dt_err *err);

/* Ends the workers with that signal. Told again, it changes nothing. */
void dt_group_stop(struct dt_group *g, int signum);
/* ... and without waiting any longer. */
void dt_group_kill(struct dt_group *g);
/* The round of these workers is over, and those that live are left alone: what ends from here on
 * counts as ended by us, and nobody is stopped for it. When the last of them ends the group does.
 * To be followed by dt_group_go_on() or a stop. Does nothing once workers are being stopped. */
void dt_group_hold(struct dt_group *g);
bool dt_group_holds(const struct dt_group *g);
/* A new round for the workers of a group that holds: each one that is over is started again, by
 * its entry in SPAWNS; those that live have no path there. After a failure there is only the stop.
 */
int dt_group_go_on(struct dt_group *g, const struct dt_spawn *spawns,
                   const struct dt_spawn_inherited *inherited, struct dt_err *err);
/* PID, of these workers, is about to get a signal of ours for its own fault. */
void dt_group_claim(struct dt_group *g, pid_t pid);
/* Ends that worker, if it runs, for its own fault, which is WHY: it counts as failed. */
void dt_group_fail(struct dt_group *g, int local_rank, const char *why);
/* Passes a signal on to the workers that still run. */
void dt_group_forward(struct dt_group *g, int signum);

/* Stops the workers where they are, until dt_group_resume(): the time between, in ms, is not taken
 * from what they have to end in. */
void dt_group_pause(struct dt_group *g);
void dt_group_resume(struct dt_group *g, dt_ms paused);

const struct dt_worker *dt_group_worker(const struct dt_group *g, int local_rank);
/* Whether PID is a process of this group's workers, for who is asked to signal it. */
bool dt_group_has(const struct dt_group *g, pid_t pid);

/* After on_over. */
enum dt_group_outcome dt_group_outcome(const struct dt_group *g);
const struct dt_err *dt_group_refusal(const struct dt_group *g);

void dt_group_close(struct dt_group *g, void (*on_closed)(void *arg), void *arg);

#endif
