/* SPDX-License-Identifier: Apache-2.0 */
/* Stage 3: parameters are spread as well. Where all ranks share a host's memory, each has its part
 * of one copy that all can read, so a unit is whole already and to gather it costs nothing.
 * Elsewhere a rank keeps its shards, and a unit is gathered into a slot for as long as it is used:
 * slots.h. Its shards may be in the host's memory where it computes on a GPU. Gradients and state
 * are as at stage 2. */
#include "worker_runtime/zero/slots.h"
#include "worker_runtime/zero/stage.h"

static int stage3_open(struct dt_zero *z, struct dt_err *err)
{
    enum dt_row_memory memory = dt_zero_offloads_params(z) ? DT_ROW_HOME : DT_ROW_OWN;
    if (dt_zero_one_copy(z) && memory == DT_ROW_OWN) {
        if (dt_full_open_params(z, err) < 0)
            return -1;
    } else {
        if (dt_row_open(z, &z->params, z->elem, true, memory, "parameters", err) < 0)
            return -1;
        z->slots = dt_slots_create(z, err);
        if (!z->slots)
            return -1;
    }
    return dt_shard_open_grads(z, err);
}

static void stage3_begin(struct dt_zero *z)
{
    if (z->slots)
        dt_slots_begin(z->slots, z->train);
}

static const void *stage3_gather(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    return z->slots ? dt_slots_gather(z->slots, unit, err) : dt_full_gather(z, unit, err);
}

static void stage3_release(struct dt_zero *z, size_t unit)
{
    if (z->slots)
        dt_slots_release(z->slots, unit);
}

/* A shard that others still gather from must not change; the norm's all-reduce, behind this, is
 * where all know that none does. */
static int stage3_finish(struct dt_zero *z, struct dt_err *err)
{
    if (dt_slots_settle(z->slots, err) < 0)
        return -1;
    return dt_queue_drain(z, err);
}

static int stage3_publish(struct dt_zero *z, struct dt_err *err)
{
    return z->slots ? dt_slots_renew(z->slots, err) : dt_full_publish(z, err);
}

const struct dt_zero_stage dt_zero_stage3 = {
    .grads_sharded = true,
    .state_sharded = true,
    .open = stage3_open,
    .begin = stage3_begin,
    .gather = stage3_gather,
    .release = stage3_release,
    .grads = dt_shard_grads,
    .reduce = dt_shard_reduce,
    .arrived = dt_shard_arrived,
    .finish = stage3_finish,
    .publish = stage3_publish,
};
