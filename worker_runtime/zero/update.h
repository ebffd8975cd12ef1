/* SPDX-License-Identifier: Apache-2.0 */
/* Rates that differ; and dt_zero_step() in its parts, for a model whose gradients lie in several
 * dt_zero, of one rank or of several, and are clipped by one norm: dt_zero_norm() of each, the
 * squares added up, one dt_zero_factor() of the sum, and dt_zero_apply() or dt_zero_skip() of each.
 */
#ifndef DT_WORKER_RUNTIME_ZERO_UPDATE_H
#define DT_WORKER_RUNTIME_ZERO_UPDATE_H

#include <dtrun/zero.h>

/* The learning rate of that parameter is RATE times what a step is told; 1 until then. */
void dt_zero_set_rate(struct dt_zero *z, size_t unit, size_t param, float rate);

/* The number of that parameter's first element among all that round by chance: elements of one
 * number round alike. Its place in payload space until then. */
void dt_zero_set_chance(struct dt_zero *z, size_t unit, size_t param, uint64_t first);

/* That parameter and its gradients are the same in the dt_zero of other ranks, one of which counts
 * them in the norm: this one does not. */
void dt_zero_count_elsewhere(struct dt_zero *z, size_t unit, size_t param);

/* That parameter is the same in the dt_zero of each rank of TEAM, which outlives Z, but each has a
 * part of its gradients alone: they are summed when a step ends. All of TEAM say so of the same
 * parameters; each has two teams at most, and what the first comes to is summed over the second. It
 * is of the memory that these gradients are in then: the device's, or the host's where the
 * optimizer is there. */
void dt_zero_sum_over(struct dt_zero *z, size_t unit, size_t param, struct dt_coll *team);

/* dt_zero_norm() in its parts, for who adds up the squares of several dt_zero in an order of its
 * own: waits for the sums of this step; and adds what this rank has of them to *SQUARE, unit by
 * unit from FIRST to below END. The first is collective. */
int dt_zero_settle(struct dt_zero *z, struct dt_err *err);
int dt_zero_add_square(struct dt_zero *z, size_t first, size_t end, double *square,
                       struct dt_err *err);
/* Waits for the sums of this step. *SQUARE: of the norm of all gradients of Z as they stand, with
 * the loss scale in them; infinite or NaN when one of them is. All ranks get the same. Collective.
 */
int dt_zero_norm(struct dt_zero *z, double *square, struct dt_err *err);

/* What SQUARE means for a step as U wants it: OUT, and what gradients are to be multiplied by,
 * which is of no use where OUT says overflow. Pure. */
double dt_zero_factor(const struct dt_zero_update *u, double square, struct dt_zero_updated *out);

/* AdamW with the gradients times FACTOR, and the new parameters everywhere. Gradients are 0 again.
 * Collective. */
int dt_zero_apply(struct dt_zero *z, float lr, double factor, struct dt_err *err);
/* The step changes nothing but that gradients are 0 again. */
int dt_zero_skip(struct dt_zero *z, struct dt_err *err);

#endif
