/* SPDX-License-Identifier: Apache-2.0 */
/* DoRA's magnitudes. Norms are made of a tile of the weights at a time, with the adapter's part
 * added to it there, so the sum of both is nowhere whole. */
#include <math.h>
#include <string.h>

#include "worker_runtime/ops/cpu/cpu.h"

enum { OUTS = 16, INS = 64, ROWS = 16, SLICE = 256 };

struct norms_job {
    const struct dt_linear *l;
    size_t r;
    float scale;
    const float *a, *b;
    float *rnorms;
};

/* TILE[o][i] = SCALE B A of outputs from O on and inputs from I on. */
static void adapter_tile(const struct norms_job *j, struct dt_range o, struct dt_range i,
                         float tile[OUTS][INS])
{
    size_t in = j->l->in, inputs = i.to - i.from;
    for (size_t row = 0; row < o.to - o.from; row++) {
        const float *b = j->b + (o.from + row) * j->r;
        float *to = tile[row];
        memset(to, 0, sizeof tile[row]);
        for (size_t k = 0; k < j->r; k++) {
            const float *a = j->a + k * in + i.from;
            float by = b[k] * j->scale;
#pragma omp simd
            for (size_t c = 0; c < inputs; c++)
                to[c] += by * a[c];
        }
    }
}

/* Of weights [out, in]. */
static void add_rows(const struct norms_job *j, struct dt_range o, struct dt_range i,
                     float tile[OUTS][INS])
{
    const float *weight = j->l->weight;
    for (size_t row = 0; row < o.to - o.from; row++) {
        const float *from = weight + (o.from + row) * j->l->in + i.from;
#pragma omp simd
        for (size_t c = 0; c < i.to - i.from; c++)
            tile[row][c] += from[c];
    }
}

/* Of weights [in, out]. */
static void add_columns(const struct norms_job *j, struct dt_range o, struct dt_range i,
                        float tile[OUTS][INS])
{
    const float *weight = j->l->weight;
    for (size_t c = 0; c < i.to - i.from; c++) {
        const float *from = weight + (i.from + c) * j->l->out + o.from;
        for (size_t row = 0; row < o.to - o.from; row++)
            tile[row][c] += from[row];
    }
}

static void norms(void *arg, size_t part)
{
    const struct norms_job *j = arg;
    struct dt_range o = dt_part(j->l->out, OUTS, part);
    float tile[OUTS][INS];
    double squares[OUTS] = {0};
    for (size_t at = 0; at < dt_parts(j->l->in, INS); at++) {
        struct dt_range i = dt_part(j->l->in, INS, at);
        adapter_tile(j, o, i, tile);
        if (j->l->layout == DT_WEIGHT_OUT_IN)
            add_rows(j, o, i, tile);
        else
            add_columns(j, o, i, tile);
        for (size_t row = 0; row < o.to - o.from; row++) {
            float square = 0;
#pragma omp simd reduction(+ : square)
            for (size_t c = 0; c < i.to - i.from; c++)
                square += tile[row][c] * tile[row][c];
            squares[row] += (double)square;
        }
    }
    for (size_t row = 0; row < o.to - o.from; row++)
        j->rnorms[o.from + row] = squares[row] <= 0 ? 0 : (float)(1 / sqrt(squares[row]));
}

void DT_CPU(magnitude_norms)(const struct dt_linear *l, size_t r, float scale, const dt_elem *a,
                             const dt_elem *b, float *rnorms, struct dt_stream *s)
{
    struct norms_job j = {.l = l, .r = r, .scale = scale, .a = a, .b = b, .rnorms = rnorms};
    dt_pool_run(s->pool, dt_parts(l->out, OUTS), norms, &j);
}

struct magnitude_job {
    const struct dt_magnitude *m;
    float *out, *dbase, *dmagnitudes;
    const float *base, *sum, *dout;
};

static void forward(void *arg, size_t part)
{
    const struct magnitude_job *j = arg;
    const struct dt_magnitude *m = j->m;
    const float *magnitudes = m->magnitudes, *rnorms = m->rnorms, *bias = m->bias;
    struct dt_range r = dt_part(m->rows, ROWS, part);
    for (size_t row = r.from; row < r.to; row++) {
        float *out = j->out + row * m->stride;
        const float *base = j->base ? j->base + row * m->stride : out;
        const float *sum = j->sum + row * m->stride;
        bool biased = !j->base && bias;
#pragma omp simd
        for (size_t c = 0; c < m->width; c++) {
            float g = magnitudes[c] * rnorms[c], product = base[c] - (biased ? bias[c] : 0);
            out[c] += (g - 1) * product + g * sum[c];
        }
    }
}

void DT_CPU(magnitude_forward)(const struct dt_magnitude *m, dt_elem *out, const dt_elem *base,
                               const dt_elem *sum, struct dt_stream *s)
{
    struct magnitude_job j = {.m = m, .out = out, .base = base, .sum = sum};
    dt_pool_run(s->pool, dt_parts(m->rows, ROWS), forward, &j);
}

/* A slice of columns with all rows. */
static void backward(void *arg, size_t slice)
{
    const struct magnitude_job *j = arg;
    const struct dt_magnitude *m = j->m;
    struct dt_range r = dt_part(m->width, SLICE, slice);
    const float *magnitudes = (const float *)m->magnitudes + r.from, *rnorms = m->rnorms + r.from;
    size_t width = r.to - r.from;
    float all[SLICE] = {0};
    for (size_t row = 0; row < m->rows; row++) {
        size_t at = row * m->stride + r.from;
        const float *base = j->base + at, *sum = j->sum + at, *dout = j->dout + at;
        float *dsum = j->out + at;
#pragma omp simd
        for (size_t c = 0; c < width; c++) {
            all[c] += dout[c] * (base[c] + sum[c]);
            dsum[c] = magnitudes[c] * rnorms[c] * dout[c];
        }
        if (!j->dbase)
            continue;
        float *dbase = j->dbase + at;
#pragma omp simd
        for (size_t c = 0; c < width; c++)
            dbase[c] = (magnitudes[c] * rnorms[c] - 1) * dout[c];
    }
    for (size_t c = 0; c < width; c++)
        j->dmagnitudes[r.from + c] += all[c] * rnorms[c];
}

void DT_CPU(magnitude_backward)(const struct dt_magnitude *m, dt_elem *dsum, dt_elem *dbase,
                                dt_elem *dmagnitudes, const dt_elem *base, const dt_elem *sum,
                                const dt_elem *dout, struct dt_stream *s)
{
    struct magnitude_job j = {.m = m,
                              .out = dsum,
                              .dbase = dbase,
                              .dmagnitudes = dmagnitudes,
                              .base = base,
                              .sum = sum,
                              .dout = dout};
    dt_pool_run(s->pool, dt_parts(m->width, SLICE), backward, &j);
}
