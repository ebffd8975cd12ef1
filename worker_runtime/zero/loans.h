/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers for gradients on their way: of a whole unit, lent from the first dt_zero_grads() of a
 * micro-step until its sum over ranks has arrived, or it has joined a sum of micro-steps in float.
 * A few are made at the start, on all ranks alike;
 * a rank that holds more units at a time gets more, of its own. */
#ifndef DT_WORKER_RUNTIME_ZERO_LOANS_H
#define DT_WORKER_RUNTIME_ZERO_LOANS_H

#include <dtrun/zero.h>

struct dt_loans;

/* Buffers beside the largest unit's. Of shards: one being computed, one being summed, one more so
 * that neither waits. Of rows of floats: the one being computed. */
enum { DT_LOANS_OF_SHARDS = 3, DT_LOANS_OF_ROWS = 1 };

struct dt_loans *dt_loans_create(struct dt_zero *z, size_t others, struct dt_err *err);
void dt_loans_destroy(struct dt_loans *l);
/* UNIT's buffer: the one it has, or another, cleared. */
void *dt_loans_take(struct dt_loans *l, size_t unit, struct dt_err *err);
void *dt_loans_held(struct dt_loans *l, size_t unit); /* the one it has; NULL: none */
void dt_loans_leave(struct dt_loans *l, size_t unit); /* to be summed; still lent */
void dt_loans_end(struct dt_loans *l, void *buffer);
size_t dt_loans_bytes(const struct dt_loans *l);

#endif
