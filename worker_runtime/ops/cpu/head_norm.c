/* SPDX-License-Identifier: Apache-2.0 */
/* RMSNorm of single heads: cut by rows. */
#include <math.h>
#include <string.h>

#include "worker_runtime/ops/cpu/cpu.h"

enum { ROWS = 16, PARTS_MOST = 16 };

struct head_norm_job {
    const struct dt_head_norm *n;
    float *out;
    const float *x;
    float *dx, *dweight;
    const float *dout;
    size_t rows;     /* of a part */
    float *partials; /* [parts][head_dim]: of dweight */
};

static float rstd_of(const struct dt_head_norm *n, const float *x)
{
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (size_t c = 0; c < n->head_dim; c++)
        square += x[c] * x[c];
    return 1 / sqrtf(square / (float)n->head_dim + n->eps);
}

static void head_norm(void *arg, size_t part)
{
    const struct head_norm_job *j = arg;
    const struct dt_head_norm *n = j->n;
    const float *weight = n->weight;
    struct dt_range r = dt_part(n->rows, ROWS, part);
    for (size_t row = r.from; row < r.to; row++) {
        for (size_t h = 0; h < n->heads; h++) {
            size_t at = row * n->stride + h * n->head_dim;
            const float *x = j->x + at;
            float *out = j->out + at, rstd = rstd_of(n, x), plus = n->plus;
#pragma omp simd
            for (size_t c = 0; c < n->head_dim; c++)
                out[c] = x[c] * rstd * (weight[c] + plus);
        }
    }
}

void DT_CPU(head_norm_forward)(const struct dt_head_norm *n, dt_elem *out, const dt_elem *x,
                               struct dt_stream *s)
{
    struct head_norm_job j = {.n = n, .out = out, .x = x};
    dt_pool_run(s->pool, dt_parts(n->rows, ROWS), head_norm, &j);
}

/* As in the reference: g = dout * (weight + plus), h = x * rstd. */
static void back_one(const struct dt_head_norm *n, float *dx, float *dweight, const float *x,
                     const float *dout)
{
    const float *weight = n->weight;
    float rstd = rstd_of(n, x), sum = 0, plus = n->plus;
#pragma omp simd reduction(+ : sum)
    for (size_t c = 0; c < n->head_dim; c++) {
        float h = x[c] * rstd;
        sum += dout[c] * (weight[c] + plus) * h;
        dweight[c] += dout[c] * h;
    }
    float average = sum / (float)n->head_dim;
#pragma omp simd
    for (size_t c = 0; c < n->head_dim; c++)
        dx[c] = rstd * (dout[c] * (weight[c] + plus) - x[c] * rstd * average);
}

static void head_norm_back(void *arg, size_t part)
{
    const struct head_norm_job *j = arg;
    const struct dt_head_norm *n = j->n;
    struct dt_range r = dt_part(n->rows, j->rows, part);
    float *partial = j->partials + part * n->head_dim;
    memset(partial, 0, n->head_dim * sizeof *partial);
    for (size_t row = r.from; row < r.to; row++) {
        for (size_t h = 0; h < n->heads; h++) {
            size_t at = row * n->stride + h * n->head_dim;
            back_one(n, j->dx + at, partial, j->x + at, j->dout + at);
        }
    }
}

void DT_CPU(head_norm_backward)(const struct dt_head_norm *n, dt_elem *dx, dt_elem *dweight_,
                                const dt_elem *x, const dt_elem *dout, struct dt_stream *s)
{
    float *dweight = dweight_;
    struct head_norm_job j = {.n = n, .dx = dx, .x = x, .dout = dout, .partials = s->shared};
    if (n->rows == 0)
        return;
    j.rows = dt_parts(n->rows, PARTS_MOST);
    size_t parts = dt_parts(n->rows, j.rows);
    dt_pool_run(s->pool, parts, head_norm_back, &j);
    for (size_t p = 0; dweight && p < parts; p++)
        for (size_t c = 0; c < n->head_dim; c++)
            dweight[c] += j.partials[p * n->head_dim + c];
}
