/* SPDX-License-Identifier: Apache-2.0 */
/* What checkpoints are called in the folder that they are saved in (ckpt/checkpoint.h): for who
 * finds one and reads none of it. */
#ifndef DT_WORKER_RUNTIME_CKPT_NAMES_H
#define DT_WORKER_RUNTIME_CKPT_NAMES_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#define DT_CKPT_STEP "step-" /* and at least eight digits */
#define DT_CKPT_BEST "best"  /* a link to one of them */

bool dt_ckpt_step_of(const char *name, int64_t *step);
const char *dt_ckpt_step_path(const char *dir, int64_t step, char out[PATH_MAX]);
/* The step that `latest` names, as it is written; -1: none. */
int64_t dt_ckpt_latest(const char *dir);
/* The one that `best` is a link to; -1: to none. */
int64_t dt_ckpt_best(const char *dir);

#endif
