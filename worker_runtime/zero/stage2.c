/* SPDX-License-Identifier: Apache-2.0 */
/* Stage 2: gradients are spread too. A unit's gradients are computed into a buffer that is lent for
 * as long as it takes to compute and sum them; this rank's part of the sum is kept and the buffer
 * goes to the next unit.
 *
 * With several micro-steps this would sum over ranks each time; with full_gradients a dt_zero does
 * as stage 1 instead. Without it, sums of micro-steps are added up, so micro-steps are added behind
 * ranks and not before them: the one case where stages differ in their last bits, and only with
 * more than one of each. */
#include "worker_runtime/zero/loans.h"
#include "worker_runtime/zero/offload.h"
#include "worker_runtime/zero/stage.h"

int dt_shard_open_grads(struct dt_zero *z, struct dt_err *err)
{
    if (z->o.frozen)
        return 0;
    if (!z->offload &&
        dt_row_open(z, &z->grads, dt_zero_sum_type(z), true, DT_ROW_DEVICE, "gradients", err) < 0)
        return -1;
    z->loans = dt_loans_create(z, DT_LOANS_OF_SHARDS, err);
    return z->loans ? 0 : -1;
}

static int stage2_open(struct dt_zero *z, struct dt_err *err)
{
    if (dt_full_open_params(z, err) < 0)
        return -1;
    return dt_shard_open_grads(z, err);
}

void *dt_shard_grads(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    return dt_loans_take(z->loans, unit, err);
}

/* A rank without work has taken no buffer; it gives zeros. */
int dt_shard_reduce(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    void *buffer = dt_loans_take(z->loans, unit, err);
    if (!buffer)
        return -1;
    dt_loans_leave(z->loans, unit);
    if (dt_queue_push(z, unit, DT_REDUCE_SCATTER, buffer, z->elem, err) < 0)
        return -1;
    return z->o.overlap ? 0 : dt_queue_drain(z, err);
}

int dt_shard_arrived(struct dt_zero *z, size_t unit, void *buffer, struct dt_err *err)
{
    const struct dt_ops *ops = z->device->ops;
    size_t n = z->layout.unit[unit].shard;
    const void *sum = (char *)buffer + z->rank * n * z->params.elem;
    if (z->offload)
        return dt_offload_fetch(z->offload, unit, sum, buffer, err);
    void *kept = dt_row_at(z, &z->grads, unit, z->rank);
    if (!z->unit[unit].added)
        ops->cast(n, kept, z->grads.type, sum, z->elem, z->device->stream);
    else if (z->grads.type == DT_F32)
        ops->add_to_floats(n, kept, sum, z->device->stream);
    else
        ops->add(n, kept, sum, z->device->stream);
    z->unit[unit].added = true;
    dt_loans_end(z->loans, buffer);
    return 0;
}

const struct dt_zero_stage dt_zero_stage2 = {
    .grads_sharded = true,
    .state_sharded = true,
    .open = stage2_open,
    .gather = dt_full_gather,
    .release = dt_full_release,
    .grads = dt_shard_grads,
    .reduce = dt_shard_reduce,
    .arrived = dt_shard_arrived,
    .finish = dt_queue_drain,
    .publish = dt_full_publish,
};
