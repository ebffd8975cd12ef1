/* SPDX-License-Identifier: Apache-2.0 */
/* This folder looks after workers that run: what they tell on their progress pages (pages.h,
 * meter.h), in a file (progress.h) and in a pipe of timers (watchdog.h), how full their host is
 * (host.h), and who may ask for it: the health port.
 *
 * The health port: GET /healthz answers 200 while all is well and 503 while it is not, with a JSON
 * object about the present state. The HTTP library comes with a helper library that is loaded only
 * when a port is asked for. */
#ifndef DT_AGENT_WATCH_HEALTH_H
#define DT_AGENT_WATCH_HEALTH_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <uv.h>

struct dt_health;

/* Appends one JSON object about the present state to OUT; returns whether all is well. */
typedef bool dt_health_state_fn(void *arg, struct dt_buf *out);

/* Serves on PORT of the host ADDRESS, which is looked up, or of every address when it is NULL. */
struct dt_health *dt_health_open(uv_loop_t *loop, const char *address, int port,
                                 dt_health_state_fn *state, void *arg, struct dt_err *err);
void dt_health_close(struct dt_health *h, void (*on_closed)(void *arg), void *arg);

#endif
