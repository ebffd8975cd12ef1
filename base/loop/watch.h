/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor that a loop watches, where the kernel may have room for no further one. */
#ifndef DT_BASE_LOOP_WATCH_H
#define DT_BASE_LOOP_WATCH_H

#include "base/err.h"

#include <uv.h>

/* Makes POLL a handle of LOOP for FD. -1: it is none, and *err says that WHAT, "the guard process",
 * cannot be watched. */
int dt_watch_init(uv_loop_t *loop, uv_poll_t *poll, int fd, const char *what, struct dt_err *err);

#endif
