/* SPDX-License-Identifier: Apache-2.0 */
/* The walk through the model: forward, and backward of what went forward in a slot:
 *
 *     embed -> block 0 -> ... -> last block -> head: loss, and at once its gradient
 *                                                                  |
 *     embed <- block 0 <- ... <- last block <-----------------------
 *
 * Each stop gathers its unit's parameters, computes, and gives them back; on the way back it adds
 * to the unit's gradients and says when no more will come. A tied head uses the embedding's matrix,
 * whose gradient so has two parts: the head adds the first, the embedding the second, and says that
 * it is all. Where the model is frozen, only adapters have gradients, and an embedding or a head
 * that they save is used in the place of the model's. A stage of a pipeline begins where the stage
 * before ends, and ends where the next one begins. A pass without
 * samples makes the same stops and computes nothing, for other ranks wait for it at each. */
#include "worker_runtime/model/transformer.h"

#include "worker_runtime/mesh/rows.h"
#include "worker_runtime/model/pass.h"

#include <assert.h>

/* Whether it computes for other ranks, too. */
static bool is_shared(const struct dt_pass *p, const struct dt_work *w)
{
    bool block = w->kind == DT_BLOCK_FORWARD || w->kind == DT_BLOCK_BACKWARD;
    return p->t->options.experts && block;
}

/* Without samples there is nothing to compute, but where others wait for it. */
static int compute(const struct dt_pass *p, struct dt_work *w)
{
    const struct dt_transformer_options *o = &p->t->options;
    const struct dt_team *const teams[] = {o->team, o->context, o->experts};
    w->slot = p->slot;
    w->batch = p->batch;
    w->train = p->train;
    w->positions = dt_pieces_own(&o->pieces);
    if (p->batch > 0 || is_shared(p, w))
        dt_work_compute(p->t, w);
    for (size_t i = 0; i < sizeof teams / sizeof *teams; i++) {
        if (!teams[i] || !teams[i]->failed)
            continue;
        if (p->err)
            *p->err = teams[i]->err;
        return -1;
    }
    return 0;
}

static bool trains_embedding(const struct dt_transformer *t)
{
    return t->adapters && t->options.lora->saves_embedding;
}

static int embed_forward(struct dt_pass *p)
{
    struct dt_work w = {.kind = DT_EMBED_FORWARD};
    bool own = trains_embedding(p->t);
    w.params = dt_zero_gather(p->z, 0, p->err);
    if (w.params && own)
        w.adapters = dt_zero_gather(p->t->adapters, 0, p->err);
    if (!w.params || (own && !w.adapters))
        return -1;
    int rc = compute(p, &w);
    if (own)
        dt_zero_release(p->t->adapters, 0);
    dt_zero_release(p->z, 0);
    return rc;
}

static int embed_backward(struct dt_pass *p)
{
    struct dt_work w = {.kind = DT_EMBED_BACKWARD};
    struct dt_zero *z = p->t->adapters ? p->t->adapters : p->z;
    if (p->t->adapters && !trains_embedding(p->t))
        return 0;
    char *grads = dt_zero_grads(z, 0, p->err);
    if (!grads)
        return -1;
    *(p->t->adapters ? &w.dadapters : &w.grads) = grads;
    return compute(p, &w) < 0 ? -1 : dt_zero_reduce(z, 0, p->err);
}

/* The block's parameters, and its adapters' where there are any. */
static int gather_block(struct dt_pass *p, size_t block, struct dt_work *w)
{
    struct dt_zero *adapters = p->t->adapters;
    w->params = dt_zero_gather(p->z, block + 1, p->err);
    if (w->params && adapters)
        w->adapters =
            dt_zero_gather(adapters, dt_lora_block_unit(p->t->options.lora, block), p->err);
    return w->params && (w->adapters || !adapters) ? 0 : -1;
}

static void release_block(struct dt_pass *p, size_t block)
{
    if (p->t->adapters)
        dt_zero_release(p->t->adapters, dt_lora_block_unit(p->t->options.lora, block));
    dt_zero_release(p->z, block + 1);
}

/* What is trained of the block: where gradients of it go, and to whom they are given. */
static struct dt_zero *trained(const struct dt_pass *p, size_t block, size_t *unit)
{
    *unit = p->t->adapters ? dt_lora_block_unit(p->t->options.lora, block) : block + 1;
    return p->t->adapters ? p->t->adapters : p->z;
}

static int block_forward(struct dt_pass *p, size_t block, bool chained, bool again)
{
    struct dt_work w = {
        .kind = DT_BLOCK_FORWARD, .block = block, .chained = chained, .again = again};
    if (gather_block(p, block, &w) < 0)
        return -1;
    int rc = compute(p, &w);
    release_block(p, block);
    return rc;
}

/* AGAIN: its forward pass first, as what it kept is not there any more. */
static int block_backward(struct dt_pass *p, size_t block, bool chained, bool again)
{
    static const enum dt_work_kind kinds[] = {DT_BLOCK_BACKWARD, DT_BLOCK_INPUT, DT_BLOCK_WEIGHTS};
    struct dt_work w = {.kind = kinds[p->half], .block = block, .chained = chained, .again = again};
    size_t unit;
    struct dt_zero *z = trained(p, block, &unit);
    if (gather_block(p, block, &w) < 0)
        return -1;
    char *grads = dt_zero_grads(z, unit, p->err);
    if (!grads)
        return -1;
    *(p->t->adapters ? &w.dadapters : &w.grads) = grads;
    int rc = compute(p, &w);
    release_block(p, block);
    return rc < 0 ? -1 : dt_zero_reduce(z, unit, p->err);
}

static int blocks_forward(struct dt_pass *p)
{
    const struct dt_chunk *own = dt_pass_chunk(p);
    for (size_t block = own->first; block < own->end; block++)
        if (block_forward(p, block, block > own->first, false) < 0)
            return -1;
    return 0;
}

/* Segment by segment from the end. What the last segment kept is still there from the way forward;
 * the others are gone through again from the input of their first block. */
static int blocks_backward(struct dt_pass *p)
{
    struct dt_transformer *t = p->t;
    const struct dt_chunk *own = dt_pass_chunk(p);
    size_t segment = t->a.segment ? t->a.segment : t->shape.layers, begin = own->first;
    for (size_t end = own->end; end > begin;) {
        size_t first = begin + (end - begin - 1) / segment * segment;
        bool recompute = end < own->end;
        for (size_t block = first; recompute && block + 1 < end; block++)
            if (block_forward(p, block, block > first, true) < 0)
                return -1;
        for (size_t block = end; block-- > first;)
            if (block_backward(p, block, block > first, recompute && block + 1 == end) < 0)
                return -1;
        end = first;
    }
    return 0;
}

/* Whether the head is the adapters', as they save it; and its unit. */
static bool has_own_head(const struct dt_transformer *t, size_t *unit)
{
    const struct dt_lora *lora = t->options.lora;
    if (!t->adapters || !lora->saves_head)
        return false;
    *unit = dt_lora_unit_count(lora, &t->shape) - 1;
    return true;
}

/* Where gradients go: of all of the head, or of the adapters' matrix alone. */
static int lend_head_grads(struct dt_pass *p, struct dt_work *w)
{
    const struct dt_transformer *t = p->t;
    size_t own;
    if (has_own_head(t, &own)) {
        w->dadapters = dt_zero_grads(t->adapters, own, p->err);
        return w->dadapters ? 0 : -1;
    }
    if (t->adapters)
        return 0;
    w->grads = w->dmatrix = dt_zero_grads(p->z, dt_transformer_head_unit(t), p->err);
    if (w->grads && t->shape.tied)
        w->dmatrix = dt_zero_grads(p->z, 0, p->err);
    return w->grads && w->dmatrix ? 0 : -1;
}

/* Finds its parameters and where their gradients go. */
static int gather_head(struct dt_pass *p, struct dt_work *w)
{
    const struct dt_transformer *t = p->t;
    size_t own;
    w->params = w->matrix = dt_zero_gather(p->z, dt_transformer_head_unit(t), p->err);
    if (w->params && t->shape.tied)
        w->matrix = dt_zero_gather(p->z, 0, p->err);
    if (!w->params || !w->matrix)
        return -1;
    if (has_own_head(t, &own)) {
        w->adapters = dt_zero_gather(t->adapters, own, p->err);
        if (!w->adapters)
            return -1;
    }
    return p->train ? lend_head_grads(p, w) : 0;
}

static int reduce_head(struct dt_pass *p)
{
    const struct dt_transformer *t = p->t;
    size_t own;
    if (has_own_head(t, &own))
        return dt_zero_reduce(t->adapters, own, p->err);
    return t->adapters ? 0 : dt_zero_reduce(p->z, dt_transformer_head_unit(t), p->err);
}

static int head(struct dt_pass *p)
{
    struct dt_transformer *t = p->t;
    struct dt_work w = {.kind = DT_HEAD, .scale = p->scale, .weighed = p->weighed};
    size_t own;
    if (gather_head(p, &w) < 0)
        return -1;
    int rc = compute(p, &w);
    if (has_own_head(t, &own))
        dt_zero_release(t->adapters, own);
    if (t->shape.tied)
        dt_zero_release(p->z, 0);
    dt_zero_release(p->z, dt_transformer_head_unit(t));
    return rc == 0 && p->train ? reduce_head(p) : rc;
}

/* Of all rows, into OUT. */
static int fetch_losses(struct dt_pass *p, float *out)
{
    struct dt_transformer *t = p->t;
    const float *losses = t->a.slots[p->slot].losses;
    dt_work_start_clock(t);
    t->device->table->to_host(t->device, out, losses, dt_pass_rows(p) * sizeof *out);
    if (dt_device_sync(t->device, p->err) < 0)
        return -1;
    dt_work_count_time(t, p->train ? &t->backward_ns : &t->forward_ns);
    return 0;
}

static int collect_losses(struct dt_pass *p, double *loss_sum)
{
    const float *losses = p->t->losses;
    if (fetch_losses(p, p->t->losses) < 0)
        return -1;
    for (size_t i = 0; i < dt_pass_rows(p); i++)
        *loss_sum += (double)losses[i];
    return 0;
}

/* Where picks are counted behind what goes over a border. */
static void *behind(const struct dt_pass *p, dt_elem *border)
{
    const struct dt_transformer *t = p->t;
    size_t numbers = dt_rows_own(t->options.team, dt_pass_rows(p)) * t->shape.width;
    return (char *)border + numbers * dt_dtype_size(t->device->ops->elem);
}

/* On CPUs, as all of experts. */
static void take_counts(const struct dt_pass *p, dt_elem *border)
{
    int32_t *counts = p->t->a.slots[p->slot].counts;
    if (counts && p->train)
        memcpy(counts, behind(p, border), dt_shape_pick_counts(&p->t->shape) * sizeof *counts);
}

static void give_counts(const struct dt_pass *p)
{
    const struct dt_activation_slot *slot = &p->t->a.slots[p->slot];
    if (slot->counts && p->train)
        memcpy(behind(p, slot->dstream), slot->counts,
               dt_shape_pick_counts(&p->t->shape) * sizeof *slot->counts);
}

/* To the stream behind the last block. */
static int stream(struct dt_pass *p, const int32_t *ids, const int32_t *targets)
{
    assert(p->slot < p->t->a.slot_count);
    if (dt_pass_load(p, ids, targets) < 0 || (dt_pass_is_first(p) && embed_forward(p) < 0))
        return -1;
    if (!dt_pass_is_first(p))
        take_counts(p, p->t->a.slots[p->slot].inputs[dt_pass_chunk(p)->first]);
    return blocks_forward(p);
}

/* What the next stage begins with is there when this returns. */
static int leave(struct dt_pass *p)
{
    struct dt_work w = {.kind = DT_LEAVE, .block = dt_pass_chunk(p)->end - 1};
    if (compute(p, &w) < 0)
        return -1;
    give_counts(p);
    return dt_device_sync(p->t->device, p->err);
}

static int forward(struct dt_pass *p, const int32_t *ids, const int32_t *targets)
{
    if (stream(p, ids, targets) < 0)
        return -1;
    return dt_pass_is_last(p) ? head(p) : leave(p);
}

int dt_transformer_forward(struct dt_transformer *t, struct dt_zero *z, size_t slot, size_t batch,
                           const int32_t *ids, const int32_t *targets, float scale,
                           struct dt_err *err)
{
    struct dt_pass p = {
        .t = t, .z = z, .slot = slot, .batch = batch, .train = true, .scale = scale, .err = err};
    return forward(&p, ids, targets);
}

int dt_transformer_backward(struct dt_transformer *t, struct dt_zero *z, size_t slot,
                            double *loss_sum, struct dt_err *err)
{
    struct dt_pass p = {.t = t, .z = z, .slot = slot, .train = true, .err = err};
    assert(slot < t->a.slot_count);
    p.batch = t->a.slots[slot].batch;
    if (!dt_pass_is_last(&p))
        take_counts(&p, t->a.slots[slot].dstream);
    if (blocks_backward(&p) < 0 || (dt_pass_is_first(&p) && embed_backward(&p) < 0))
        return -1;
    if (!dt_pass_is_first(&p))
        give_counts(&p);
    return dt_pass_is_last(&p) ? collect_losses(&p, loss_sum) : dt_device_sync(t->device, err);
}

int dt_transformer_backward_inputs(struct dt_transformer *t, struct dt_zero *z, size_t slot,
                                   double *loss_sum, struct dt_err *err)
{
    struct dt_pass p = {
        .t = t, .z = z, .slot = slot, .train = true, .half = DT_INPUT_HALF, .err = err};
    assert(slot < t->a.slot_count && t->options.halves);
    p.batch = t->a.slots[slot].batch;
    if (blocks_backward(&p) < 0)
        return -1;
    return dt_pass_is_last(&p) ? collect_losses(&p, loss_sum) : dt_device_sync(t->device, err);
}

int dt_transformer_backward_weights(struct dt_transformer *t, struct dt_zero *z, size_t slot,
                                    struct dt_err *err)
{
    struct dt_pass p = {
        .t = t, .z = z, .slot = slot, .train = true, .half = DT_WEIGHT_HALF, .err = err};
    assert(slot < t->a.slot_count && t->options.halves);
    p.batch = t->a.slots[slot].batch;
    if (blocks_backward(&p) < 0 || (dt_pass_is_first(&p) && embed_backward(&p) < 0))
        return -1;
    return dt_device_sync(t->device, err);
}

void dt_transformer_turn(struct dt_transformer *t, size_t slot, size_t chunk)
{
    assert(slot < t->a.slot_count && chunk < t->stage.chunks);
    t->a.slots[slot].chunk = chunk;
}

void *dt_transformer_input(struct dt_transformer *t, size_t slot)
{
    const struct dt_pass p = {.t = t, .slot = slot};
    assert(slot < t->a.slot_count && !dt_pass_is_first(&p));
    return t->a.slots[slot].inputs[dt_pass_chunk(&p)->first];
}

void *dt_transformer_border(struct dt_transformer *t, size_t slot)
{
    assert(slot < t->a.slot_count);
    return t->a.slots[slot].dstream;
}

int dt_transformer_train(struct dt_transformer *t, struct dt_zero *z, size_t batch,
                         const int32_t *ids, const int32_t *targets, float scale, double *loss_sum,
                         struct dt_err *err)
{
    if (dt_transformer_forward(t, z, 0, batch, ids, targets, scale, err) < 0)
        return -1;
    return dt_transformer_backward(t, z, 0, loss_sum, err);
}

int dt_transformer_lose(struct dt_transformer *t, struct dt_zero *z, size_t slot, size_t batch,
                        const int32_t *ids, const int32_t *targets, bool train, float *losses,
                        struct dt_err *err)
{
    struct dt_pass p = {.t = t, .z = z, .slot = slot, .batch = batch, .train = train, .err = err};
    if (stream(&p, ids, targets) < 0)
        return -1;
    if (!dt_pass_is_last(&p))
        return leave(&p);
    p.train = false; /* of the head there are no gradients yet */
    return head(&p) < 0 ? -1 : fetch_losses(&p, losses);
}

int dt_transformer_weigh(struct dt_transformer *t, struct dt_zero *z, size_t slot,
                         const float *weights, float scale, struct dt_err *err)
{
    struct dt_pass p = {
        .t = t, .z = z, .slot = slot, .train = true, .weighed = true, .scale = scale, .err = err};
    const struct dt_activation_slot *to = &t->a.slots[slot];
    assert(slot < t->a.slot_count && t->options.weighed);
    p.batch = to->batch;
    t->device->table->from_host(t->device, to->weights, weights,
                                dt_pass_rows(&p) * sizeof *weights);
    return head(&p);
}

int dt_transformer_loss(struct dt_transformer *t, struct dt_zero *z, size_t batch,
                        const int32_t *ids, const int32_t *targets, double *loss_sum,
                        struct dt_err *err)
{
    struct dt_pass p = {.t = t, .z = z, .batch = batch, .err = err};
    if (forward(&p, ids, targets) < 0)
        return -1;
    return dt_pass_is_last(&p) ? collect_losses(&p, loss_sum) : 0;
}

void dt_transformer_adapt(struct dt_transformer *t, struct dt_zero *adapters)
{
    assert(!adapters || t->pair_count > 0);
    t->adapters = adapters;
}

void dt_transformer_count(struct dt_transformer *t, uint64_t first_sample)
{
    t->first_sample = first_sample;
}

void dt_transformer_balance(struct dt_transformer *t, double share)
{
    assert(t->shape.balance_experts);
    t->balance = share;
}

void dt_transformer_z_loss(struct dt_transformer *t, double share)
{
    assert(t->shape.z_share > 0);
    t->z_loss = share;
}

void dt_transformer_times(struct dt_transformer *t, uint64_t *forward, uint64_t *backward)
{
    *forward = t->forward_ns;
    *backward = t->backward_ns;
    t->forward_ns = t->backward_ns = 0;
}

size_t dt_transformer_held(const struct dt_transformer *t)
{
    return t->a.bytes;
}
