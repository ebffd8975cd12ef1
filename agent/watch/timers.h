/* SPDX-License-Identifier: Apache-2.0 */
/* A table of timers that processes set for themselves: after that time, that signal to that pid. A
 * timer's name is its pid and a scope. Pure: times are microseconds since 1970 and an argument. */
#ifndef DT_AGENT_WATCH_TIMERS_H
#define DT_AGENT_WATCH_TIMERS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DT_TIMERS_MAX 4096 /* at a time, all workers together */

struct dt_timer {
    pid_t pid;
    int signum; /* 0 or less: it is only told */
    int64_t expires;
    char *scope;
};

/* Zeroed memory is an empty table. */
struct dt_timers {
    struct dt_timer *at;
    size_t count, size;
};

void dt_timers_finish(struct dt_timers *t);

/* A timer of the same name is replaced. -1: DT_E_LIMIT or no memory. */
int dt_timers_add(struct dt_timers *t, pid_t pid, const char *scope, int64_t expires, int signum,
                  struct dt_err *err);
void dt_timers_release(struct dt_timers *t, pid_t pid, const char *scope);

/* All of them expire DELAY later. */
void dt_timers_delay(struct dt_timers *t, int64_t delay);

/* When the next one expires; INT64_MAX: none. */
int64_t dt_timers_next(const struct dt_timers *t);

/* Takes what is due at NOW of one process: the earliest of its timers that has a signal, and with
 * it all its other timers, as the process is to end; without any, the earliest alone. OUT's scope
 * is the caller's to free. False: nothing is due. */
bool dt_timers_take_expired(struct dt_timers *t, int64_t now, struct dt_timer *out);

/* Forgets the timers of processes that IS_ALIVE says are none. */
void dt_timers_sweep(struct dt_timers *t, bool (*is_alive)(void *arg, pid_t pid), void *arg);

#endif
