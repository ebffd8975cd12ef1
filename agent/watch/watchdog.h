/* SPDX-License-Identifier: Apache-2.0 */
/* File timers: workers write "if I do not say otherwise by then, send me that signal" into a FIFO,
 * one JSON line each, and who is over its time gets the signal. Wire format: docs/protocol.md. */
#ifndef DT_AGENT_WATCH_WATCHDOG_H
#define DT_AGENT_WATCH_WATCHDOG_H

#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

struct dt_watchdog;

/* Makes a new FIFO at PATH (what is there is removed; NULL: a fresh name in a temporary folder) and
 * serves it. BELONGS tells whether a pid may be signalled: processes that are not ours never are.
 * ON_EXPIRED is told before the signal is sent. */
struct dt_watchdog *
dt_watchdog_open(uv_loop_t *loop, const char *path, bool (*belongs)(void *arg, pid_t pid),
                 void (*on_expired)(void *arg, pid_t pid, const char *scope, int signum), void *arg,
                 struct dt_err *err);

const char *dt_watchdog_path(const struct dt_watchdog *w);

/* All that have set themselves a time were stopped for DELAY and have as much more of it. To be
 * called before they go on. */
void dt_watchdog_delay(struct dt_watchdog *w, dt_ms delay);

/* Removes the FIFO, forgets all timers, frees W, then calls ON_CLOSED (may be NULL). */
void dt_watchdog_close(struct dt_watchdog *w, void (*on_closed)(void *arg), void *arg);

#endif
