/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/model/head.h"

static size_t row_bytes(const struct dt_head *h)
{
    return h->shape->width * dt_dtype_size(h->ops->elem);
}

static dt_elem *from_row(const struct dt_head *h, dt_elem *at, size_t row)
{
    return (char *)at + row * row_bytes(h);
}

static struct dt_norm norm(const struct dt_head *h, size_t rows)
{
    return (struct dt_norm){
        .rows = rows,
        .width = h->shape->width,
        .eps = h->shape->norm_eps,
        .plus = dt_shape_norm_plus(h->shape),
        .weight = h->weight,
        .bias = h->bias,
        .mean = h->scratch->mean,
        .rstd = h->scratch->rstd,
    };
}

static struct dt_linear linear(const struct dt_head *h, size_t rows)
{
    return (struct dt_linear){
        .rows = rows,
        .in = h->shape->width,
        .out = h->words->to - h->words->from,
        .out_stride = h->scratch->logits_stride,
        .layout = DT_WEIGHT_OUT_IN,
        .weight = h->matrix,
    };
}

static struct dt_rows rows_of(const struct dt_head *h, size_t all)
{
    return (struct dt_rows){h->team, all, h->shape->width, h->ops->elem};
}

/* Where rows are shared, ranks have different ones of each chunk: so all are normed before the
 * first, and gathered. */
void dt_head_begin(const struct dt_head *h, size_t all)
{
    const struct dt_scratch *s = h->scratch;
    const struct dt_rows r = rows_of(h, all);
    struct dt_norm last_norm = norm(h, dt_rows_own(h->team, all));
    dt_elem *stream = dt_rows_place(&r, s->branch), *normed = dt_rows_place(&r, s->normed);
    if (!dt_rows_shared(&r))
        return;
    h->ops->norm_forward(&last_norm, normed, stream, stream, h->middle, h->stream);
    dt_rows_gather(&r, s->normed, normed);
}

/* The stream's last sum takes the place of what is added to it. */
static void sum_and_norm(const struct dt_head *h, size_t first, size_t rows)
{
    const struct dt_scratch *s = h->scratch;
    struct dt_norm last_norm = norm(h, rows);
    const dt_elem *middle = h->middle ? (const char *)h->middle + first * row_bytes(h) : NULL;
    dt_elem *stream = from_row(h, s->branch, first), *normed = from_row(h, s->normed, first);
    h->ops->norm_forward(&last_norm, normed, stream, stream, middle, h->stream);
}

void dt_head_logits(const struct dt_head *h, size_t first, size_t rows)
{
    const struct dt_scratch *s = h->scratch;
    const struct dt_rows r = rows_of(h, rows);
    struct dt_linear to_words = linear(h, rows);

    if (!dt_rows_shared(&r))
        sum_and_norm(h, first, rows);
    h->ops->linear_forward(&to_words, s->logits, from_row(h, s->normed, first), h->stream);
}

/* Each rank's sums of its own words, to all, who so come to the same losses. */
static void lose_together(const struct dt_head *h, const struct dt_cross_entropy *loss,
                          float *losses, bool gradients)
{
    const struct dt_scratch *s = h->scratch;
    size_t numbers = loss->rows * 3;
    h->ops->cross_entropy_sums(loss, s->sums + (size_t)h->team->index * numbers, s->logits,
                               h->stream);
    dt_team_gather(h->team, s->sums, numbers, DT_F32);
    h->ops->cross_entropy_join(loss, h->words->parts, s->sums, losses, s->logits, gradients,
                               h->stream);
}

void dt_head_forward(const struct dt_head *h, size_t first, size_t rows, bool gradients,
                     float scale)
{
    const struct dt_scratch *s = h->scratch;
    struct dt_cross_entropy loss = {
        .rows = rows,
        .vocabulary = h->words->to - h->words->from,
        .stride = s->logits_stride,
        .targets = h->targets + first,
        .scale = scale,
        .cap = h->shape->logit_cap,
        .weights = h->weights ? h->weights + first : NULL,
    };

    dt_head_logits(h, first, rows);
    if (h->team)
        lose_together(h, &loss, h->losses + first, gradients);
    else
        h->ops->cross_entropy(&loss, h->losses + first, s->logits, gradients, h->stream);
}

void dt_head_backward(const struct dt_head *h, size_t first, size_t rows)
{
    const struct dt_scratch *s = h->scratch;
    const struct dt_rows r = rows_of(h, rows);
    struct dt_norm last_norm = norm(h, rows);
    struct dt_linear to_words = linear(h, rows);
    dt_elem *normed = from_row(h, s->normed, first), *stream = from_row(h, s->branch, first);

    h->ops->linear_backward(&to_words, s->dnormed, false, h->dmatrix, NULL, normed, s->logits,
                            h->stream);
    if (dt_rows_shared(&r)) /* in place of what is of no more use */
        h->ops->cast(rows * h->shape->width, normed, h->ops->elem, s->dnormed, h->ops->elem,
                     h->stream);
    else
        h->ops->norm_backward(&last_norm, from_row(h, h->dstream, first), h->dweight, h->dbias,
                              stream, s->dnormed, h->stream);
}

/* What the words of this rank mean for the stream is a part of it, which the norm lets through as
 * it does a sum: so where a rank has all rows, one sum behind it is enough. */
void dt_head_end(const struct dt_head *h, size_t all)
{
    const struct dt_scratch *s = h->scratch;
    const struct dt_rows r = rows_of(h, all);
    struct dt_norm last_norm = norm(h, dt_rows_own(h->team, all));
    dt_elem *stream = dt_rows_place(&r, s->branch), *normed = dt_rows_place(&r, s->normed);
    if (!dt_rows_shared(&r)) {
        dt_rows_sum(&r, h->dstream, h->dstream);
        return;
    }
    dt_rows_sum(&r, s->normed, normed);
    h->ops->norm_backward(&last_norm, h->dstream, h->dweight, h->dbias, stream, normed, h->stream);
}
