/* SPDX-License-Identifier: Apache-2.0 */
/* Sum, maximum and minimum over the buffers of several ranks. Every element is folded from the
 * first buffer to the last, whoever calls this and in whatever pieces, so a result's bits depend on
 * the inputs alone. bf16 and f16 are folded in f32 and rounded once, at the end. */
#ifndef DT_WORKER_RUNTIME_COLL_HOST_REDUCE_H
#define DT_WORKER_RUNTIME_COLL_HOST_REDUCE_H

#include <dtrun/coll.h>

/* OUT[i] = OP over IN[0..n-1][i]; N is 1 or more. OUT may be one of IN, but not overlap one in
 * another way. A maximum or minimum with a NaN in it is NaN; sums of integers wrap. */
void dt_reduce(enum dt_dtype type, enum dt_coll_op op, void *out, const void *const *in, int n,
               size_t count);

#endif
