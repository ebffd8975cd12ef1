/* SPDX-License-Identifier: Apache-2.0 */
/* What training adds to a model: the loss at its end, the optimizer's step, and the conversions
 * between the types that parameters and gradients are kept in. */
#include "worker_runtime/ops/reference/reference.h"

#include <math.h>
#include <string.h>

#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/nf4.h"

static double capped(const struct dt_cross_entropy *c, float logit)
{
    double cap = (double)c->cap;
    return cap > 0 ? cap * tanh((double)logit / cap) : (double)logit;
}

/* One row: loss = log(sum over v of exp(logit[v])) - logit[target]. Its gradient is
 * softmax(logits), less 1 at the target. Through a cap it becomes smaller by 1 - (logit / cap)^2,
 * the slope of tanh. */
static float row_cross_entropy(const struct dt_cross_entropy *c, float *logits, size_t target,
                               float scale, bool gradients)
{
    double largest = capped(c, logits[0]), sum = 0;
    for (size_t v = 1; v < c->vocabulary; v++)
        largest = fmax(largest, capped(c, logits[v]));
    for (size_t v = 0; v < c->vocabulary; v++)
        sum += exp(capped(c, logits[v]) - largest);
    double logsum = largest + log(sum), loss = logsum - capped(c, logits[target]);
    for (size_t v = 0; gradients && v < c->vocabulary; v++) {
        double x = capped(c, logits[v]), part = c->cap > 0 ? x / (double)c->cap : 0;
        double p = exp(x - logsum);
        logits[v] = (float)((p - (v == target)) * (1 - part * part) * (double)scale);
    }
    return (float)loss;
}

void dt_ref_cross_entropy(const struct dt_cross_entropy *c, float *losses, dt_elem *logits_,
                          bool gradients, struct dt_stream *s)
{
    float *logits = logits_;
    (void)s;
    for (size_t n = 0; n < c->rows; n++, logits += c->stride) {
        bool counts = c->targets[n] >= 0;
        losses[n] = 0;
        if (counts)
            losses[n] =
                row_cross_entropy(c, logits, (size_t)c->targets[n],
                                  c->weights ? c->scale * c->weights[n] : c->scale, gradients);
        /* Padding takes no part, and a row that does not count pulls at nothing. */
        size_t from = counts ? c->vocabulary : 0;
        for (size_t v = from; gradients && v < c->stride; v++)
            logits[v] = 0;
    }
}

/* What a row of the words here adds to its loss. */
static void sum_row(const struct dt_cross_entropy *c, const float *logits, size_t target,
                    float *sums)
{
    double largest = capped(c, logits[0]), sum = 0;
    for (size_t v = 1; v < c->vocabulary; v++)
        largest = fmax(largest, capped(c, logits[v]));
    sums[0] = (float)largest;
    /* Words that cannot be at all add nothing, rather than infinity less infinity. */
    for (size_t v = 0; v < c->vocabulary; v++) {
        double x = capped(c, logits[v]);
        sum += x == -INFINITY ? 0 : exp(x - (double)sums[0]);
    }
    sums[1] = (float)sum;
    sums[2] = target < c->vocabulary ? (float)capped(c, logits[target]) : 0;
}

void dt_ref_cross_entropy_sums(const struct dt_cross_entropy *c, float *sums,
                               const dt_elem *logits_, struct dt_stream *s)
{
    const float *logits = logits_;
    (void)s;
    for (size_t n = 0; n < c->rows; n++, logits += c->stride, sums += 3)
        if (c->targets[n] >= 0)
            sum_row(c, logits, (size_t)c->targets[n], sums);
        else
            sums[0] = sums[1] = sums[2] = 0;
}

/* log(sum over the words of all ranks of exp(logit)); and the target's logit, which one rank has.
 * SUMS: of the row on the first rank. */
static double join_row(const struct dt_cross_entropy *c, size_t parts, const float *sums,
                       double *wanted)
{
    double largest = -INFINITY, sum = 0;
    *wanted = 0;
    for (size_t part = 0; part < parts; part++)
        largest = fmax(largest, (double)sums[part * c->rows * 3]);
    for (size_t part = 0; part < parts; part++) {
        const float *of = sums + part * c->rows * 3;
        sum += (double)of[1] * exp((double)of[0] - largest);
        *wanted += (double)of[2];
    }
    return largest + log(sum);
}

void dt_ref_cross_entropy_join(const struct dt_cross_entropy *c, size_t parts, const float *sums,
                               float *losses, dt_elem *logits_, bool gradients, struct dt_stream *s)
{
    float *logits = logits_;
    (void)s;
    for (size_t n = 0; n < c->rows; n++, logits += c->stride) {
        bool counts = c->targets[n] >= 0;
        double wanted, logsum = join_row(c, parts, sums + n * 3, &wanted);
        double scale = (double)(c->weights ? c->scale * c->weights[n] : c->scale);
        losses[n] = counts ? (float)(logsum - wanted) : 0;
        for (size_t v = 0; gradients && v < c->stride; v++) {
            bool used = counts && v < c->vocabulary;
            double x = used ? capped(c, logits[v]) : 0, part = c->cap > 0 ? x / (double)c->cap : 0;
            double p = used ? exp(x - logsum) - (v == (size_t)c->targets[n]) : 0;
            logits[v] = (float)(p * (1 - part * part) * scale);
        }
    }
}

static float round_one(float x, enum dt_dtype type)
{
    if (type == DT_BF16)
        return dt_bf16_to_float(dt_float_to_bf16(x));
    if (type == DT_F16)
        return dt_f16_to_float(dt_float_to_f16(x));
    return x;
}

static float round_by_chance(float x, enum dt_dtype type, uint32_t chance)
{
    if (type == DT_BF16)
        return dt_bf16_to_float(dt_float_to_bf16_by_chance(x, chance));
    if (type == DT_F16)
        return dt_f16_to_float(dt_float_to_f16_by_chance(x, chance));
    return x;
}

/* Two running averages for each parameter: m of its gradient, v of the gradient's square. Both
 * start at 0 and so are too small at first, by 1 - beta^step, which is made up for. The step is
 *   lr * m / (sqrt(v) + eps)
 * about lr in size however large gradients are. Weight decay pulls to 0: beside the step (AdamW,
 * decoupled), or as part of the gradient (Adam with L2). The model gets what is left of the result
 * in its type, rounded to nearest or by chance. */
static void update(const struct dt_adamw *a, const struct dt_adamw_part *part)
{
    float *params = part->params, *master = part->master;
    const float *grads = part->grads;
    uint64_t start = dt_mix(part->chance) + part->chance_at;
    for (size_t i = 0; i < part->count; i++) {
        double p = (double)master[i], g = (double)grads[i] * (double)a->grad_scale;
        if (a->decoupled)
            p -= (double)part->lr * (double)part->weight_decay * p;
        else
            g += (double)part->weight_decay * p;
        double m = (double)a->beta1 * part->exp_avg[i] + (1 - (double)a->beta1) * g;
        double v = (double)a->beta2 * part->exp_avg_sq[i] + (1 - (double)a->beta2) * g * g;
        part->exp_avg[i] = (float)m;
        part->exp_avg_sq[i] = (float)v;
        p -= (double)part->lr * (m / (double)a->bias1) /
             (sqrt(v / (double)a->bias2) + (double)a->eps);
        master[i] = (float)p;
        params[i] = part->chance
                        ? round_by_chance(master[i], a->model_type, dt_chance_bits(start, i))
                        : round_one(master[i], a->model_type);
    }
}

void dt_ref_adamw(const struct dt_adamw *a, size_t parts, const struct dt_adamw_part *part,
                  struct dt_stream *s)
{
    (void)s;
    for (size_t i = 0; i < parts; i++)
        update(a, &part[i]);
}

/* Blocks of fixed size, so that the order of additions is the same everywhere. */
static double sum_of(size_t n, const float *x)
{
    enum { BLOCK = 4096 };
    double total = 0;
    for (size_t from = 0; from < n; from += BLOCK) {
        size_t to = from + BLOCK < n ? from + BLOCK : n;
        double sum = 0;
        for (size_t i = from; i < to; i++)
            sum += (double)x[i] * (double)x[i];
        total += sum;
    }
    return total;
}

void dt_ref_sum_squares(enum dt_dtype type, size_t parts, double *sums,
                        const struct dt_squares_part *part, struct dt_stream *s)
{
    (void)type; /* floats */
    (void)s;
    for (size_t i = 0; i < parts; i++)
        sums[i] = sum_of(part[i].count, part[i].x);
}

static double load(const void *x, enum dt_dtype type, size_t i)
{
    switch (type) {
    case DT_F32:
        return (double)((const float *)x)[i];
    case DT_BF16:
        return (double)dt_bf16_to_float(((const uint16_t *)x)[i]);
    case DT_F16:
        return (double)dt_f16_to_float(((const uint16_t *)x)[i]);
    default:
        return ((const double *)x)[i];
    }
}

static void store(void *out, enum dt_dtype type, size_t i, double x)
{
    switch (type) {
    case DT_F32:
        ((float *)out)[i] = (float)x;
        break;
    case DT_BF16:
        ((uint16_t *)out)[i] = dt_float_to_bf16(dt_double_to_float_odd(x));
        break;
    case DT_F16:
        ((uint16_t *)out)[i] = dt_float_to_f16(dt_double_to_float_odd(x));
        break;
    default:
        ((double *)out)[i] = x;
    }
}

/* Between the float types. Equal types are copied bit by bit. */
void dt_ref_cast(size_t n, void *out, enum dt_dtype out_type, const void *x, enum dt_dtype type,
                 struct dt_stream *s)
{
    (void)s;
    if (type == out_type) {
        memmove(out, x, n * dt_dtype_size(type));
        return;
    }
    for (size_t i = 0; i < n; i++)
        store(out, out_type, i, load(x, type, i));
}

void dt_ref_round_to(size_t n, float *x, enum dt_dtype type, struct dt_stream *s)
{
    (void)s;
    for (size_t i = 0; i < n; i++)
        x[i] = round_one(x[i], type);
}

void dt_ref_nf4_expand(const struct dt_nf4 *q, dt_elem *out_, struct dt_stream *s)
{
    static const float codebook[DT_NF4_CODES] = DT_NF4_CODEBOOK;
    const struct dt_nf4_parts p = dt_nf4_parts_of(q->packed, q->count);
    float *out = out_;
    (void)s;
    for (size_t i = 0; i < q->count; i++) {
        float x = codebook[dt_nf4_code(&p, i)] * dt_nf4_scale(&p, i / DT_NF4_BLOCK);
        out[i] = round_one(x, q->type);
    }
}
