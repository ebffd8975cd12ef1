/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of transformer.c, forward and to the logits alone, over the rows that are new. Queries,
 * keys and values of a row stand side by side, and a block writes them where the rows before have
 * theirs: so its attention finds all keys of the text, and nothing is copied. The queries of the
 * past stay too, for nobody; they cost as much as they did in training. */
#include "worker_runtime/model/inference.h"

#include "worker_runtime/model/work.h"

#include <math.h>
#include <stdlib.h>

/* A long text is read in parts of so many rows: enough for products of matrices to be as fast as
 * they get, and few enough for what is kept of one part to be small. */
#define ROWS_MOST 64

struct dt_inference {
    struct dt_transformer *t; /* of one sample with as many positions as a part has at most */
    const char *const *units;
    size_t capacity, length;
    size_t row_bytes;                  /* of one row's queries, keys and values */
    char *cache;                       /* by block, capacity rows each */
    float *logits;                     /* device memory */
    const volatile sig_atomic_t *stop; /* NULL: nobody gives up */
};

static size_t cache_row(const struct dt_shape *s, enum dt_dtype elem)
{
    return (s->heads + 2 * s->kv_heads) * s->head_dim * dt_dtype_size(elem);
}

/* That keys and values of a text take; SIZE_MAX: more than can be counted. */
static size_t cache_bytes(const struct dt_shape *shape, size_t capacity, enum dt_dtype elem)
{
    size_t bytes;
    if (__builtin_mul_overflow(capacity, shape->layers, &bytes) ||
        __builtin_mul_overflow(bytes, cache_row(shape, elem), &bytes))
        return SIZE_MAX;
    return bytes;
}

static int open_memory(struct dt_inference *i, const struct dt_shape *shape,
                       struct dt_device *device, struct dt_err *err)
{
    size_t bytes = cache_bytes(shape, i->capacity, device->ops->elem);
    i->cache = dt_device_alloc(device, bytes, "keys and values", err);
    if (!i->cache)
        return dt_err_wrap(err, "keys and values of %zu tokens", i->capacity);
    i->logits = dt_device_alloc(device, shape->vocabulary * sizeof *i->logits, "logits", err);
    return i->logits ? 0 : -1;
}

struct dt_inference *dt_inference_create(const struct dt_shape *shape, const char *const *units,
                                         size_t capacity, struct dt_device *device,
                                         struct dt_err *err)
{
    /* What is kept for a way back is kept for one block at a time, as there is no way back. */
    const struct dt_transformer_options o = {.batch = 1,
                                             .positions =
                                                 capacity < ROWS_MOST ? capacity : ROWS_MOST,
                                             .recompute = true,
                                             .op_by_op = true};
    if (capacity > shape->positions) {
        dt_err_set(err, DT_E_USAGE, "a text of %zu tokens, where this model takes at most %zu",
                   capacity, shape->positions);
        return NULL;
    }
    struct dt_inference *i = calloc(1, sizeof *i);
    if (!i) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a model");
        return NULL;
    }
    i->units = units;
    i->capacity = capacity;
    i->row_bytes = cache_row(shape, device->ops->elem);
    i->t = dt_transformer_create(shape, &o, device, err);
    if (i->t && open_memory(i, shape, device, err) == 0)
        return i;
    dt_inference_destroy(i);
    return NULL;
}

void dt_inference_destroy(struct dt_inference *i)
{
    if (!i)
        return;
    if (i->t) {
        dt_device_free(i->t->device, i->logits);
        dt_device_free(i->t->device, i->cache);
    }
    dt_transformer_destroy(i->t);
    free(i);
}

void dt_inference_heed(struct dt_inference *i, const volatile sig_atomic_t *stop)
{
    i->stop = stop;
}

size_t dt_inference_length(const struct dt_inference *i)
{
    return i->length;
}

static int check(const struct dt_inference *i, const int32_t *ids, size_t count, struct dt_err *err)
{
    size_t vocabulary = i->t->shape.vocabulary;
    if (count < 1 || count > i->capacity - i->length)
        return dt_err_set(err, DT_E_USAGE, "%zu tokens behind %zu, where there is room for %zu",
                          count, i->length, i->capacity);
    for (size_t k = 0; k < count; k++)
        if (ids[k] < 0 || (size_t)ids[k] >= vocabulary)
            return dt_err_set(err, DT_E_USAGE,
                              "token %d is none of this model's %zu; the text was made into tokens "
                              "for another model",
                              (int)ids[k], vocabulary);
    return 0;
}

static bool is_given_up(const struct dt_inference *i)
{
    return i->stop && *i->stop;
}

/* The stops in their order, as long as somebody wants them. A block's rows are written behind those
 * that are there. */
static void walk(struct dt_inference *i, size_t rows)
{
    struct dt_transformer *t = i->t;
    size_t layers = t->shape.layers;
    const struct dt_work common = {.batch = 1, .positions = rows, .first = i->length};
    struct dt_work w = common;
    w.kind = DT_EMBED_FORWARD;
    w.params = i->units[0];
    dt_work_compute(t, &w);
    for (size_t block = 0; block < layers && !is_given_up(i); block++) {
        t->a.slots[0].kept[block].qkv = i->cache + (block * i->capacity + i->length) * i->row_bytes;
        w = common;
        w.kind = DT_BLOCK_FORWARD;
        w.block = block;
        w.chained = block > 0;
        w.params = i->units[block + 1];
        dt_work_compute(t, &w);
    }
}

/* One row: that is done before the host looks at it. */
static void cap(float by, float *logits, size_t count)
{
    for (size_t i = 0; by > 0 && i < count; i++)
        logits[i] = by * tanhf(logits[i] / by);
}

static int collect_logits(struct dt_inference *i, size_t rows, float *logits, struct dt_err *err)
{
    struct dt_transformer *t = i->t;
    struct dt_device *device = t->device;
    size_t head = t->shape.layers + 1, vocabulary = t->shape.vocabulary;
    struct dt_work w = {.kind = DT_LOGITS, .batch = 1, .positions = rows};
    w.params = i->units[head];
    w.matrix = i->units[t->shape.tied ? 0 : head];
    dt_work_compute(t, &w);
    device->ops->cast(vocabulary, i->logits, DT_F32, t->a.scratch.logits, device->ops->elem,
                      device->stream);
    device->table->to_host(device, logits, i->logits, vocabulary * sizeof *logits);
    if (dt_device_sync(device, err) < 0)
        return -1;
    cap(t->shape.logit_cap, logits, vocabulary);
    return 0;
}

int dt_inference_read(struct dt_inference *i, const int32_t *ids, size_t count, float *logits,
                      struct dt_err *err)
{
    struct dt_device *device = i->t->device;
    size_t rows = 0;
    if (check(i, ids, count, err) < 0)
        return -1;
    for (size_t at = 0; at < count; at += rows) {
        size_t left = count - at, most = i->t->options.positions;
        rows = left < most ? left : most;
        device->table->from_host(device, i->t->a.slots[0].ids, ids + at, rows * sizeof *ids);
        walk(i, rows);
        if (is_given_up(i))
            return dt_err_set(err, DT_E_CANCELED, "told to end");
        i->length += rows;
    }
    return collect_logits(i, rows, logits, err);
}
