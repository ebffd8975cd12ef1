/* SPDX-License-Identifier: Apache-2.0 */
/* Products of matrices, how matrices come to the type that is multiplied, and activations. */
#include "tests/runtime/ops_tables.h"
#include "worker_runtime/ops/nf4.h"

static void one_linear(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                       struct dt_linear l, bool biased, bool add)
{
    size_t in = l.rows * l.in, out = l.rows * l.out, w = l.in * l.out;
    CHECK_ROW("rows %zu in %zu out %zu layout %d bias %d add %d", l.rows, l.in, l.out, l.layout,
              biased, add);
    l.weight = kit_numbers(k, w);
    l.bias = biased ? kit_numbers(k, l.out) : NULL;
    float *x = kit_numbers(k, in), *dout = kit_numbers(k, out), *y = kit_numbers(k, out);
    float *want = kit_numbers(k, out), *pre = kit_numbers(k, out), *pre2 = kit_numbers(k, out);
    ops->linear_forward(&l, y, x, s);
    ref->linear_forward(&l, want, x, NULL);
    kit_near("out", out, y, want, 2e-5);
    ops->linear_gelu_forward(&l, y, pre, x, s);
    ref->linear_gelu_forward(&l, want, pre2, x, NULL);
    kit_near("pre", out, pre, pre2, 2e-5);
    kit_near("gelu", out, y, want, 2e-5);
    ops->linear_gelu_forward(&l, y, NULL, x, s);
    kit_near("gelu without pre", out, y, want, 2e-5);
    float *dx = kit_copy(k, in, x), *dx2 = kit_copy(k, in, x), *dw = kit_copy(k, w, l.weight);
    float *dw2 = kit_copy(k, w, l.weight), *db = kit_numbers(k, l.out);
    float *db2 = kit_copy(k, l.out, db);
    ops->linear_backward(&l, dx, add, dw, biased ? db : NULL, x, dout, s);
    ref->linear_backward(&l, dx2, add, dw2, biased ? db2 : NULL, x, dout, NULL);
    kit_near("dx", in, dx, dx2, 2e-5);
    kit_near("dweight", w, dw, dw2, 2e-5);
    kit_near("dbias", l.out, db, db2, 2e-5);
    if (biased && !add) { /* once of the four */
        ops->linear_gelu_backward(&l, dx, dw, db, x, x, dout, s);
        ref->linear_gelu_backward(&l, dx2, dw2, db2, x, x, dout, NULL);
        kit_near("dpre", in, dx, dx2, 2e-5);
        kit_near("dweight behind a GELU", w, dw, dw2, 2e-5);
        kit_near("dbias behind a GELU", l.out, db, db2, 2e-5);
    }
    ops->linear_backward(&l, NULL, false, dw, NULL, x, dout, s);
    ref->linear_backward(&l, NULL, false, dw2, NULL, x, dout, NULL);
    kit_near("dweight without dx", w, dw, dw2, 2e-5);
    ops->linear_backward(&l, dx, add, NULL, NULL, NULL, dout, s);
    ref->linear_backward(&l, dx2, add, NULL, NULL, NULL, dout, NULL);
    kit_near("dx without dweight", in, dx, dx2, 2e-5);
    ops->linear_backward(&l, NULL, false, NULL, biased ? db : NULL, NULL, dout, s);
    ref->linear_backward(&l, NULL, false, NULL, biased ? db2 : NULL, NULL, dout, NULL);
    kit_near("dbias alone, or nothing", l.out, db, db2, 2e-5);
}

static void linears(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][3] = {{1, 1, 1},     {1, 64, 48},   {3, 5, 7},    {257, 33, 65},
                                       {64, 96, 300}, {300, 64, 40}, {70, 700, 19}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int how = 0; how < 8; how++) {
            struct dt_linear l = {.rows = shapes[i][0], .in = shapes[i][1], .out = shapes[i][2]};
            l.layout = how & 4 ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
            one_linear(ops, s, k, l, how & 1, how & 2);
            kit_free(k);
        }
    }
}

TEST(linear_layers_in_both_layouts)
{
    on_each_table(linears);
}

/* L, whose rows of out lie apart, beside the plain loops over packed ones. */
static void one_spread(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                       struct dt_linear l, bool biased)
{
    size_t in = l.rows * l.in, out = l.rows * l.out, w = l.in * l.out;
    CHECK_ROW("%s: rows %zu in %zu out %zu of %zu layout %d bias %d", ops->name, l.rows, l.in,
              l.out, l.out_stride, l.layout, biased);
    l.weight = kit_numbers(k, w);
    l.bias = biased ? kit_numbers(k, l.out) : NULL;
    struct dt_linear packed = l;
    packed.out_stride = 0;
    float *x = kit_numbers(k, in), *dout = kit_numbers(k, out), *want = kit_numbers(k, out);
    float *y = kit_spread(k, l.rows, l.out, l.out_stride, dout);
    ops->linear_forward(&l, y, x, s);
    ref->linear_forward(&packed, want, x, NULL);
    kit_near("out", out, kit_gather(k, l.rows, l.out, l.out_stride, y), want, 2e-5);

    float *apart = kit_spread(k, l.rows, l.out, l.out_stride, dout);
    float *dx = kit_alloc(k, in * sizeof *dx), *dx2 = kit_alloc(k, in * sizeof *dx);
    float *dw = kit_copy(k, w, l.weight), *dw2 = kit_copy(k, w, l.weight);
    float *db = kit_numbers(k, l.out), *db2 = kit_copy(k, l.out, db);
    ops->linear_backward(&l, dx, false, dw, biased ? db : NULL, x, apart, s);
    ref->linear_backward(&packed, dx2, false, dw2, biased ? db2 : NULL, x, dout, NULL);
    kit_near("dx", in, dx, dx2, 2e-5);
    kit_near("dweight", w, dw, dw2, 2e-5);
    kit_near("dbias", l.out, db, db2, 2e-5);
}

static void spreads(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][4] = {{1, 1, 1, 3},      {3, 5, 7, 7},       {3, 5, 7, 8},
                                       {257, 33, 65, 72}, {64, 96, 300, 301}, {300, 64, 40, 57},
                                       {70, 70, 519, 520}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int how = 0; how < 4; how++) {
            struct dt_linear l = {.rows = shapes[i][0],
                                  .in = shapes[i][1],
                                  .out = shapes[i][2],
                                  .out_stride = shapes[i][3]};
            l.layout = how & 2 ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
            one_spread(ops, s, k, l, how & 1);
            one_spread(ref, NULL, k, l, how & 1);
            kit_free(k);
        }
    }
}

TEST(rows_of_a_linear_layer_may_lie_apart)
{
    on_each_table(spreads);
}

static void activations(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t sizes[] = {0, 1, 15, 1000, 32768, 70001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        const struct dt_gate packed = {1, n, 0};
        float *x = kit_numbers(k, n), *up = kit_numbers(k, n), *dout = kit_numbers(k, n);
        for (size_t e = 0; e < n; e++)
            x[e] *= e % 3 ? 2.0f : 9.0f;
        float *a = kit_numbers(k, n), *b = kit_numbers(k, n), *c = kit_numbers(k, n);
        float *d = kit_numbers(k, n);
        ops->gelu_forward(n, a, x, s);
        ref->gelu_forward(n, b, x, NULL);
        kit_near("gelu", n, a, b, 2e-7);
        ops->gelu_backward(n, a, x, dout, s);
        ref->gelu_backward(n, b, x, dout, NULL);
        kit_near("gelu backward", n, a, b, 1e-6);
        memcpy(a, dout, n * 4);
        ops->gelu_backward(n, a, x, a, s);
        kit_near("gelu backward in place", n, a, b, 1e-6);
        ops->swiglu_forward(&packed, a, x, up, s);
        ref->swiglu_forward(&packed, b, x, up, NULL);
        kit_near("swiglu", n, a, b, 3e-7);
        ops->swiglu_backward(&packed, a, c, x, up, dout, s);
        ref->swiglu_backward(&packed, b, d, x, up, dout, NULL);
        kit_near("swiglu dgate", n, a, b, 1e-6);
        kit_near("swiglu dup", n, c, d, 1e-6);
        memcpy(c, up, n * 4);
        memcpy(a, x, n * 4);
        ops->swiglu_backward(&packed, a, c, a, c, dout, s);
        kit_near("swiglu dgate in place", n, a, b, 1e-6);
        kit_near("swiglu dup in place", n, c, d, 1e-6);
        ops->geglu_forward(&packed, a, x, up, s);
        ref->geglu_forward(&packed, b, x, up, NULL);
        kit_near("geglu", n, a, b, 3e-7);
        ops->geglu_backward(&packed, a, c, x, up, dout, s);
        ref->geglu_backward(&packed, b, d, x, up, dout, NULL);
        kit_near("geglu dgate", n, a, b, 1e-6);
        kit_near("geglu dup", n, c, d, 1e-6);
        memcpy(c, up, n * 4);
        memcpy(a, dout, n * 4);
        ops->geglu_backward(&packed, a, c, x, c, a, s);
        kit_near("geglu dgate in place", n, a, b, 1e-6);
        kit_near("geglu dup in place", n, c, d, 1e-6);
        ops->add(n, a, dout, s);
        ref->add(n, b, dout, NULL);
        kit_near("add", n, a, b, 1e-6);
        kit_free(k);
    }
}

TEST(activations_forward_and_backward)
{
    on_each_table(activations);
}

static void edges(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    const float x[] = {0, -0.0f, INFINITY, NAN, 1e30f, -1e30f, -1e10f, 88, -88, 100, -100, 20, -20};
    enum { N = sizeof x / sizeof x[0] };
    float ones[N], a[N], b[N], c[N], d[N];
    (void)k;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    ops->gelu_forward(N, a, x, s);
    ref->gelu_forward(N, b, x, NULL);
    ops->gelu_backward(N, c, x, ones, s);
    ref->gelu_backward(N, d, x, ones, NULL);
    for (int i = 0; i < N; i++) {
        CHECK_ROW("gelu of %g: %g, wanted %g; slope %g, wanted %g", (double)x[i], (double)a[i],
                  (double)b[i], (double)c[i], (double)d[i]);
        CHECK(isnan(b[i]) ? isnan(a[i])
                          : a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-6f * fabsf(b[i]) + 1e-30f);
        CHECK(isnan(x[i]) ? isnan(c[i]) : isnan(d[i]) || fabsf(c[i] - d[i]) < 1e-6f);
    }
    const struct dt_gate packed = {1, N, 0};
    ops->swiglu_forward(&packed, a, x, ones, s);
    ref->swiglu_forward(&packed, b, x, ones, NULL);
    for (int i = 0; i < N; i++) {
        CHECK_ROW("silu of %g: %g, wanted %g", (double)x[i], (double)a[i], (double)b[i]);
        CHECK(isnan(b[i]) ? isnan(a[i])
                          : a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-6f * fabsf(b[i]) + 1e-30f);
    }
}

TEST(infinities_and_nan_stay_what_they_are)
{
    on_each_table(edges);
}

/* Gate and up as parts of one row, beside the plain loops over packed ones; their gradients take
 * their places. NaNs behind them stay. */
static void one_gate_apart(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                           const struct dt_gate *g, bool gelu)
{
    const struct dt_gate packed = {g->rows, g->width, 0};
    size_t n = g->rows * g->width;
    float *gate = kit_numbers(k, n), *up = kit_numbers(k, n), *dout = kit_numbers(k, n);
    float *out = kit_alloc(k, n * 4), *want = kit_alloc(k, n * 4), *dup = kit_alloc(k, n * 4);
    float *both = kit_alloc(k, g->rows * g->stride * 4);
    for (size_t i = 0; i < g->rows * g->stride; i++) {
        size_t row = i / g->stride, at = i % g->stride;
        const float *half = at < g->width ? gate : up;
        both[i] = at < 2 * g->width ? half[row * g->width + at % g->width] : NAN;
    }
    (gelu ? ops->geglu_forward : ops->swiglu_forward)(g, out, both, both + g->width, s);
    (gelu ? ref->geglu_forward : ref->swiglu_forward)(&packed, want, gate, up, NULL);
    kit_near("out", n, out, want, 3e-7);
    (gelu ? ops->geglu_backward : ops->swiglu_backward)(g, both, both + g->width, both,
                                                        both + g->width, dout, s);
    (gelu ? ref->geglu_backward : ref->swiglu_backward)(&packed, want, dup, gate, up, dout, NULL);
    for (size_t row = 0; row < g->rows; row++) {
        const float *is = both + row * g->stride;
        kit_near("dgate", g->width, is, want + row * g->width, 1e-6);
        kit_near("dup", g->width, is + g->width, dup + row * g->width, 1e-6);
        CHECK(g->stride == 2 * g->width || isnan(is[2 * g->width]));
    }
}

static void gates_apart(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const struct dt_gate gates[] = {{0, 8, 16}, {1, 8, 16}, {5, 24, 48}, {9, 7, 17}};
    for (size_t i = 0; i < 2 * (sizeof gates / sizeof gates[0]); i++) {
        const struct dt_gate *g = &gates[i / 2];
        CHECK_ROW("%zu rows, %zu of %zu, %s", g->rows, g->width, g->stride,
                  i % 2 ? "gelu" : "silu");
        one_gate_apart(ops, s, k, g, i % 2);
        kit_free(k);
    }
}

TEST(a_gate_and_what_it_lets_through_may_be_halves_of_a_row)
{
    on_each_table(gates_apart);
}

/* Every 16-bit pattern, and floats around each of them. */
static void conversions(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16, DT_F64};
    enum { N = 3 << 16 };
    float *all = kit_alloc(k, N * sizeof *all);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t bits = (i / 3 << 16) + (i % 3 == 0   ? 0
                                         : i % 3 == 1 ? 0x8000
                                                      : kit_random(k) & 0xffff);
        memcpy(&all[i], &bits, 4);
    }
    for (int from = 0; from < 4; from++) {
        void *x = kit_alloc(k, N * 8);
        ref->cast(N, x, types[from], all, DT_F32, NULL);
        for (int to = 0; to < 4; to++) {
            size_t bytes = N * dt_dtype_size(types[to]);
            void *a = kit_alloc(k, bytes), *b = kit_alloc(k, bytes);
            CHECK_ROW("from type %d to %d", types[from], types[to]);
            ops->cast(N, a, types[to], x, types[from], s);
            ref->cast(N, b, types[to], x, types[from], NULL);
            CHECK_BYTES(a, bytes, b, bytes);
        }
    }
    for (int type = 1; type < 3; type++) {
        float *a = kit_copy(k, N, all), *b = kit_copy(k, N, all);
        ops->round_to(N, a, types[type], s);
        ref->round_to(N, b, types[type], NULL);
        CHECK_BYTES(a, N * sizeof *a, b, N * sizeof *b);
    }
}

TEST(casts_agree_on_every_pattern)
{
    on_each_table(conversions);
}

static void expansions(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t counts[] = {1, 2, 63, 64, 65, 191, 4096, 70001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts * 3; i++) {
        size_t n = counts[i / 3];
        struct dt_err err = {0};
        struct dt_nf4_writer w;
        void *packed = kit_alloc(k, dt_nf4_parts_of(NULL, n).words * sizeof(uint32_t));
        CHECK_OK(dt_nf4_open(&w, packed, n, &err), err);
        CHECK_OK(dt_nf4_write(&w, kit_numbers(k, n), n, &err), err);
        dt_nf4_finish(&w);
        dt_nf4_close(&w);
        struct dt_nf4 q = {n, packed, (enum dt_dtype)(i % 3)};
        float *is = kit_alloc(k, n * sizeof *is), *wanted = kit_alloc(k, n * sizeof *is);
        ops->nf4_expand(&q, is, s);
        ref->nf4_expand(&q, wanted, NULL);
        CHECK_ROW("%zu numbers, rounded to type %d", n, q.type);
        CHECK_BYTES(is, n * sizeof *is, wanted, n * sizeof *is);
        if (q.type != DT_F32)
            continue;
        dt_nf4_read(packed, n, 0, n, wanted);
        CHECK_BYTES(is, n * sizeof *is, wanted, n * sizeof *is);
    }
}

TEST(numbers_come_out_of_nf4_to_the_last_bit)
{
    on_each_table(expansions);
}
