/* SPDX-License-Identifier: Apache-2.0 */
/* How far training is, from a file in which somebody leaves a whole number. It may lie on a file
 * system that takes its time, so it is read beside the loop. */
#ifndef DT_AGENT_WATCH_PROGRESS_H
#define DT_AGENT_WATCH_PROGRESS_H

#include "base/err.h"

#include <stdint.h>
#include <uv.h>

struct dt_progress;

/* PATH need not be there yet. NULL and *err: no memory. */
struct dt_progress *dt_progress_open(uv_loop_t *loop, const char *path, struct dt_err *err);

/* Begins to read, unless that is under way. */
void dt_progress_look(struct dt_progress *p);

/* What was read last; -1: never a number. A file that is being replaced, or is gone, changes
 * nothing. */
int64_t dt_progress_step(const struct dt_progress *p);

/* Frees P, later if it is reading. P may be NULL. */
void dt_progress_close(struct dt_progress *p);

#endif
