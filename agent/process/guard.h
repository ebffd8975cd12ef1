/* SPDX-License-Identifier: Apache-2.0 */
/* The guard: a process of ours between dtrun and the workers of one attempt, which is their parent
 * and answers for all that they start.
 *
 * It is forked with everything prepared, forks the workers, and from then on carries signals down
 * and deaths up. It adopts every orphan below it, so that "nobody is left" is a fact of the
 * kernel's and not a guess. When dtrun dies, by SIGKILL too, the guard kills all of them and
 * leaves; when the guard is killed the workers are killed by the kernel and dtrun, which adopts as
 * well, kills the rest. Killing both in one instant is the limit of it.
 *
 * A worker that is started anew beside others that live has a further guard process, since what it
 * needs (environment, descriptors) is in dtrun's memory then and not in that of the first. Each
 * leaves with the last process below it. What has made a session of its own below a guard that has
 * other workers too cannot be told from what those started, and is ended with them.
 *
 * The loop's thread; events come from the loop, never from inside a call. */
#ifndef DT_AGENT_PROCESS_GUARD_H
#define DT_AGENT_PROCESS_GUARD_H

#include "agent/process/spawn.h"
#include "base/err.h"

#include <stdint.h>
#include <uv.h>

struct dt_guard;

struct dt_guard_events {
    /* AT_NS: when it was about to be, on the monotonic clock. */
    void (*on_started)(void *arg, int index, pid_t pid, int64_t at_ns);
    /* Could not be executed; on_exited follows if it was forked. */
    void (*on_refused)(void *arg, int index, enum dt_spawn_step step, int errnum);
    /* It was never started, nor refused: its guard process was killed before. */
    void (*on_forgotten)(void *arg, int index);
    /* STATUS as of waitpid(); AT_NS: when. */
    void (*on_exited)(void *arg, int index, int status, int64_t at_ns);
    /* No process of the attempt is left. The last event; G may be closed. */
    void (*on_over)(void *arg);
};

/* Forks; starts those of the COUNT workers that have a path. WORKERS and what it points to are
 * needed during the call only. The process must have adopted orphans (dt_reap_adopt). Children that
 * it has already are none of the attempt: they are neither waited for nor ended, but reaped. */
struct dt_guard *dt_guard_start(uv_loop_t *loop, const struct dt_spawn *workers, int count,
                                const struct dt_spawn_inherited *inherited,
                                const struct dt_guard_events *events, void *arg,
                                struct dt_err *err);

/* Starts those of as many workers as above that have a path; each of them is over. */
int dt_guard_add(struct dt_guard *g, const struct dt_spawn *workers,
                 const struct dt_spawn_inherited *inherited, struct dt_err *err);

/* The guard process that worker INDEX is below, or is to be; 0: none. */
pid_t dt_guard_pid(const struct dt_guard *g, int index);

/* As dt_reap_describe() and dt_reap_has_session(), of all that is below the guard. */
const char *dt_guard_describe(const struct dt_guard *g, char *out, size_t size);
bool dt_guard_has_session(const struct dt_guard *g, pid_t session);

/* To one worker's process group, or to its leader alone; INDEX -1: to each that has not exited. */
void dt_guard_signal(struct dt_guard *g, int index, int signum, bool leader_only);
/* To what a worker that is over has left in its session. */
void dt_guard_signal_rest(struct dt_guard *g, int index, int signum);
/* To every process of the attempt, in whatever group or session. */
void dt_guard_signal_all(struct dt_guard *g, int signum);
/* Kills every process of the attempt, until none is left. */
void dt_guard_end(struct dt_guard *g);

/* After on_over only, or before the first turn of the loop. Frees it, then ON_CLOSED. */
void dt_guard_close(struct dt_guard *g, void (*on_closed)(void *arg), void *arg);

#endif
