/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of an agent share. Nobody else includes this. */
#ifndef DT_AGENT_INSIDE_H
#define DT_AGENT_INSIDE_H

#include "agent/aftermath.h"
#include "agent/attempt/attempt.h"
#include "agent/backend/backend.h"
#include "agent/bind/bind.h"
#include "agent/closing.h"
#include "agent/events.h"
#include "agent/failure/verdict.h"
#include "agent/log_dir.h"
#include "agent/output/output.h"
#include "agent/output/tails.h"
#include "agent/own_addr.h"
#include "agent/preflight.h"
#include "agent/process/self.h"
#include "agent/rescue.h"
#include "agent/sigwatch.h"
#include "agent/upload/uploads.h"
#include "agent/vaults.h"
#include "agent/watch/health.h"
#include "agent/watch/host.h"
#include "agent/watch/pace.h"
#include "agent/watch/progress.h"

/* Where an agent is. Each event that can come in a phase is looked at where it comes in. */
enum agent_phase {
    AGENT_JOINING,  /* waiting for a world */
    AGENT_RUNNING,  /* an attempt is not over */
    AGENT_FINISHED, /* all went well here; waiting in the barrier for the other nodes */
    AGENT_ENDING,   /* everything is being closed */
};

const char *agent_phase_name(enum agent_phase p);

struct agent {
    uv_loop_t loop;
    const struct dt_plan *plan;
    struct dt_spawn_inherited inherited;
    struct dt_log_dir logs;
    struct dt_events *events;
    struct dt_bind *bind;
    struct dt_sigwatch *signals;
    struct dt_own_addr own_addr;
    struct dt_output *output; /* until AGENT_ENDING */
    struct dt_tails *tails;   /* of that; NULL: nobody has read along yet, or the job is over */
    struct dt_backend *backend;
    struct dt_health *health;
    struct dt_preflight *preflight; /* NULL: nobody looks at this host, or that is over */
    struct dt_host_watch *host;     /* NULL: nobody wants to know of GPUs and disks, or none can */
    struct dt_uploads *uploads;     /* NULL: no folder is followed, or that is over */
    struct dt_vaults *vaults;       /* from the first attempt on; NULL: none could be made */
    struct dt_rescue *rescue;       /* NULL: what they hold is not being saved ... */
    bool rescued;                   /* ... and was since the last world came */
    bool cut_off;                   /* at the end: workers were, who may have written files half */
    struct dt_attempt *attempt; /* while AGENT_RUNNING, or while workers of it wait or are ended */
    struct dt_attempt_events attempt_events;
    bool waits;       /* its workers do, for the next world: they are none of a round */
    bool begins_anew; /* they are gone or are to go, and the world is there */
    struct dt_world world;
    enum agent_phase phase;
    dt_ms phase_began;
    int restarts; /* so far */
    int signum;   /* that told us to end; 0: none */
    dt_ms lost;   /* since when too few nodes are left, as we were told; 0: we were not */
    dt_ms looked; /* when a signal asked for a look last; 0: never */
    int status;   /* we will exit with */

    uv_timer_t tell;     /* where somebody wants to know how far the workers are */
    struct dt_pace pace; /* of the furthest of them, at each turn of that timer */

    char straggler[DT_STRAGGLER_MAX]; /* what was said of one last in this round, or "" ... */
    bool holds_up;                    /* ... and it still does */
    int64_t look;                     /* the last that the backend asked for */

    /* Of an elastic job. */
    struct dt_progress *progress; /* NULL: no file tells of it */
    dt_ms lease;                  /* no later round can have begun by then; DT_FOREVER: ever */
    bool recalled;                /* the round is over, whatever comes of the workers */
    struct dt_closing closing;    /* the job is over */
    struct dt_aftermath aftermath;
    struct dt_verdict verdict; /* on what failed here last, until there is a new round; or empty */
};

/* Then the rendezvous decides what follows a failure, and when a round is over. */
static inline bool agent_is_elastic(const struct agent *a)
{
    return a->backend->ops->failed != NULL;
}

/* facts.c. The attempt whose workers are in a round; NULL: there is none, or they wait for a world.
 */
const struct dt_attempt *agent_round(const struct agent *a);
/* A file that somebody asked us to look at says it, else the workers themselves. */
int64_t agent_step(const struct agent *a);
/* From here on its GPUs and disks are watched, for beats. */
void agent_watch_host(struct agent *a);
/* For beats: how the workers are, how far, and how fast while that is still so. */
void agent_tell(struct agent *a);
/* NULL: nobody watches workers now. */
struct dt_hang *agent_hang(const struct agent *a);

/* watching.c, as the events of an attempt, of a backend and of a look at this host. */
bool agent_on_still(void *arg, dt_ms still, bool sure);
void agent_on_straggler(void *arg, const char *sentence, bool holds_up);
void agent_on_look(void *arg, int64_t look, bool native);
void agent_on_tail(void *arg, const struct dt_message *m);
void agent_on_save(void *arg);
void agent_on_remark(void *arg, bool failed, const char *words);
void agent_on_finding(void *arg, const struct dt_stances *all, const struct dt_hang_finding *f);

/* safekeeping.c. What of the workers outlives them, files and steps in memory: no world has come
 * for so long; the job ends; a world is there. */
void agent_keep_safe_in_wait(struct agent *a, dt_ms waited);
void agent_keep_safe(struct agent *a);
void agent_leave_to_workers(struct agent *a);

/* rounds.c: from one to the next, until the job ends. */
extern const struct dt_backend_events agent_backend_events;
void agent_join(struct agent *a);
void agent_enter(struct agent *a, enum agent_phase phase);
/* Too few nodes are left, and no rendezvous says more of it. */
void agent_lose(struct agent *a);
/* Of the timer TELL. */
void agent_on_tell(uv_timer_t *t);

/* ending.c. The other nodes go on without us. */
void agent_leave(struct agent *a, const char *why);
/* Everything is closed, and the process exits with STATUS. */
void agent_end(struct agent *a, int status);
/* The same for a reason of our own, which is said, and the other nodes are told. */
void agent_fail(struct agent *a, const struct dt_err *err);
void agent_fail_with(struct agent *a, const struct dt_err *err, int status); /* they are not */
void agent_end_by_signal(struct agent *a);
/* As a->closing says. */
void agent_end_closed(struct agent *a);
void agent_close_output(struct agent *a);

/* As the callbacks of sigwatch.h and watch/health.h. */
void agent_on_signal(void *arg, int signum);
bool agent_put_state(void *arg, struct dt_buf *out);

#endif
