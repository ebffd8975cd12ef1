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

/* The stream's last sum takes the place of what is added to it. */
void dt_head_logits(const struct dt_head *h, size_t first, size_t rows)
{
    const struct dt_scratch *s = h->scratch;
    struct dt_norm last_norm = norm(h, rows);
    struct dt_linear to_words = linear(h, rows);
    const dt_elem *middle = h->middle ? (const char *)h->middle + first * row_bytes(h) : NULL;
    dt_elem *stream = from_row(h, s->branch, first), *normed = from_row(h, s->normed, first);

    h->ops->norm_forward(&last_norm, normed, stream, stream, middle, h->stream);
    h->ops->linear_forward(&to_words, s->logits, normed, h->stream);
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
    struct dt_norm last_norm = norm(h, rows);
    struct dt_linear to_words = linear(h, rows);

    h->ops->linear_backward(&to_words, s->dnormed, false, h->dmatrix, NULL,
                            from_row(h, s->normed, first), s->logits, h->stream);
    h->ops->norm_backward(&last_norm, from_row(h, h->dstream, first), h->dweight, h->dbias,
                          from_row(h, s->branch, first), s->dnormed, h->stream);
}
