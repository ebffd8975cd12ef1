/* SPDX-License-Identifier: Apache-2.0 */
/* A dt_zero's life. What a stage does is in stage0.c to stage3.c, the update in update.c; stage.h
 * has the map. */
#include <dtrun/zero.h>

#include <stdlib.h>
#include <string.h>

#include "worker_runtime/coll/backend.h"
#include "worker_runtime/zero/loans.h"
#include "worker_runtime/zero/offload.h"
#include "worker_runtime/zero/slots.h"
#include "worker_runtime/zero/stage.h"
#include "worker_runtime/zero/state.h"

void dt_zero_defaults(struct dt_zero_options *o)
{
    *o = (struct dt_zero_options){
        .model_type = DT_F32,
        .comm_type = DT_F32,
        .reduce_bucket = 500000000,
        .gather_bucket = 500000000,
        .prefetch = 50000000,
        .max_live = 1000000000,
        .max_reuse_distance = 1000000000,
        .persist_below = 100000,
        .overlap = true,
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .eps = 1e-8f,
        .decoupled = true,
        .bias_correction = true,
    };
}

static bool is_model_type(enum dt_dtype t)
{
    return t == DT_F32 || t == DT_BF16 || t == DT_F16;
}

static int check_arguments(const struct dt_unit *units, size_t count,
                           const struct dt_zero_options *o, struct dt_err *err)
{
    if (o->stage < 0 || o->stage > 3)
        return dt_err_set(err, DT_E_USAGE, "%d is not a ZeRO stage; give 0, 1, 2 or 3", o->stage);
    if (!is_model_type(o->model_type) || !is_model_type(o->comm_type))
        return dt_err_set(err, DT_E_USAGE,
                          "parameters and gradients are float32, bfloat16 or float16");
    if (o->words && (!o->frozen || o->model_type != DT_F32))
        return dt_err_set(err, DT_E_USAGE, "words are of frozen float32 parameters alone");
    if (count == 0)
        return dt_err_set(err, DT_E_USAGE, "a model without units has nothing to train");
    bool whole = o->stage < 2 || (o->stage == 2 && (o->full_gradients || o->frozen)), any = false;
    for (size_t u = 0; u < count; u++) {
        size_t elements = 0;
        for (size_t p = 0; p < units[u].param_count; p++)
            elements += units[u].params[p].count;
        if (elements == 0 && !whole)
            return dt_err_set(err, DT_E_USAGE, "unit %s has no parameters", units[u].name);
        any = any || elements > 0;
    }
    if (any)
        return 0;
    return dt_err_set(err, DT_E_USAGE, "unit %s has no parameters, and no other has any",
                      units[0].name);
}

static int copy_unit(struct dt_zero_unit *to, const struct dt_unit *from, struct dt_err *err)
{
    to->name = strdup(from->name);
    to->param_at = calloc(from->param_count + 1, sizeof *to->param_at);
    to->param_name = calloc(from->param_count, sizeof *to->param_name);
    to->decay = calloc(from->param_count, sizeof *to->decay);
    to->rate = calloc(from->param_count, sizeof *to->rate);
    to->chance = calloc(from->param_count, sizeof *to->chance);
    to->elsewhere = calloc(from->param_count, sizeof *to->elsewhere);
    to->partial = calloc(from->param_count, sizeof *to->partial);
    if (!to->name || !to->param_at || !to->param_name || !to->decay || !to->rate || !to->chance ||
        !to->elsewhere || !to->partial)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the names of units");
    to->params = from->param_count;
    for (size_t p = 0; p < to->params; p++) {
        to->param_name[p] = strdup(from->params[p].name);
        if (!to->param_name[p])
            return dt_err_set(err, DT_E_MEMORY, "no memory for the names of parameters");
        if (__builtin_add_overflow(to->param_at[p], from->params[p].count, &to->param_at[p + 1]))
            return dt_err_set(err, DT_E_LIMIT, "unit %s is larger than this machine can count",
                              from->name);
        to->decay[p] = from->params[p].decay;
        to->rate[p] = 1;
    }
    return 0;
}

static int copy_units(struct dt_zero *z, const struct dt_unit *units, size_t count,
                      struct dt_err *err)
{
    size_t *sizes = calloc(count, sizeof *sizes);
    z->unit = calloc(count, sizeof *z->unit);
    int rc = sizes && z->unit ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for %zu units", count);
    z->units = rc == 0 ? count : 0;
    for (size_t u = 0; rc == 0 && u < count; u++) {
        rc = copy_unit(&z->unit[u], &units[u], err);
        if (rc == 0)
            sizes[u] = z->unit[u].param_at[z->unit[u].params];
    }
    if (rc == 0)
        rc = dt_layout_init(&z->layout, sizes, count, z->world, err);
    for (size_t u = 0; rc == 0 && u < count; u++)
        for (size_t p = 0; p < z->unit[u].params; p++)
            z->unit[u].chance[p] = z->layout.unit[u].payload_at + z->unit[u].param_at[p];
    free(sizes);
    return rc;
}

static int open_state(struct dt_zero *z, struct dt_err *err)
{
    bool sharded = z->stage->state_sharded;
    if (!z->master_is_params &&
        dt_row_open(z, &z->master, DT_F32, sharded, DT_ROW_HOME, "master copy", err) < 0)
        return -1;
    if (dt_row_open(z, &z->exp_avg, DT_F32, sharded, DT_ROW_HOME, "first moments", err) < 0 ||
        dt_row_open(z, &z->exp_avg_sq, DT_F32, sharded, DT_ROW_HOME, "second moments", err) < 0)
        return -1;
    return 0;
}

static int open_scratch(struct dt_zero *z, struct dt_err *err)
{
    size_t largest = 0;
    if (!z->o.frozen || z->master_is_params)
        return 0;
    for (size_t u = 0; u < z->layout.units; u++)
        largest = z->layout.unit[u].shard > largest ? z->layout.unit[u].shard : largest;
    z->scratch_bytes = largest * sizeof *z->scratch;
    z->scratch = dt_device_alloc(z->home, z->scratch_bytes, "a shard as floats", err);
    return z->scratch ? 0 : -1;
}

static int open_rows(struct dt_zero *z, struct dt_err *err)
{
    z->master_is_params =
        z->elem == DT_F32 && !z->offload && (z->o.model_type == DT_F32 || z->o.frozen);
    if (z->stage->open(z, err) < 0 || (!z->o.frozen && open_state(z, err) < 0))
        return -1;
    return open_scratch(z, err);
}

enum dt_dtype dt_zero_sum_type(const struct dt_zero *z)
{
    return z->o.float_sums ? DT_F32 : z->elem;
}

bool dt_zero_offloads_params(const struct dt_zero *z)
{
    return z->o.offload_params && z->device->coll && z->o.stage == 3;
}

/* The memory of a CPU is the host's already, and stage 0 keeps on each rank what it updates. */
static bool offloads(const struct dt_zero *z)
{
    bool state = z->o.offload && z->device->coll && !z->o.frozen && z->o.stage > 0;
    return state || dt_zero_offloads_params(z);
}

/* Stage 2 with full gradients keeps what stage 1 keeps, and so does every stage above 0 of a rank
 * alone: its shard is all there is. But where the optimizer is in the host's memory a rank alone
 * gains by stage 2, since its gradients are there too, and by stage 3 where its parameters are. Of
 * frozen parameters the stages below 3 keep the same, and so one copy for a host. */
static const struct dt_zero_stage *pick_stage(const struct dt_zero *z)
{
    static const struct dt_zero_stage *const stage[] = {&dt_zero_stage0, &dt_zero_stage1,
                                                        &dt_zero_stage2, &dt_zero_stage3};
    bool alone = z->world == 1 && z->o.stage > 1 && !z->place.apart;
    bool whole = (z->o.stage == 2 && z->o.full_gradients) || (z->o.stage < 3 && z->o.frozen);
    if (whole)
        return stage[1];
    if (alone && !dt_zero_offloads_params(z))
        return stage[offloads(z) ? 2 : 1];
    return stage[z->o.stage];
}

static int open_home(struct dt_zero *z, struct dt_err *err)
{
    z->home = z->device;
    if (!offloads(z))
        return 0;
    z->offload = dt_offload_create(z, z->place.threads, z->place.piece, err);
    if (!z->offload)
        return -1;
    z->home = dt_offload_home(z->offload);
    return 0;
}

struct dt_zero *dt_zero_create_on(const struct dt_zero_place *place, const struct dt_unit *units,
                                  size_t count, const struct dt_zero_options *o, struct dt_err *err)
{
    if (check_arguments(units, count, o, err) < 0)
        return NULL;
    struct dt_zero *z = calloc(1, sizeof *z);
    if (!z) {
        dt_err_set(err, DT_E_MEMORY, "no memory for the parameters");
        return NULL;
    }
    z->o = *o;
    z->place = *place;
    z->place.sharing = place->sharing ? place->sharing : 1;
    z->device = place->device;
    z->host = place->group;
    z->rank = (size_t)dt_coll_rank(z->host);
    z->world = (size_t)dt_coll_size(z->host);
    z->elem = o->words ? DT_F32 : z->device->ops->elem;
    z->stage = pick_stage(z);
    z->coll = z->device->coll ? dt_coll_beside(z->host, z->device->coll, z->device, err) : z->host;
    if (z->coll && copy_units(z, units, count, err) == 0 && open_home(z, err) == 0 &&
        open_rows(z, err) == 0)
        return z;
    dt_zero_destroy(z);
    return NULL;
}

void dt_zero_destroy(struct dt_zero *z)
{
    if (!z)
        return;
    while (z->queue.count > 0) /* whatever becomes of them, their buffers go now */
        dt_queue_settle(z, NULL);
    z->device->table->snap_wait(z->device, NULL);
    dt_slots_destroy(z->slots);
    dt_loans_destroy(z->loans);
    dt_device_free(z->home, z->scratch);
    dt_row_close(z, &z->exp_avg_sq);
    dt_row_close(z, &z->exp_avg);
    dt_row_close(z, &z->master);
    dt_row_close(z, &z->grads);
    dt_row_close(z, &z->params);
    for (size_t u = 0; u < z->units; u++) {
        for (size_t p = 0; p < z->unit[u].params; p++)
            free(z->unit[u].param_name[p]);
        free(z->unit[u].param_name);
        free(z->unit[u].name);
        free(z->unit[u].param_at);
        free(z->unit[u].decay);
        free(z->unit[u].rate);
        free(z->unit[u].chance);
        free(z->unit[u].elsewhere);
        free(z->unit[u].partial);
    }
    free(z->unit);
    dt_offload_destroy(z->offload);
    dt_layout_finish(&z->layout);
    if (z->coll != z->host)
        dt_coll_destroy(z->coll);
    free(z);
}

void dt_zero_begin(struct dt_zero *z, bool train, bool last)
{
    z->train = train;
    z->last = train && last;
    if (z->stage->begin)
        z->stage->begin(z);
}

const void *dt_zero_gather(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    return z->stage->gather(z, unit, err);
}

void dt_zero_release(struct dt_zero *z, size_t unit)
{
    z->stage->release(z, unit);
}

int dt_zero_check_trained(const struct dt_zero *z, struct dt_err *err)
{
    if (!z->o.frozen)
        return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "these parameters are frozen: they have no gradients and no "
                      "optimizer state");
}

void *dt_zero_grads(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    if (dt_zero_check_trained(z, err) < 0)
        return NULL;
    return z->stage->grads(z, unit, err);
}

int dt_zero_reduce(struct dt_zero *z, size_t unit, struct dt_err *err)
{
    if (dt_zero_check_trained(z, err) < 0)
        return -1;
    return z->stage->reduce(z, unit, err);
}

int64_t dt_zero_steps(const struct dt_zero *z)
{
    return z->steps;
}

size_t dt_zero_elements(const struct dt_zero *z)
{
    return z->layout.payload;
}

size_t dt_zero_rank(const struct dt_zero *z)
{
    return z->rank;
}

const struct dt_zero_options *dt_zero_options_of(const struct dt_zero *z)
{
    return &z->o;
}

struct dt_device *dt_zero_device(const struct dt_zero *z)
{
    return z->device;
}

struct dt_coll *dt_zero_group(const struct dt_zero *z)
{
    return z->host;
}

const char *dt_zero_param(const struct dt_zero *z, size_t unit, size_t param, struct dt_param *out)
{
    const struct dt_zero_unit *u = &z->unit[unit];
    if (param >= u->params)
        return NULL;
    *out = (struct dt_param){.name = u->param_name[param],
                             .count = u->param_at[param + 1] - u->param_at[param],
                             .decay = u->decay[param]};
    return u->name;
}

const struct dt_layout *dt_zero_layout(const struct dt_zero *z)
{
    return &z->layout;
}

void dt_zero_memory(const struct dt_zero *z, struct dt_zero_memory *out)
{
    size_t params = dt_row_held(z, &z->params);
    size_t state =
        dt_row_held(z, &z->master) + dt_row_held(z, &z->exp_avg) + dt_row_held(z, &z->exp_avg_sq);
    *out = (struct dt_zero_memory){
        .params = params,
        .grads = dt_row_held(z, &z->grads),
        .optimizer = state,
        .scratch = dt_loans_bytes(z->loans) + dt_slots_bytes(z->slots) + z->scratch_bytes,
    };
    if (!z->offload)
        return;
    out->optimizer = 0;
    out->scratch -= z->scratch_bytes;
    out->offloaded = state + z->scratch_bytes + dt_offload_bytes(z->offload);
    if (z->params.memory == DT_ROW_HOME) {
        out->params = 0;
        out->offloaded += params;
    }
}

void dt_zero_times(struct dt_zero *z, uint64_t *communication, uint64_t *optimizer)
{
    *communication = z->communication_ns;
    *optimizer = z->optimizer_ns;
    z->communication_ns = z->optimizer_ns = 0;
}
