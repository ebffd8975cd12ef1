/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/norms.h"

#include "base/auto.h"
#include "worker_runtime/ckpt/convert.h"
#include "worker_runtime/ckpt/inside.h"

#include <math.h>
#include <stdlib.h>

#define CHUNK ((size_t)1 << 16) /* elements on their way */

int dt_norms_begin(struct dt_norms *n, const struct dt_shape *s, const struct dt_tensor *t,
                   size_t first, size_t count, struct dt_err *err)
{
    *n = (struct dt_norms){.in_out = s->family == DT_GPT2,
                           .columns = t->dims[1],
                           .first = first,
                           .count = count,
                           .squares = calloc(count + 1, sizeof *n->squares)};
    return n->squares ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for the norms of %s", t->name);
}

void dt_norms_finish(struct dt_norms *n)
{
    free(n->squares);
    n->squares = NULL;
}

/* The elements of the matrix that have a say: from *FIRST to below *END. */
static void span(const struct dt_norms *n, const struct dt_tensor *t, uint64_t *first,
                 uint64_t *end)
{
    *first = n->in_out ? 0 : (uint64_t)n->first * n->columns;
    *end = n->in_out ? t->count : (uint64_t)(n->first + n->count) * n->columns;
}

/* Elements of ROW, from column FROM on. */
static void add_row(struct dt_norms *n, size_t row, size_t from, size_t count, const float *x)
{
    for (size_t i = 0; i < count; i++) {
        size_t output = n->in_out ? from + i : row;
        if (output >= n->first && output - n->first < n->count)
            n->squares[output - n->first] += (double)x[i] * (double)x[i];
    }
}

void dt_norms_add(struct dt_norms *n, uint64_t first, size_t count, const float *x)
{
    while (count > 0) {
        size_t row = (size_t)(first / n->columns), from = (size_t)(first % n->columns);
        size_t here = n->columns - from < count ? n->columns - from : count;
        add_row(n, row, from, here, x);
        first += here;
        x += here;
        count -= here;
    }
}

float dt_norms_of(const struct dt_norms *n, size_t output)
{
    return (float)sqrt(n->squares[output - n->first]);
}

static int add_all(const struct dt_ckpt_weights *w, size_t tensor, enum dt_dtype type,
                   struct dt_norms *n, struct dt_err *err)
{
    uint64_t at, end;
    DT_AUTO_FREE float *x = malloc(CHUNK * sizeof *x);
    DT_AUTO_FREE void *kept = malloc(CHUNK * sizeof *x);
    if (!x || !kept)
        return dt_err_set(err, DT_E_MEMORY, "no memory to read weights");
    span(n, &dt_ckpt_weights_model(w)->tensors[tensor], &at, &end);
    while (at < end) {
        size_t count = end - at < CHUNK ? (size_t)(end - at) : CHUNK;
        if (dt_ckpt_weights_read(w, tensor, at, count, x, err) < 0)
            return -1;
        dt_convert_from_f32(type, x, kept, count);
        dt_convert_to_f32(type, kept, x, count);
        dt_norms_add(n, at, count, x);
        at += count;
    }
    return 0;
}

int dt_ckpt_weights_norms(const struct dt_ckpt_weights *w, size_t tensor, enum dt_dtype type,
                          size_t first, size_t count, float *norms, struct dt_err *err)
{
    const struct dt_ckpt_model *m = dt_ckpt_weights_model(w);
    struct dt_norms n;
    int rc = dt_norms_begin(&n, m->shape, &m->tensors[tensor], first, count, err);
    if (rc == 0)
        rc = add_all(w, tensor, type, &n, err);
    for (size_t i = 0; rc == 0 && i < count; i++)
        norms[i] = dt_norms_of(&n, first + i);
    dt_norms_finish(&n);
    return rc;
}
