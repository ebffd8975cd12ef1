/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of what is kept between steps, and who has which part of it. */
#include <string.h>

#include "worker_runtime/coll/backend.h"
#include "worker_runtime/zero/offload.h"
#include "worker_runtime/zero/stage.h"

/* A device has its own memory for what collectives use, unless they lend some that is better. */
static enum dt_row_memory where(const struct dt_zero *z, enum dt_row_memory wish)
{
    if (!z->device->coll || wish == DT_ROW_HOME || wish == DT_ROW_DEVICE)
        return wish;
    return dt_coll_lends_better(z->coll) ? DT_ROW_OWN : DT_ROW_DEVICE;
}

int dt_row_open(struct dt_zero *z, struct dt_row *r, enum dt_dtype type, bool sharded,
                enum dt_row_memory memory, const char *what, struct dt_err *err)
{
    size_t elements = sharded ? z->layout.shard : z->layout.padded;
    r->type = type;
    r->elem = dt_dtype_size(type);
    r->bytes = elements * r->elem;
    r->memory = where(z, memory);
    r->sharded = sharded;
    if (r->memory == DT_ROW_DEVICE || r->memory == DT_ROW_HOME)
        r->at =
            dt_device_alloc(r->memory == DT_ROW_HOME ? z->home : z->device, r->bytes, what, err);
    else
        r->at =
            dt_coll_alloc(z->coll, r->bytes, r->memory == DT_ROW_SHARED ? DT_SHARED : DT_OWN, err);
    return r->at ? 0 : dt_err_wrap(err, "%s of %zu elements", what, elements);
}

void dt_row_close(struct dt_zero *z, struct dt_row *r)
{
    if (r->memory == DT_ROW_DEVICE || r->memory == DT_ROW_HOME)
        dt_device_free(r->memory == DT_ROW_HOME ? z->home : z->device, r->at);
    else
        dt_coll_release(z->coll, r->at);
    r->at = NULL;
}

size_t dt_row_held(const struct dt_zero *z, const struct dt_row *r)
{
    if (!r->at)
        return 0;
    return r->memory == DT_ROW_SHARED ? r->bytes / z->place.sharing : r->bytes;
}

/* Frozen parameters that are no floats have a master copy only while they are filled. */
float *dt_zero_master(const struct dt_zero *z, size_t unit, size_t owner)
{
    if (z->o.frozen && !z->master_is_params)
        return z->scratch;
    return dt_row_at(z, z->master_is_params ? &z->params : &z->master, unit, owner);
}

void dt_zero_derive(struct dt_zero *z, size_t unit, size_t owner)
{
    const struct dt_ops *ops = z->device->ops;
    size_t n = z->layout.unit[unit].shard;
    void *params = dt_row_at(z, &z->params, unit, owner);
    if (z->offload) {
        dt_offload_derive(z->offload, unit);
        return;
    }
    if (!z->master_is_params)
        ops->cast(n, params, z->elem, dt_zero_master(z, unit, owner), DT_F32, z->device->stream);
    if (z->elem == DT_F32)
        ops->round_to(n, params, z->o.model_type, z->device->stream);
}

bool dt_zero_piece(const struct dt_zero *z, size_t unit, size_t owner, size_t param,
                   struct dt_piece *out)
{
    size_t shard = z->layout.unit[unit].shard, begin = owner * shard, end = begin + shard;
    size_t from = z->unit[unit].param_at[param], to = z->unit[unit].param_at[param + 1];
    size_t first = from > begin ? from : begin, last = to < end ? to : end;
    if (first >= last)
        return false;
    *out = (struct dt_piece){.first = first - from, .count = last - first, .at = first - begin};
    return true;
}

void dt_zero_owners(const struct dt_zero *z, size_t *first, size_t *end)
{
    bool sharded = z->stage->state_sharded;
    *first = sharded ? z->rank : 0;
    *end = sharded ? z->rank + 1 : z->world;
}
