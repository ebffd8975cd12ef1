/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products, cut among threads along the longer side of their result, with what follows them
 * done on each piece while it is still in the cache. The bias is put where the product is added
 * to: a BLAS clears that memory otherwise. */
#include <assert.h>
#include <string.h>

#include "worker_runtime/ops/cpu/blas.h"
#include "worker_runtime/ops/cpu/cpu.h"
#include "worker_runtime/ops/cpu/math.h"

enum { ALIGN = 16, SMALL = 1 << 18 }; /* products too few to share among threads */

/* The pieces of a product: [rows] or [columns] of C. */
static size_t count_pieces(const struct dt_gemm *g, const struct dt_stream *s)
{
    size_t threads = (size_t)dt_pool_threads(s->pool), longer = g->m > g->n ? g->m : g->n;
    size_t most = dt_parts(longer, ALIGN);
    if (g->m * g->n * g->k < SMALL)
        return 1;
    return threads < most ? threads : most;
}

static struct dt_gemm cut(const struct dt_gemm *g, size_t piece, size_t pieces)
{
    struct dt_gemm to = *g;
    bool by_rows = g->m >= g->n;
    size_t length = by_rows ? g->m : g->n;
    size_t size = dt_parts(dt_parts(length, pieces), ALIGN) * ALIGN;
    size_t from = piece * size < length ? piece * size : length;
    size = length - from < size ? length - from : size;
    if (by_rows) {
        to.m = size;
        to.a += from * (g->transpose_a ? 1 : g->lda);
        to.c += from * g->ldc;
    } else {
        to.n = size;
        to.b += from * (g->transpose_b ? g->ldb : 1);
        to.c += from;
    }
    return to;
}

struct forward_job {
    struct dt_gemm g;
    size_t pieces;
    const float *bias;
    float *c; /* all of the product */
    float *gelu;
};

static void put_bias(const struct dt_gemm *g, const float *bias)
{
    for (size_t row = 0; row < g->m; row++)
        memcpy(g->c + row * g->ldc, bias, g->n * sizeof *bias);
}

static void gelu_row(size_t n, float *out, const float *x)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        out[i] = dt_gelu(x[i]);
}

static void forward(void *arg, size_t piece)
{
    const struct forward_job *j = arg;
    struct dt_gemm g = cut(&j->g, piece, j->pieces);
    if (g.m == 0 || g.n == 0)
        return;
    size_t at = (size_t)(g.c - j->c);
    if (j->bias)
        put_bias(&g, j->bias + at % g.ldc);
    dt_blas_gemm(&g);
    for (size_t row = 0; j->gelu && row < g.m; row++)
        gelu_row(g.n, j->gelu + at + row * g.ldc, g.c + row * g.ldc);
}

static void run_forward(const struct dt_linear *l, float *c, float *gelu, const float *x,
                        struct dt_stream *s)
{
    struct forward_job j = {.bias = l->bias, .c = c, .gelu = gelu};
    j.g = (struct dt_gemm){.transpose_b = l->layout == DT_WEIGHT_OUT_IN,
                           .m = l->rows,
                           .n = l->out,
                           .k = l->in,
                           .alpha = 1,
                           .a = x,
                           .lda = l->in,
                           .b = l->weight,
                           .ldb = l->layout == DT_WEIGHT_OUT_IN ? l->in : l->out,
                           .beta = l->bias ? 1 : 0,
                           .c = c,
                           .ldc = dt_linear_stride(l)};
    j.pieces = count_pieces(&j.g, s);
    dt_pool_run(s->pool, j.pieces, forward, &j);
}

void DT_CPU(linear_forward)(const struct dt_linear *l, dt_elem *out, const dt_elem *x,
                            struct dt_stream *s)
{
    run_forward(l, out, NULL, x, s);
}

void DT_CPU(linear_gelu_forward)(const struct dt_linear *l, dt_elem *out, dt_elem *pre,
                                 const dt_elem *x, struct dt_stream *s)
{
    assert(dt_linear_stride(l) == l->out);
    run_forward(l, pre ? pre : out, out, x, s);
}

/* All gradients that are wanted in one go: the pieces of dx, those of dweight, slices of dbias. */
struct backward_job {
    struct dt_gemm dx, dweight;
    size_t dx_pieces, dweight_pieces;
    const struct dt_linear *l;
    const float *dout;
    float *dbias;
};

enum { SLICE = 256 };

static void sum_columns(const struct backward_job *j, size_t slice)
{
    float sum[SLICE] = {0};
    struct dt_range r = dt_part(j->l->out, SLICE, slice);
    size_t width = r.to - r.from;
    for (size_t n = 0; n < j->l->rows; n++) {
        const float *dout = j->dout + n * dt_linear_stride(j->l) + r.from;
#pragma omp simd
        for (size_t i = 0; i < width; i++)
            sum[i] += dout[i];
    }
    for (size_t i = 0; i < width; i++)
        j->dbias[r.from + i] += sum[i];
}

static void backward(void *arg, size_t part)
{
    const struct backward_job *j = arg;
    struct dt_gemm g;
    if (part >= j->dx_pieces + j->dweight_pieces) {
        sum_columns(j, part - j->dx_pieces - j->dweight_pieces);
        return;
    }
    if (part < j->dx_pieces)
        g = cut(&j->dx, part, j->dx_pieces);
    else
        g = cut(&j->dweight, part - j->dx_pieces, j->dweight_pieces);
    if (g.m > 0 && g.n > 0)
        dt_blas_gemm(&g);
}

/* dx[N,I] = dout[N,O] W' */
static struct dt_gemm product_dx(const struct dt_linear *l, float *dx, bool add, const float *dout)
{
    bool in_out = l->layout == DT_WEIGHT_IN_OUT;
    return (struct dt_gemm){.transpose_b = in_out,
                            .m = l->rows,
                            .n = l->in,
                            .k = l->out,
                            .alpha = 1,
                            .a = dout,
                            .lda = dt_linear_stride(l),
                            .b = l->weight,
                            .ldb = in_out ? l->out : l->in,
                            .beta = add ? 1 : 0,
                            .c = dx,
                            .ldc = l->in};
}

/* dW[I,O] += x' dout, or dW[O,I] += dout' x */
static struct dt_gemm product_dweight(const struct dt_linear *l, float *dweight, const float *x,
                                      const float *dout)
{
    bool in_out = l->layout == DT_WEIGHT_IN_OUT;
    size_t stride = dt_linear_stride(l);
    return (struct dt_gemm){.transpose_a = true,
                            .m = in_out ? l->in : l->out,
                            .n = in_out ? l->out : l->in,
                            .k = l->rows,
                            .alpha = 1,
                            .a = in_out ? x : dout,
                            .lda = in_out ? l->in : stride,
                            .b = in_out ? dout : x,
                            .ldb = in_out ? stride : l->in,
                            .beta = 1,
                            .c = dweight,
                            .ldc = in_out ? l->out : l->in};
}

void DT_CPU(linear_backward)(const struct dt_linear *l, dt_elem *dx, bool add, dt_elem *dweight,
                             dt_elem *dbias, const dt_elem *x, const dt_elem *dout,
                             struct dt_stream *s)
{
    struct backward_job j = {.l = l, .dout = dout, .dbias = dbias};
    if (dx) {
        j.dx = product_dx(l, dx, add, dout);
        j.dx_pieces = count_pieces(&j.dx, s);
    }
    if (dweight) {
        j.dweight = product_dweight(l, dweight, x, dout);
        j.dweight_pieces = count_pieces(&j.dweight, s);
    }
    size_t slices = dbias ? dt_parts(l->out, SLICE) : 0;
    dt_pool_run(s->pool, j.dx_pieces + j.dweight_pieces + slices, backward, &j);
}

void DT_CPU(linear_gelu_backward)(const struct dt_linear *l, dt_elem *dpre, dt_elem *dweight,
                                  dt_elem *dbias, const dt_elem *x, const dt_elem *pre,
                                  const dt_elem *dout, struct dt_stream *s)
{
    assert(dt_linear_stride(l) == l->out);
    DT_CPU(linear_backward)(l, dpre, false, dweight, dbias, x, dout, s);
    DT_CPU(gelu_backward)(l->rows * l->in, dpre, pre, dpre, s);
}
