/* SPDX-License-Identifier: Apache-2.0 */
/* The walk through the model, there and back:
 *
 *     embed -> block 0 -> ... -> last block -> head: loss, and at once its gradient
 *                                                                  |
 *     embed <- block 0 <- ... <- last block <-----------------------
 *
 * Each stop gathers its unit's parameters, computes, and gives them back; on the way back it adds
 * to the unit's gradients and says when no more will come. A tied head uses the embedding's matrix,
 * whose gradient so has two parts: the head adds the first, the embedding the second, and says that
 * it is all. A pass without samples makes the same stops and computes nothing, for other ranks wait
 * for it at each. */
#include "worker_runtime/model/transformer.h"

#include "base/clock.h"
#include "worker_runtime/model/block.h"
#include "worker_runtime/model/head.h"

#include <stdlib.h>

/* So the walk names GPT-2's where it means either's. */
_Static_assert((int)DT_GPT2_WTE == (int)DT_LLAMA_EMBED_TOKENS, "tokens come first");
_Static_assert((int)DT_GPT2_LN_F_WEIGHT == (int)DT_LLAMA_NORM, "the last norm comes first");

struct dt_transformer {
    struct dt_shape shape;
    struct dt_transformer_options options;
    struct dt_device *device;
    struct dt_activations a;
    /* Where tensors begin in their units, in bytes. */
    size_t embed_at[2], block_at[DT_BLOCK_TENSORS_MOST], head_at[3];
    float *losses; /* host memory */
    uint64_t forward_ns, backward_ns;
};

struct pass {
    struct dt_transformer *t;
    struct dt_zero *z;
    size_t batch, rows;
    bool train;
    float scale;
    int64_t since; /* when computing began that is not counted yet */
    struct dt_err *err;
};

static void start_clock(struct pass *p)
{
    p->since = dt_clock_monotonic_ns();
}

/* A GPU computes behind our back: what it was given here may be done, and counted, at a later stop.
 * A failure stays with the device until finish() asks. */
static void count_time(struct pass *p, uint64_t *sum)
{
    if (p->t->options.timed)
        dt_device_sync(p->t->device, NULL);
    int64_t now = dt_clock_monotonic_ns();
    *sum += (uint64_t)(now - p->since);
    p->since = now;
}

static size_t head_unit(const struct dt_transformer *t)
{
    return t->shape.layers + 1;
}

static struct dt_embedding embedding(const struct pass *p)
{
    const struct dt_transformer *t = p->t;
    return (struct dt_embedding){
        .rows = p->rows,
        .positions = t->options.positions,
        .width = t->shape.width,
        .vocabulary = t->shape.vocabulary,
        .ids = t->a.ids,
    };
}

static int embed_forward(struct pass *p)
{
    struct dt_transformer *t = p->t;
    const char *params = dt_zero_gather(p->z, 0, p->err);
    if (!params)
        return -1;
    if (p->rows > 0) {
        bool gpt2 = t->shape.family == DT_GPT2;
        struct dt_embedding e = embedding(p);
        start_clock(p);
        t->device->ops->embedding_forward(&e, t->a.inputs[0], params + t->embed_at[DT_GPT2_WTE],
                                          gpt2 ? params + t->embed_at[DT_GPT2_WPE] : NULL,
                                          t->device->stream);
        count_time(p, &t->forward_ns);
    }
    dt_zero_release(p->z, 0);
    return 0;
}

static int embed_backward(struct pass *p)
{
    struct dt_transformer *t = p->t;
    char *grads = dt_zero_grads(p->z, 0, p->err);
    if (!grads)
        return -1;
    if (p->rows > 0) {
        bool gpt2 = t->shape.family == DT_GPT2;
        struct dt_embedding e = embedding(p);
        start_clock(p);
        t->device->ops->embedding_backward(&e, grads + t->embed_at[DT_GPT2_WTE],
                                           gpt2 ? grads + t->embed_at[DT_GPT2_WPE] : NULL,
                                           t->a.scratch.dstream, t->device->stream);
        count_time(p, &t->backward_ns);
    }
    return dt_zero_reduce(p->z, 0, p->err);
}

static struct dt_block block_of(const struct pass *p, size_t block, const char *params, char *grads)
{
    const struct dt_transformer *t = p->t;
    return (struct dt_block){
        .shape = &t->shape,
        .ops = t->device->ops,
        .stream = t->device->stream,
        .batch = p->batch,
        .positions = t->options.positions,
        .rows = p->rows,
        .params = params,
        .grads = grads,
        .offset = t->block_at,
        .input = t->a.inputs[block],
        .kept = &t->a.kept[block],
        .scratch = &t->a.scratch,
    };
}

/* CHAINED: the input is still to be summed up, from what the block before left. */
static void compute_forward(const struct pass *p, size_t block, const char *params, bool chained,
                            bool output)
{
    const struct dt_activations *a = &p->t->a;
    struct dt_block b = block_of(p, block, params, NULL);
    const dt_elem *from = chained ? a->kept[block - 1].middle : NULL;
    if (p->t->shape.family == DT_GPT2)
        dt_gpt2_forward(&b, from, a->scratch.branch, output);
    else
        dt_llama_forward(&b, from, a->scratch.branch, output);
}

static int block_forward(struct pass *p, size_t block, bool chained, uint64_t *time)
{
    const char *params = dt_zero_gather(p->z, block + 1, p->err);
    if (!params)
        return -1;
    if (p->rows > 0) {
        start_clock(p);
        compute_forward(p, block, params, chained, true);
        count_time(p, time);
    }
    dt_zero_release(p->z, block + 1);
    return 0;
}

/* RECOMPUTE: its forward pass first, as what it kept is not there any more. What comes out of that
 * is not wanted: the way back began behind it. */
static int block_backward(struct pass *p, size_t block, bool recompute, bool chained)
{
    struct dt_transformer *t = p->t;
    const char *params = dt_zero_gather(p->z, block + 1, p->err);
    char *grads = params ? dt_zero_grads(p->z, block + 1, p->err) : NULL;
    if (!grads)
        return -1;
    if (p->rows > 0) {
        struct dt_block b = block_of(p, block, params, grads);
        start_clock(p);
        if (recompute)
            compute_forward(p, block, params, chained, false);
        if (t->shape.family == DT_GPT2)
            dt_gpt2_backward(&b);
        else
            dt_llama_backward(&b);
        count_time(p, &t->backward_ns);
    }
    dt_zero_release(p->z, block + 1);
    return dt_zero_reduce(p->z, block + 1, p->err);
}

static int blocks_forward(struct pass *p)
{
    for (size_t block = 0; block < p->t->shape.layers; block++)
        if (block_forward(p, block, block > 0, &p->t->forward_ns) < 0)
            return -1;
    return 0;
}

/* Segment by segment from the end. What the last segment kept is still there from the way forward;
 * the others are gone through again from the input of their first block. */
static int blocks_backward(struct pass *p)
{
    struct dt_transformer *t = p->t;
    size_t segment = t->a.segment ? t->a.segment : t->shape.layers;
    for (size_t end = t->shape.layers; end > 0;) {
        size_t first = (end - 1) / segment * segment;
        bool recompute = end < t->shape.layers;
        for (size_t block = first; recompute && block + 1 < end; block++)
            if (block_forward(p, block, block > first, &t->backward_ns) < 0)
                return -1;
        for (size_t block = end; block-- > first;)
            if (block_backward(p, block, recompute && block + 1 == end, block > first) < 0)
                return -1;
        end = first;
    }
    return 0;
}

/* Finds its parameters and where their gradients go. */
static int gather_head(struct pass *p, struct dt_head *h)
{
    const struct dt_transformer *t = p->t;
    bool gpt2 = t->shape.family == DT_GPT2, tied = t->shape.tied;
    size_t matrix_at = tied ? t->embed_at[DT_GPT2_WTE]
                            : t->head_at[gpt2 ? (size_t)DT_GPT2_LM_HEAD : (size_t)DT_LLAMA_LM_HEAD];
    const char *params = dt_zero_gather(p->z, head_unit(t), p->err), *matrix = params;
    char *grads, *dmatrix;
    if (params && tied)
        matrix = dt_zero_gather(p->z, 0, p->err);
    if (!params || !matrix)
        return -1;
    h->weight = params + t->head_at[DT_GPT2_LN_F_WEIGHT];
    h->bias = gpt2 ? params + t->head_at[DT_GPT2_LN_F_BIAS] : NULL;
    h->matrix = matrix + matrix_at;
    if (!p->train)
        return 0;
    grads = dt_zero_grads(p->z, head_unit(t), p->err);
    dmatrix = grads && tied ? dt_zero_grads(p->z, 0, p->err) : grads;
    if (!grads || !dmatrix)
        return -1;
    h->dweight = grads + t->head_at[DT_GPT2_LN_F_WEIGHT];
    h->dbias = gpt2 ? grads + t->head_at[DT_GPT2_LN_F_BIAS] : NULL;
    h->dmatrix = dmatrix + matrix_at;
    return 0;
}

/* Chunk by chunk to the loss and back, so only the logits of one are ever there. Chunks are equal
 * but for the last, for a small one costs as many walks through the matrix as a large one. */
static void compute_head(struct pass *p, const struct dt_head *h)
{
    struct dt_transformer *t = p->t;
    struct dt_device *device = t->device;
    size_t chunks = (p->rows + t->a.head_rows - 1) / t->a.head_rows;
    size_t size = (p->rows + chunks - 1) / chunks;
    start_clock(p);
    if (p->train)
        device->table->clear(device, t->a.scratch.dstream,
                             p->rows * t->shape.width * dt_dtype_size(device->ops->elem));
    for (size_t first = 0; first < p->rows; first += size) {
        size_t left = p->rows - first, rows = left < size ? left : size;
        dt_head_forward(h, first, rows, p->train, p->scale);
        count_time(p, &t->forward_ns);
        if (!p->train)
            continue;
        dt_head_backward(h, first, rows);
        count_time(p, &t->backward_ns);
    }
}

static int head(struct pass *p)
{
    struct dt_transformer *t = p->t;
    struct dt_head h = {
        .shape = &t->shape,
        .ops = t->device->ops,
        .stream = t->device->stream,
        .middle = t->a.kept[t->shape.layers - 1].middle,
        .targets = t->a.targets,
        .losses = t->a.losses,
        .scratch = &t->a.scratch,
    };
    if (gather_head(p, &h) < 0)
        return -1;
    if (p->rows > 0)
        compute_head(p, &h);
    if (t->shape.tied)
        dt_zero_release(p->z, 0);
    dt_zero_release(p->z, head_unit(t));
    return p->train ? dt_zero_reduce(p->z, head_unit(t), p->err) : 0;
}

/* An id outside would be read from outside of the embedding. */
static int check_ids(const struct pass *p, const char *what, const int32_t *ids, int32_t least)
{
    const struct dt_transformer *t = p->t;
    size_t positions = t->options.positions;
    for (size_t i = 0; i < p->rows; i++)
        if (ids[i] < least || (ids[i] >= 0 && (size_t)ids[i] >= t->shape.vocabulary))
            return dt_err_set(p->err, DT_E_USAGE,
                              "%s %d of sample %zu at position %zu is none of this model's %zu "
                              "words; the data was made for another vocabulary",
                              what, (int)ids[i], i / positions, i % positions, t->shape.vocabulary);
    return 0;
}

static int load(const struct pass *p, const int32_t *ids, const int32_t *targets)
{
    struct dt_device *device = p->t->device;
    if (p->batch > p->t->options.batch)
        return dt_err_set(p->err, DT_E_USAGE, "%zu samples, where there is room for %zu", p->batch,
                          p->t->options.batch);
    if (check_ids(p, "token", ids, 0) < 0 || check_ids(p, "target", targets, INT32_MIN) < 0)
        return -1;
    device->table->from_host(device, p->t->a.ids, ids, p->rows * sizeof *ids);
    device->table->from_host(device, p->t->a.targets, targets, p->rows * sizeof *targets);
    return 0;
}

static int finish(struct pass *p, double *loss_sum)
{
    struct dt_transformer *t = p->t;
    start_clock(p);
    t->device->table->to_host(t->device, t->losses, t->a.losses, p->rows * sizeof *t->losses);
    if (dt_device_sync(t->device, p->err) < 0)
        return -1;
    count_time(p, p->train ? &t->backward_ns : &t->forward_ns);
    for (size_t i = 0; i < p->rows; i++)
        *loss_sum += (double)t->losses[i];
    return 0;
}

static int run(struct pass *p, const int32_t *ids, const int32_t *targets, double *loss_sum)
{
    p->rows = p->batch * p->t->options.positions;
    if (load(p, ids, targets) < 0 || embed_forward(p) < 0 || blocks_forward(p) < 0 || head(p) < 0)
        return -1;
    if (p->train && (blocks_backward(p) < 0 || embed_backward(p) < 0))
        return -1;
    return finish(p, loss_sum);
}

int dt_transformer_train(struct dt_transformer *t, struct dt_zero *z, size_t batch,
                         const int32_t *ids, const int32_t *targets, float scale, double *loss_sum,
                         struct dt_err *err)
{
    struct pass p = {.t = t, .z = z, .batch = batch, .train = true, .scale = scale, .err = err};
    return run(&p, ids, targets, loss_sum);
}

int dt_transformer_loss(struct dt_transformer *t, struct dt_zero *z, size_t batch,
                        const int32_t *ids, const int32_t *targets, double *loss_sum,
                        struct dt_err *err)
{
    struct pass p = {.t = t, .z = z, .batch = batch, .err = err};
    return run(&p, ids, targets, loss_sum);
}

void dt_transformer_times(struct dt_transformer *t, uint64_t *forward, uint64_t *backward)
{
    *forward = t->forward_ns;
    *backward = t->backward_ns;
    t->forward_ns = t->backward_ns = 0;
}

/* All blocks are alike: the first stands for them. */
static int find_tensors(struct dt_transformer *t, struct dt_err *err)
{
    size_t count = dt_shape_tensor_count(&t->shape), elem = dt_dtype_size(t->device->ops->elem);
    struct dt_tensor *tensors = dt_shape_tensors(&t->shape, err);
    if (!tensors)
        return -1;
    for (const struct dt_tensor *n = tensors; n < tensors + count; n++) {
        if (n->unit == 0)
            t->embed_at[n->index] = n->offset * elem;
        else if (n->unit == 1)
            t->block_at[n->index] = n->offset * elem;
        else if (n->unit == head_unit(t))
            t->head_at[n->index] = n->offset * elem;
    }
    free(tensors);
    return 0;
}

struct dt_transformer *dt_transformer_create(const struct dt_shape *shape,
                                             const struct dt_transformer_options *o,
                                             struct dt_device *device, struct dt_err *err)
{
    if (o->batch < 1 || o->positions < 1 || o->positions > shape->positions) {
        dt_err_set(err, DT_E_USAGE,
                   "%zu samples of %zu positions; this model takes 1 to %zu positions", o->batch,
                   o->positions, shape->positions);
        return NULL;
    }
    struct dt_transformer *t = calloc(1, sizeof *t);
    if (!t) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a model");
        return NULL;
    }
    t->shape = *shape;
    t->options = *o;
    t->device = device;
    if (dt_activations_create(&t->a, shape, o, device, err) < 0 || find_tensors(t, err) < 0)
        goto fail;
    t->losses = calloc(o->batch * o->positions, sizeof *t->losses);
    if (t->losses)
        return t;
    dt_err_set(err, DT_E_MEMORY, "no memory for %zu losses", o->batch * o->positions);
fail:
    dt_transformer_destroy(t);
    return NULL;
}

void dt_transformer_destroy(struct dt_transformer *t)
{
    if (!t)
        return;
    dt_activations_destroy(&t->a, t->device);
    free(t->losses);
    free(t);
}
