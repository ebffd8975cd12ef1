/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL's few results mean, with the text it keeps of its last error, and what to try. */
#ifndef DT_CUDA_NCCL_HINTS_H
#define DT_CUDA_NCCL_HINTS_H

#include "base/err.h"
#include "cuda/nccl/calls.h"

/* One sentence for R, of which NCCL said TEXT (may be NULL or empty). Never NULL. */
const char *dt_nccl_hint(ncclResult_t r, const char *text);

/* Whether R tells of another rank or of the way to it. */
bool dt_nccl_is_remote(ncclResult_t r);

/* "WHAT: NCCL's name of R (its last error): the hint". Returns -1. */
int dt_nccl_fail(const struct dt_nccl_calls *calls, ncclResult_t r, const char *what,
                 struct dt_err *err);

#endif
