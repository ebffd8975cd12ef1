/* SPDX-License-Identifier: Apache-2.0 */
/* First values, and shards in and out. All of it in terms of this rank's shards; at stage 0, where
 * a rank keeps the others' too, they come by an all-gather. */
#include "worker_runtime/zero/state.h"

#include <stdlib.h>
#include <string.h>

#include "worker_runtime/zero/slots.h"
#include "worker_runtime/zero/stage.h"

/* ROW's whole unit, of which this rank's part is there. */
static int complete(struct dt_zero *z, const struct dt_row *r, size_t unit, struct dt_err *err)
{
    return dt_coll_all_gather(z->coll, dt_row_at(z, r, unit, z->rank), dt_row_at(z, r, unit, 0),
                              z->layout.unit[unit].shard, DT_F32, err);
}

/* The shards of master (and of the moments, with MOMENTS) are new: all else follows. */
static int spread(struct dt_zero *z, bool moments, struct dt_err *err)
{
    const struct dt_row *master = z->master_is_params ? &z->params : &z->master;
    size_t first, end;
    dt_zero_owners(z, &first, &end);
    for (size_t u = 0; u < z->layout.units; u++) {
        if (!z->stage->state_sharded && complete(z, master, u, err) < 0)
            return -1;
        if (!z->stage->state_sharded && moments &&
            (complete(z, &z->exp_avg, u, err) < 0 || complete(z, &z->exp_avg_sq, u, err) < 0))
            return -1;
        for (size_t owner = first; owner < end; owner++)
            dt_zero_derive(z, u, owner);
    }
    if (dt_device_sync(z->device, err) < 0)
        return -1;
    return z->stage->publish(z, err);
}

/* Nobody reads what is to be written now. */
static int others_are_done(struct dt_zero *z, struct dt_err *err)
{
    z->home->table->snap_fence(z->home);
    if (dt_slots_settle(z->slots, err) < 0)
        return -1;
    return dt_zero_barrier(z, err);
}

static void fill_shard(struct dt_zero *z, size_t unit, dt_zero_fill_fn fill, void *arg, float *to)
{
    struct dt_piece p;
    for (size_t i = 0; i < z->unit[unit].params; i++)
        if (dt_zero_piece(z, unit, z->rank, i, &p))
            fill(arg, unit, i, p.first, p.count, to + p.at);
}

/* By way of the host's memory. */
static int fill_device(struct dt_zero *z, size_t unit, dt_zero_fill_fn fill, void *arg,
                       struct dt_err *err)
{
    size_t n = z->layout.unit[unit].shard;
    float *host = calloc(n, sizeof *host); /* padding is 0 */
    if (!host)
        return dt_err_set(err, DT_E_MEMORY, "no memory to fill %zu parameters", n);
    fill_shard(z, unit, fill, arg, host);
    z->device->table->from_host(z->device, dt_zero_master(z, unit, z->rank), host,
                                n * sizeof *host);
    int rc = dt_device_sync(z->device, err);
    free(host);
    return rc;
}

/* Where the host's memory is the device's, a unit is filled in its place: a copy of the largest
 * one, an embedding, would be more than all activations. */
static int fill_unit(struct dt_zero *z, size_t unit, dt_zero_fill_fn fill, void *arg,
                     struct dt_err *err)
{
    float *master = dt_zero_master(z, unit, z->rank);
    if (z->home->coll && fill_device(z, unit, fill, arg, err) < 0)
        return -1;
    if (!z->home->coll) {
        memset(master, 0, z->layout.unit[unit].shard * sizeof *master); /* padding is 0 */
        fill_shard(z, unit, fill, arg, master);
    }
    if (z->o.frozen)
        dt_zero_derive(z, unit, z->rank);
    return dt_device_sync(z->device, err);
}

int dt_zero_fill(struct dt_zero *z, dt_zero_fill_fn fill, void *arg, struct dt_err *err)
{
    if (others_are_done(z, err) < 0)
        return -1;
    for (size_t u = 0; u < z->layout.units; u++)
        if (fill_unit(z, u, fill, arg, err) < 0)
            return -1;
    return z->o.frozen ? z->stage->publish(z, err) : spread(z, false, err);
}

int dt_zero_save(struct dt_zero *z, struct dt_zero_state *out, struct dt_err *err)
{
    const struct dt_device_ops *d = z->home->table;
    if (dt_zero_check_trained(z, err) < 0)
        return -1;
    for (size_t u = 0; u < z->layout.units; u++) {
        size_t at = z->layout.unit[u].shard_at, bytes = z->layout.unit[u].shard * sizeof(float);
        d->snap(z->home, out->master + at, dt_zero_master(z, u, z->rank), bytes);
        d->snap(z->home, out->exp_avg + at, dt_row_at(z, &z->exp_avg, u, z->rank), bytes);
        d->snap(z->home, out->exp_avg_sq + at, dt_row_at(z, &z->exp_avg_sq, u, z->rank), bytes);
    }
    out->layout = &z->layout;
    out->rank = z->rank;
    if (out->steps)
        *out->steps = z->steps;
    return dt_device_sync(z->device, err);
}

int dt_zero_load(struct dt_zero *z, const struct dt_zero_state *in, struct dt_err *err)
{
    const struct dt_device_ops *d = z->home->table;
    if (dt_zero_check_trained(z, err) < 0 || others_are_done(z, err) < 0)
        return -1;
    for (size_t u = 0; u < z->layout.units; u++) {
        size_t at = z->layout.unit[u].shard_at, bytes = z->layout.unit[u].shard * sizeof(float);
        d->from_host(z->home, dt_zero_master(z, u, z->rank), in->master + at, bytes);
        d->from_host(z->home, dt_row_at(z, &z->exp_avg, u, z->rank), in->exp_avg + at, bytes);
        d->from_host(z->home, dt_row_at(z, &z->exp_avg_sq, u, z->rank), in->exp_avg_sq + at, bytes);
    }
    if (in->steps)
        z->steps = *in->steps;
    return spread(z, true, err);
}
