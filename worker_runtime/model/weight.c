/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/weight.h"

struct tensors {
    size_t first, end;
};

static struct tensors tensors_of(const struct dt_block *b, const struct dt_linear *l)
{
    size_t at = (size_t)((const char *)l->weight - b->params), all = l->in * l->out;
    struct tensors w = {0};
    while (b->count[w.first] == 0 || b->offset[w.first] != at)
        w.first++;
    for (w.end = w.first; all > 0; w.end++)
        all -= b->count[w.end];
    return w;
}

bool dt_weight_has(const struct dt_block *b, const struct dt_linear *l, size_t tensor,
                   size_t *column)
{
    struct tensors w = tensors_of(b, l);
    if (tensor < w.first || tensor >= w.end)
        return false;
    *column = 0;
    for (size_t i = w.first; i < tensor; i++)
        *column += b->count[i] / l->in;
    return true;
}

struct dt_linear dt_weight_open(const struct dt_block *b, const struct dt_linear *l)
{
    struct dt_linear own = *l;
    if (!b->nf4)
        return own;
    struct tensors w = tensors_of(b, l);
    char *to = b->scratch->weight;
    for (size_t i = w.first; i < w.end; i++) {
        struct dt_nf4 q = {b->count[i], dt_block_param(b, i), b->nf4_type};
        b->ops->nf4_expand(&q, to, b->stream);
        to += b->count[i] * dt_dtype_size(b->ops->elem);
    }
    own.weight = b->scratch->weight;
    own.layout = DT_WEIGHT_OUT_IN; /* dt_packed_turns() */
    return own;
}
