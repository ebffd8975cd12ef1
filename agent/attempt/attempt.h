/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of one round on this node: from the folder of their files until nothing of them is
 * left and all that they printed is out. Workers that can stay are in several rounds: between two
 * of them the attempt waits. */
#ifndef DT_AGENT_ATTEMPT_ATTEMPT_H
#define DT_AGENT_ATTEMPT_ATTEMPT_H

#include "agent/bind/bind.h"
#include "agent/failure/inquiry.h"
#include "agent/hang/hang.h"
#include "agent/lag/watch.h"
#include "agent/log_dir.h"
#include "agent/output/output.h"
#include "agent/plan.h"
#include "agent/process/group.h"
#include "agent/vaults.h"
#include "agent/watch/pages.h"
#include "agent/world.h"
#include "base/err.h"

#include <uv.h>

struct dt_attempt;

/* What it is made of. All but the world and the number outlive it. */
struct dt_attempt_means {
    uv_loop_t *loop;
    const struct dt_plan *plan;
    const struct dt_spawn_inherited *inherited;
    struct dt_log_dir *logs;
    struct dt_output *output;
    const struct dt_bind *bind;     /* NULL: nobody is bound */
    const struct dt_vaults *vaults; /* NULL: workers have none */
    const struct dt_world *world;
    int restarts;
    dt_ms lease; /* of its workers, at first */
    bool keeps;  /* workers that can stay when their round is over may */
};

/* All told from the loop, never from inside a call. */
struct dt_attempt_events {
    void (*on_changed)(void *arg); /* a worker was started, or is over */
    /* NULL, or: the first one failed of itself, and the others are about to be stopped. Then others
     * wait for the end, and a console that nobody reads is not waited for. */
    void (*on_failed)(void *arg, const struct dt_result *result);
    /* NULL, or as in struct dt_hang_events. */
    bool (*on_still)(void *arg, dt_ms still, bool sure);
    /* NULL where others judge; see agent/lag/watch.h. */
    dt_lag_told_fn *on_straggler;
    /* Whether a next round may follow the one that is over now: else nobody stays. */
    bool (*may_follow)(void *arg);
    /* The round is over, and workers are left that wait for the next: dt_attempt_go_on(), or a
     * stop. Those that failed are gone, and what they printed is out. */
    void (*on_waiting)(void *arg);
    void (*on_over)(void *arg); /* the last event */
};

struct dt_attempt *dt_attempt_start(const struct dt_attempt_means *means,
                                    const struct dt_attempt_events *events, void *arg,
                                    struct dt_err *err);

/* The round is over: keeps the workers that can stay, else stops all. */
void dt_attempt_recall(struct dt_attempt *t);
/* Whether on_waiting was told, and workers are left. */
bool dt_attempt_is_waiting(const struct dt_attempt *t);
/* The next round of an attempt that waits: those that live get their place in WORLD, and the
 * others are started again. After a failure there is only the stop. */
int dt_attempt_go_on(struct dt_attempt *t, const struct dt_world *world, int restarts, dt_ms lease,
                     struct dt_err *err);

/* Ends the workers with that signal; what they printed last then has only a moment to get onto a
 * slow console. */
void dt_attempt_stop(struct dt_attempt *t, int signum);
/* ... and waits for nothing any longer. */
void dt_attempt_kill(struct dt_attempt *t);
/* Passes a signal on to the workers that still run. */
void dt_attempt_forward(struct dt_attempt *t, int signum);

/* Stops the workers where they are, until dt_attempt_resume(), PAUSED ms later: no time that they
 * have, or have set themselves, runs out meanwhile. */
void dt_attempt_pause(struct dt_attempt *t);
void dt_attempt_resume(struct dt_attempt *t, dt_ms paused);

/* Tells the workers that this round is over and what they have not saved comes too late: before
 * they are stopped, or later when a next round may begin beside them. Not where a person ends the
 * job, since then is the time to save. */
void dt_attempt_end_round(struct dt_attempt *t);

/* Asks them for a checkpoint, as a person wants one. */
void dt_attempt_want_save(struct dt_attempt *t);

/* Tells them until when no later round can have begun. */
void dt_attempt_set_lease(struct dt_attempt *t, dt_ms until);

/* A log line on how far the furthest worker came, where one told. */
void dt_attempt_say_step(const struct dt_attempt *t);

/* Adds to FACTS how many of them run, have failed and have succeeded, how fast they are, how
 * they share their time and how training goes: strings are good until the loop goes on. */
void dt_attempt_tell(const struct dt_attempt *t, struct dt_beat *facts);
/* Where they save checkpoints, as they said when that was asked last; "": they did not. */
const char *dt_attempt_folder(const struct dt_attempt *t);

/* What they tell of themselves; NULL: nothing is known. */
const struct dt_pages *dt_attempt_pages(const struct dt_attempt *t);

/* For who asks why a worker failed. */
struct dt_scene dt_attempt_scene(const struct dt_attempt *t);

/* The processes; their outcome is there when all is over. */
const struct dt_group *dt_attempt_group(const struct dt_attempt *t);

/* What watches them; NULL: nobody may look at them, or they are being stopped. */
struct dt_hang *dt_attempt_hang(const struct dt_attempt *t);

/* One was ended because it hung, and --on-hang says that the job then ends. */
bool dt_attempt_must_end_job(const struct dt_attempt *t);

/* After on_over. */
void dt_attempt_close(struct dt_attempt *t);

#endif
