/* SPDX-License-Identifier: Apache-2.0 */
/* The little languages of torchrun's output options. Pure. */
#ifndef DT_LAUNCHER_PLANNING_STREAMS_H
#define DT_LAUNCHER_PLANNING_STREAMS_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "3", or "0:3,7:1": sets MASKS, one for each of NPROC local ranks, zeroed by the caller. *BEYOND:
 * a local rank that there is no worker for, or -1. */
int dt_streams_masks(const char *text, unsigned *masks, int nproc, int64_t *beyond,
                     struct dt_err *err);

/* "0,2": sets SHOWN for those local ranks. */
int dt_streams_ranks(const char *text, bool *shown, int nproc, struct dt_err *err);

/* "one,two": appends to the NULL-ended list *OUT; ",," is a comma of a text, empty texts are left
 * out. */
int dt_streams_filters(const char *text, char ***out, struct dt_err *err);

#endif
