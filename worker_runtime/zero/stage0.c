/* SPDX-License-Identifier: Apache-2.0 */
/* Stage 0: plain data parallelism. Every rank has all parameters, all gradients and the whole
 * optimizer state, in memory of its own. Gradients are summed by an all-reduce, whose bits are
 * those of a reduce-scatter; then every rank makes the same update, so there is nothing to
 * publish. The update goes shard by shard as if a rank made it each, to have the same bits as at
 * other stages. */
#include "worker_runtime/zero/stage.h"

static int stage0_open(struct dt_zero *z, struct dt_err *err)
{
    if (dt_row_open(z, &z->params, z->elem, false, DT_ROW_DEVICE, "parameters", err) < 0)
        return -1;
    return dt_full_open_grads(z, err);
}

static int stage0_reduce(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    return dt_full_reduce(z, unit, DT_ALL_REDUCE, err);
}

static int stage0_finish(struct dt_zero *z, struct dt_err *err)
{
    return dt_full_finish(z, DT_ALL_REDUCE, err);
}

static int stage0_publish(struct dt_zero *z, struct dt_err *err)
{
    (void)z;
    (void)err;
    return 0;
}

const struct dt_zero_stage dt_zero_stage0 = {
    .open = stage0_open,
    .gather = dt_full_gather,
    .release = dt_full_release,
    .grads = dt_full_grads,
    .reduce = stage0_reduce,
    .finish = stage0_finish,
    .publish = stage0_publish,
};
