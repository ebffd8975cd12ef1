/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding, norms, rotary positions: cut by rows where rows are alone, by columns where rows add
 * up in one place. */
#include <math.h>
#include <string.h>

#include "worker_runtime/ops/cpu/cpu.h"

enum { ROWS = 16, COLUMNS = 64, COLLECT = 1024, POSITIONS = 16 }; /* of a part */

struct embedding_job {
    const struct dt_embedding *e;
    float *out, *dtoken, *dposition;
    const float *token, *position, *dout;
};

static void embed(void *arg, size_t part)
{
    const struct embedding_job *j = arg;
    const struct dt_embedding *e = j->e;
    struct dt_range r = dt_part(e->rows, ROWS, part);
    for (size_t n = r.from; n < r.to; n++) {
        float *out = j->out + n * e->width;
        if (e->ids[n] < 0)
            memset(out, 0, e->width * sizeof *out);
        else
            memcpy(out, j->token + (size_t)e->ids[n] * e->width, e->width * sizeof *out);
        if (!j->position)
            continue;
        const float *place = j->position + (e->first + dt_embedding_place(e, n)) * e->width;
#pragma omp simd
        for (size_t c = 0; c < e->width; c++)
            out[c] += place[c];
    }
}

void DT_CPU(embedding_forward)(const struct dt_embedding *e, dt_elem *out, const dt_elem *token,
                               const dt_elem *position, struct dt_stream *s)
{
    struct embedding_job j = {.e = e, .out = out, .token = token, .position = position};
    dt_pool_run(s->pool, dt_parts(e->rows, ROWS), embed, &j);
}

/* One thread adds up a column of all words: in the order of rows, and nobody else writes there. */
static void embed_back(void *arg, size_t part)
{
    const struct embedding_job *j = arg;
    const struct dt_embedding *e = j->e;
    struct dt_range r = dt_part(e->width, COLUMNS, part);
    for (size_t n = 0; n < e->rows; n++) {
        const float *dout = j->dout + n * e->width;
        if (e->ids[n] >= 0) {
            float *word = j->dtoken + (size_t)e->ids[n] * e->width;
#pragma omp simd
            for (size_t c = r.from; c < r.to; c++)
                word[c] += dout[c];
        }
        if (!j->dposition)
            continue;
        float *place = j->dposition + (e->first + dt_embedding_place(e, n)) * e->width;
#pragma omp simd
        for (size_t c = r.from; c < r.to; c++)
            place[c] += dout[c];
    }
}

void DT_CPU(embedding_backward)(const struct dt_embedding *e, dt_elem *dtoken, dt_elem *dposition,
                                const dt_elem *dout, struct dt_stream *s)
{
    struct embedding_job j = {.e = e, .dtoken = dtoken, .dposition = dposition, .dout = dout};
    dt_pool_run(s->pool, dt_parts(e->width, COLUMNS), embed_back, &j);
}

struct norm_job {
    const struct dt_norm *n;
    float *out, *sum;
    const float *x, *add;
    float *dx, *dweight, *dbias;
    const float *dout;
    size_t rows;     /* of a part */
    float *partials; /* [parts][2][width]: of dweight, of dbias */
    size_t parts;
};

static void add_row(size_t width, float *sum, const float *x, const float *add)
{
#pragma omp simd
    for (size_t c = 0; c < width; c++)
        sum[c] = x[c] + add[c];
}

static float mean_of(size_t width, const float *x)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t c = 0; c < width; c++)
        sum += x[c];
    return sum / (float)width;
}

static float rstd_of(size_t width, const float *x, float mean, float eps)
{
    float square = 0;
#pragma omp simd reduction(+ : square)
    for (size_t c = 0; c < width; c++)
        square += (x[c] - mean) * (x[c] - mean);
    return 1 / sqrtf(square / (float)width + eps);
}

static void norm_row(const struct dt_norm *n, float *out, const float *x, float mean, float rstd)
{
    const float *weight = n->weight, *bias = n->bias;
    float plus = n->plus;
    if (bias) {
#pragma omp simd
        for (size_t c = 0; c < n->width; c++)
            out[c] = (x[c] - mean) * rstd * (weight[c] + plus) + bias[c];
    } else {
#pragma omp simd
        for (size_t c = 0; c < n->width; c++)
            out[c] = (x[c] - mean) * rstd * (weight[c] + plus);
    }
}

static void norm(void *arg, size_t part)
{
    const struct norm_job *j = arg;
    const struct dt_norm *n = j->n;
    struct dt_range r = dt_part(n->rows, ROWS, part);
    for (size_t row = r.from; row < r.to; row++) {
        const float *x = j->x + row * n->width;
        float *sum = j->sum ? j->sum + row * n->width : NULL;
        if (j->add)
            add_row(n->width, sum, x, j->add + row * n->width);
        else if (sum && sum != x)
            memcpy(sum, x, n->width * sizeof *sum);
        x = sum ? sum : x;
        float mean = n->mean ? mean_of(n->width, x) : 0;
        float rstd = rstd_of(n->width, x, mean, n->eps);
        if (n->mean)
            n->mean[row] = mean;
        n->rstd[row] = rstd;
        norm_row(n, j->out + row * n->width, x, mean, rstd);
    }
}

void DT_CPU(norm_forward)(const struct dt_norm *n, dt_elem *out, dt_elem *sum, const dt_elem *x,
                          const dt_elem *add, struct dt_stream *s)
{
    struct norm_job j = {.n = n, .out = out, .sum = sum, .x = x, .add = add};
    dt_pool_run(s->pool, dt_parts(n->rows, ROWS), norm, &j);
}

/* As in the reference: g = dout * (weight + plus), h = (x - mean) * rstd. */
static void norm_back_row(const struct norm_job *j, size_t row, float *dweight, float *dbias)
{
    const struct dt_norm *n = j->n;
    const float *x = j->x + row * n->width, *dout = j->dout + row * n->width, *weight = n->weight;
    float *dx = j->dx + row * n->width, mean = n->mean ? n->mean[row] : 0, rstd = n->rstd[row];
    float sum_g = 0, sum_gh = 0, plus = n->plus;
#pragma omp simd reduction(+ : sum_g, sum_gh)
    for (size_t c = 0; c < n->width; c++) {
        float g = dout[c] * (weight[c] + plus), h = (x[c] - mean) * rstd;
        sum_g += g;
        sum_gh += g * h;
        dweight[c] += dout[c] * h;
        dbias[c] += dout[c];
    }
    float average_g = n->mean ? sum_g / (float)n->width : 0, average_gh = sum_gh / (float)n->width;
#pragma omp simd
    for (size_t c = 0; c < n->width; c++) {
        float g = dout[c] * (weight[c] + plus), h = (x[c] - mean) * rstd;
        dx[c] += rstd * (g - average_g - h * average_gh);
    }
}

static void norm_back(void *arg, size_t part)
{
    const struct norm_job *j = arg;
    size_t width = j->n->width;
    struct dt_range r = dt_part(j->n->rows, j->rows, part);
    float *partial = j->partials + part * 2 * width;
    memset(partial, 0, 2 * width * sizeof *partial);
    for (size_t row = r.from; row < r.to; row++)
        norm_back_row(j, row, partial, partial + width);
}

/* The parts' sums, in their order. */
static void norm_collect(void *arg, size_t part)
{
    const struct norm_job *j = arg;
    size_t width = j->n->width;
    struct dt_range r = dt_part(width, COLLECT, part);
    for (size_t p = 0; p < j->parts; p++) {
        const float *partial = j->partials + p * 2 * width;
#pragma omp simd
        for (size_t c = r.from; c < r.to; c++)
            j->dweight[c] += partial[c];
        if (!j->dbias)
            continue;
#pragma omp simd
        for (size_t c = r.from; c < r.to; c++)
            j->dbias[c] += partial[width + c];
    }
}

void DT_CPU(norm_backward)(const struct dt_norm *n, dt_elem *dx, dt_elem *dweight, dt_elem *dbias,
                           const dt_elem *x, const dt_elem *dout, struct dt_stream *s)
{
    struct norm_job j = {.n = n,
                         .dx = dx,
                         .dweight = dweight,
                         .dbias = dbias,
                         .x = x,
                         .dout = dout,
                         .partials = s->shared};
    size_t most = DT_SHARED_BYTES / (2 * n->width * sizeof(float));
    most = most > 16 ? 16 : most;
    most = most < 1 ? 1 : most;
    j.rows = n->rows > 0 ? dt_parts(n->rows, most) : 1;
    j.parts = dt_parts(n->rows, j.rows);
    dt_pool_run(s->pool, j.parts, norm_back, &j);
    if (dweight)
        dt_pool_run(s->pool, dt_parts(n->width, COLLECT), norm_collect, &j);
}

struct rope_job {
    const struct dt_rope *r;
    float *x;
    bool backward;
    struct dt_stream *s;
};

static void turn(size_t half, float *a, const float *cosine, const float *sine)
{
    float *b = a + half;
#pragma omp simd
    for (size_t i = 0; i < half; i++) {
        float was = a[i];
        a[i] = was * cosine[i] - b[i] * sine[i];
        b[i] = b[i] * cosine[i] + was * sine[i];
    }
}

/* A part has a few positions, and turns by each position's angles in all sequences and heads. */
static void rope(void *arg, size_t part)
{
    const struct rope_job *j = arg;
    const struct dt_rope *r = j->r;
    size_t half = r->head_dim / 2;
    float *cosine = j->s->scratch[dt_pool_self()], *sine = cosine + half;
    float sine_scale = j->backward ? -r->scale : r->scale;
    struct dt_range range = dt_part(r->positions, POSITIONS, part);
    for (size_t t = range.from; t < range.to && t < r->rows; t++) {
        for (size_t i = 0; i < half; i++) {
            float angle = (float)(r->first + t) * r->speeds[i];
            cosine[i] = cosf(angle) * r->scale;
            sine[i] = sinf(angle) * sine_scale;
        }
        for (size_t n = t; n < r->rows; n += r->positions)
            for (size_t h = 0; h < r->heads; h++)
                turn(half, j->x + n * r->stride + h * r->head_dim, cosine, sine);
    }
}

void DT_CPU(rope)(const struct dt_rope *r, dt_elem *x, bool backward, struct dt_stream *s)
{
    struct rope_job j = {.r = r, .x = x, .backward = backward, .s = s};
    dt_pool_run(s->pool, dt_parts(r->positions, POSITIONS), rope, &j);
}
