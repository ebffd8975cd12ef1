/* SPDX-License-Identifier: Apache-2.0 */
/* Stage 1: the optimizer state is spread. All parameters are kept, but where ranks share a host's
 * memory only once per host: each owner updates its part in place, and an all-gather in place
 * shows it to the others. Gradients are kept whole, added up over micro-steps, and at the last one
 * summed by a reduce-scatter in place: what a rank then finds in its own part is the sum.
 *
 * No rank writes to its part while another still computes with it: an update comes behind the
 * all-reduce of the norm, and a rank takes part in that when its backward is over. */
#include "worker_runtime/zero/loans.h"
#include "worker_runtime/zero/offload.h"
#include "worker_runtime/zero/stage.h"

bool dt_zero_one_copy(const struct dt_zero *z)
{
    return dt_coll_shares_all(z->coll) && !z->place.apart;
}

int dt_full_open_params(struct dt_zero *z, struct dt_err *err)
{
    return dt_row_open(z, &z->params, z->elem, false, z->place.apart ? DT_ROW_OWN : DT_ROW_SHARED,
                       "parameters", err);
}

int dt_full_open_grads(struct dt_zero *z, struct dt_err *err)
{
    enum dt_dtype type = dt_zero_sum_type(z);
    if (z->o.frozen)
        return 0;
    if (dt_row_open(z, &z->grads, type, false, DT_ROW_OWN, "gradients", err) < 0)
        return -1;
    if (type == z->elem)
        return 0;
    z->loans = dt_loans_create(z, DT_LOANS_OF_ROWS, err);
    return z->loans ? 0 : -1;
}

static int stage1_open(struct dt_zero *z, struct dt_err *err)
{
    if (dt_full_open_params(z, err) < 0)
        return -1;
    return dt_full_open_grads(z, err);
}

const void *dt_full_gather(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    (void)err;
    return dt_row_at(z, &z->params, unit, 0);
}

void dt_full_release(struct dt_zero *z, size_t unit)
{
    (void)z;
    (void)unit;
}

void *dt_full_grads(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    return z->loans ? dt_loans_take(z->loans, unit, err) : dt_row_at(z, &z->grads, unit, 0);
}

/* What was computed into a buffer joins the sum, and its loan ends: the device does one behind the
 * other. */
static void add_lent(struct dt_zero *z, size_t unit)
{
    void *lent = z->loans ? dt_loans_held(z->loans, unit) : NULL;
    if (!lent)
        return;
    z->device->ops->add_to_floats(z->layout.unit[unit].padded, dt_row_at(z, &z->grads, unit, 0),
                                  lent, z->device->stream);
    dt_loans_end(z->loans, lent);
}

static int push_once(struct dt_zero *z, size_t unit, enum dt_coll_kind kind, struct dt_err *err)
{
    if (z->unit[unit].reduced || z->layout.unit[unit].padded == 0)
        return 0;
    z->unit[unit].reduced = true;
    return dt_queue_push(z, unit, kind, dt_row_at(z, &z->grads, unit, 0), z->grads.type, err);
}

int dt_full_reduce(struct dt_zero *z, size_t unit, enum dt_coll_kind kind, struct dt_err *err)
{
    add_lent(z, unit);
    return z->last && z->o.overlap ? push_once(z, unit, kind, err) : 0;
}

/* Without overlap, all units; with it, those that nobody computed gradients for, or said nothing
 * of.
 */
int dt_full_finish(struct dt_zero *z, enum dt_coll_kind kind, struct dt_err *err)
{
    for (size_t u = 0; u < z->layout.units; u++) {
        add_lent(z, u);
        if (push_once(z, u, kind, err) < 0)
            return -1;
    }
    return dt_queue_drain(z, err);
}

static int stage1_reduce(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    return dt_full_reduce(z, unit, DT_REDUCE_SCATTER, err);
}

static int stage1_finish(struct dt_zero *z, struct dt_err *err)
{
    return dt_full_finish(z, DT_REDUCE_SCATTER, err);
}

/* The sum lies where it is kept. */
int dt_full_arrived(struct dt_zero *z, size_t unit, void *buffer, struct dt_err *err)
{
    (void)buffer;
    if (!z->offload)
        return 0;
    return dt_offload_fetch(z->offload, unit, dt_row_at(z, &z->grads, unit, z->rank), NULL, err);
}

/* As many units under way as fit in a gather bucket; at least one. */
static int gather_all(struct dt_zero *z, struct dt_err *err)
{
    struct {
        struct dt_coll_handle handle;
        size_t unit;
    } ring[DT_QUEUE_MAX];
    size_t oldest = 0, next = 0, elements = 0, bucket = z->o.gather_bucket;
    for (size_t u = 0; u < z->layout.units; u++) {
        const struct dt_layout_unit *l = &z->layout.unit[u];
        if (l->padded == 0)
            continue;
        while (next > oldest &&
               (next - oldest == DT_QUEUE_MAX || (bucket != 0 && elements + l->padded > bucket))) {
            size_t first = oldest++ % DT_QUEUE_MAX;
            elements -= z->layout.unit[ring[first].unit].padded;
            if (dt_zero_wait(z, &ring[first].handle, ring[first].unit, err) < 0)
                return -1;
        }
        struct dt_coll_call call = {.kind = DT_ALL_GATHER,
                                    .send = dt_row_at(z, &z->params, u, z->rank),
                                    .recv = dt_row_at(z, &z->params, u, 0),
                                    .count = l->shard,
                                    .type = z->elem};
        size_t last = next++ % DT_QUEUE_MAX;
        ring[last].unit = u;
        if (dt_zero_start(z, &call, &ring[last].handle, u, err) < 0)
            return -1;
        elements += l->padded;
    }
    for (; oldest < next; oldest++)
        if (dt_zero_wait(z, &ring[oldest % DT_QUEUE_MAX].handle, ring[oldest % DT_QUEUE_MAX].unit,
                         err) < 0)
            return -1;
    return 0;
}

int dt_full_publish(struct dt_zero *z, struct dt_err *err)
{
    if (dt_zero_one_copy(z))
        return dt_zero_barrier(z, err); /* all of it lies there; all that lacks is that all know */
    return gather_all(z, err);
}

const struct dt_zero_stage dt_zero_stage1 = {
    .state_sharded = true,
    .open = stage1_open,
    .gather = dt_full_gather,
    .release = dt_full_release,
    .grads = dt_full_grads,
    .reduce = stage1_reduce,
    .arrived = dt_full_arrived,
    .finish = stage1_finish,
    .publish = dt_full_publish,
};
