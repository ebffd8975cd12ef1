/* SPDX-License-Identifier: Apache-2.0 */
/* What looks at each element alone. Parts are 128 KiB of floats: large next to the cost of handing
 * one out, small enough that threads end together. */
#include <string.h>

#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/cpu/cpu.h"
#include "worker_runtime/ops/cpu/math.h"

enum { PART = 1 << 15 };

struct job {
    size_t n;
    float *out, *out2;
    const float *x, *y, *z;
    void *bytes;
    const void *from;
    enum dt_dtype type, from_type;
    const struct dt_dropout *dropout;
    bool add;
};

static void run(struct dt_stream *s, dt_pool_work_fn work, struct job *j)
{
    dt_pool_run(s->pool, dt_parts(j->n, PART), work, j);
}

static void gelu(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    const float *x = j->x;
    float *out = j->out;
#pragma omp simd
    for (size_t i = r.from; i < r.to; i++)
        out[i] = dt_gelu(x[i]);
}

void DT_CPU(gelu_forward)(size_t n, dt_elem *out, const dt_elem *pre, struct dt_stream *s)
{
    run(s, gelu, &(struct job){.n = n, .out = out, .x = pre});
}

static void gelu_slope(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    const float *pre = j->x, *dout = j->y;
    float *dpre = j->out;
#pragma omp simd
    for (size_t i = r.from; i < r.to; i++)
        dpre[i] = dout[i] * dt_gelu_slope(pre[i]);
}

void DT_CPU(gelu_backward)(size_t n, dt_elem *dpre, const dt_elem *pre, const dt_elem *dout,
                           struct dt_stream *s)
{
    run(s, gelu_slope, &(struct job){.n = n, .out = dpre, .x = pre, .y = dout});
}

/* J about rows that are packed is one run, and else one of each row. Forward out alone is written,
 * and packed; backward z is. */
static void run_gate(struct dt_stream *s, dt_pool_work_fn work, const struct dt_gate *g,
                     struct job j)
{
    size_t stride = dt_gate_stride(g), out_stride = j.out2 ? stride : g->width;
    size_t rows = stride == g->width ? 1 : g->rows;
    j.n = rows == 1 ? g->rows * g->width : g->width;
    for (size_t row = 0; row < rows; row++) {
        run(s, work, &j);
        j.out += out_stride;
        j.out2 = j.out2 ? j.out2 + stride : NULL;
        j.x += stride;
        j.y += stride;
        j.z = j.z ? j.z + g->width : NULL;
    }
}

static void swiglu(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    const float *gate = j->x, *up = j->y;
    float *out = j->out;
#pragma omp simd
    for (size_t i = r.from; i < r.to; i++)
        out[i] = gate[i] * dt_sigmoid(gate[i]) * up[i];
}

void DT_CPU(swiglu_forward)(const struct dt_gate *g, dt_elem *out, const dt_elem *gate,
                            const dt_elem *up, struct dt_stream *s)
{
    run_gate(s, swiglu, g, (struct job){.out = out, .x = gate, .y = up});
}

static void swiglu_slope(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    const float *gate = j->x, *up = j->y, *dout = j->z;
    float *dgate = j->out, *dup = j->out2;
#pragma omp simd
    for (size_t i = r.from; i < r.to; i++) {
        float g = gate[i], u = up[i], d = dout[i], z = dt_sigmoid(g);
        dup[i] = d * g * z;
        dgate[i] = d * u * z * (1 + g * (1 - z));
    }
}

void DT_CPU(swiglu_backward)(const struct dt_gate *g, dt_elem *dgate, dt_elem *dup,
                             const dt_elem *gate, const dt_elem *up, const dt_elem *dout,
                             struct dt_stream *s)
{
    run_gate(s, swiglu_slope, g,
             (struct job){.out = dgate, .out2 = dup, .x = gate, .y = up, .z = dout});
}

static void geglu(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    const float *gate = j->x, *up = j->y;
    float *out = j->out;
#pragma omp simd
    for (size_t i = r.from; i < r.to; i++)
        out[i] = dt_gelu(gate[i]) * up[i];
}

void DT_CPU(geglu_forward)(const struct dt_gate *g, dt_elem *out, const dt_elem *gate,
                           const dt_elem *up, struct dt_stream *s)
{
    run_gate(s, geglu, g, (struct job){.out = out, .x = gate, .y = up});
}

static void geglu_slope(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    const float *gate = j->x, *up = j->y, *dout = j->z;
    float *dgate = j->out, *dup = j->out2;
#pragma omp simd
    for (size_t i = r.from; i < r.to; i++) {
        float g = gate[i], u = up[i], d = dout[i];
        dup[i] = d * dt_gelu(g);
        dgate[i] = d * u * dt_gelu_slope(g);
    }
}

void DT_CPU(geglu_backward)(const struct dt_gate *g, dt_elem *dgate, dt_elem *dup,
                            const dt_elem *gate, const dt_elem *up, const dt_elem *dout,
                            struct dt_stream *s)
{
    run_gate(s, geglu_slope, g,
             (struct job){.out = dgate, .out2 = dup, .x = gate, .y = up, .z = dout});
}

static void add(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    const float *from = j->x;
    float *to = j->out;
#pragma omp simd
    for (size_t i = r.from; i < r.to; i++)
        to[i] += from[i];
}

void DT_CPU(add)(size_t n, dt_elem *to, const dt_elem *from, struct dt_stream *s)
{
    run(s, add, &(struct job){.n = n, .out = to, .x = from});
}

static void scale(struct dt_range r, float *out, bool add, const float *x, float by)
{
    if (add) {
#pragma omp simd
        for (size_t i = r.from; i < r.to; i++)
            out[i] += x[i] * by;
    } else {
#pragma omp simd
        for (size_t i = r.from; i < r.to; i++)
            out[i] = x[i] * by;
    }
}

/* Of elements whose numbers go on as their places do: that of place 0 would be START's. */
static void drop(const struct job *j, struct dt_range r, uint64_t start)
{
    const struct dt_dropout d = *j->dropout;
    const float *x = j->x;
    float *out = j->out;
#pragma omp simd
    for (size_t i = r.from; i < r.to; i++) {
        float left = dt_chance_bits(start, i) < d.gone_below ? 0 : x[i] * d.scale;
        out[i] = j->add ? out[i] + left : left;
    }
}

static void dropout(void *arg, size_t part)
{
    const struct job *j = arg;
    const struct dt_dropout *d = j->dropout;
    struct dt_range r = dt_part(j->n, PART, part), row;
    if (d->gone_below == 0) {
        scale(r, j->out, j->add, j->x, d->scale);
        return;
    }
    for (row.from = r.from; row.from < r.to; row.from = row.to) {
        size_t end = d->width ? (row.from / d->width + 1) * d->width : r.to;
        row.to = end < r.to ? end : r.to;
        drop(j, row, d->start + dt_chance_place(row.from, d->width, d->pitch) - row.from);
    }
}

void DT_CPU(dropout)(const struct dt_dropout *d, size_t n, dt_elem *out, bool add, const dt_elem *x,
                     struct dt_stream *s)
{
    run(s, dropout, &(struct job){.n = n, .out = out, .x = x, .dropout = d, .add = add});
}

struct rows_job {
    size_t rows, width, together; /* rows of a part */
    float *to;
    const float *from;
    size_t to_stride, from_stride;
};

static void copy_rows(void *arg, size_t part)
{
    const struct rows_job *j = arg;
    struct dt_range r = dt_part(j->rows, j->together, part);
    for (size_t n = r.from; n < r.to; n++)
        memcpy(j->to + n * j->to_stride, j->from + n * j->from_stride, j->width * sizeof *j->to);
}

void DT_CPU(copy_rows)(size_t rows, size_t width, dt_elem *to, size_t to_stride,
                       const dt_elem *from, size_t from_stride, struct dt_stream *s)
{
    struct rows_job j = {rows,      width,      width < PART ? PART / (width + 1) + 1 : 1, to, from,
                         to_stride, from_stride};
    dt_pool_run(s->pool, dt_parts(rows, j.together), copy_rows, &j);
}

/* One loop for each pair of types: LOAD and STORE are an element's way to float and from it. */
#define CAST(name, from_t, to_t, how)                                                              \
    static void name(size_t n, void *out_, const void *x_)                                         \
    {                                                                                              \
        to_t *out = out_;                                                                          \
        const from_t *x = x_;                                                                      \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++) out[i] = (to_t)(how);                   \
    }

CAST(f32_bf16, float, uint16_t, dt_float_to_bf16(x[i]))
CAST(f32_f16, float, uint16_t, dt_float_to_f16(x[i]))
CAST(f32_f64, float, double, x[i])
CAST(bf16_f32, uint16_t, float, dt_bf16_to_float(x[i]))
CAST(bf16_f16, uint16_t, uint16_t, dt_float_to_f16(dt_bf16_to_float(x[i])))
CAST(bf16_f64, uint16_t, double, dt_bf16_to_float(x[i]))
CAST(f16_f32, uint16_t, float, dt_f16_to_float(x[i]))
CAST(f16_bf16, uint16_t, uint16_t, dt_float_to_bf16(dt_f16_to_float(x[i])))
CAST(f16_f64, uint16_t, double, dt_f16_to_float(x[i]))
CAST(f64_f32, double, float, x[i])
CAST(f64_bf16, double, uint16_t, dt_float_to_bf16(dt_double_to_float_odd(x[i])))
CAST(f64_f16, double, uint16_t, dt_float_to_f16(dt_double_to_float_odd(x[i])))

static void (*const casts[4][4])(size_t n, void *out, const void *x) = {
    [DT_F32] = {[DT_BF16] = f32_bf16, [DT_F16] = f32_f16, [DT_F64] = f32_f64},
    [DT_BF16] = {[DT_F32] = bf16_f32, [DT_F16] = bf16_f16, [DT_F64] = bf16_f64},
    [DT_F16] = {[DT_F32] = f16_f32, [DT_BF16] = f16_bf16, [DT_F64] = f16_f64},
    [DT_F64] = {[DT_F32] = f64_f32, [DT_BF16] = f64_bf16, [DT_F16] = f64_f16},
};

static void cast(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    char *out = (char *)j->bytes + r.from * dt_dtype_size(j->type);
    const char *x = (const char *)j->from + r.from * dt_dtype_size(j->from_type);
    if (j->type == j->from_type)
        memmove(out, x, (r.to - r.from) * dt_dtype_size(j->type));
    else
        casts[j->from_type][j->type](r.to - r.from, out, x);
}

void DT_CPU(cast)(size_t n, void *out, enum dt_dtype out_type, const void *x, enum dt_dtype type,
                  struct dt_stream *s)
{
    run(s, cast,
        &(struct job){.n = n, .bytes = out, .from = x, .type = out_type, .from_type = type});
}

static void round_part(void *arg, size_t part)
{
    const struct job *j = arg;
    struct dt_range r = dt_part(j->n, PART, part);
    float *x = j->out;
    if (j->type == DT_BF16) {
#pragma omp simd
        for (size_t i = r.from; i < r.to; i++)
            x[i] = dt_bf16_to_float(dt_float_to_bf16(x[i]));
    } else {
#pragma omp simd
        for (size_t i = r.from; i < r.to; i++)
            x[i] = dt_f16_to_float(dt_float_to_f16(x[i]));
    }
}

void DT_CPU(round_to)(size_t n, float *x, enum dt_dtype type, struct dt_stream *s)
{
    if (type == DT_BF16 || type == DT_F16)
        run(s, round_part, &(struct job){.n = n, .out = x, .type = type});
}
