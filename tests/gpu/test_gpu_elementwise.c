/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU's ops that look at each element alone say what the reference says: activations, sums,
 * conversions. Arrays begin where 16 bytes at a time can be read, and where they cannot. */
#include "tests/gpu/gpu_kit.h"
#include "worker_runtime/ops/nf4.h"

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

/* Runs STORY(g, n) for sizes of 0, 1, less and more than a pack, a block and more. */
static void each_size(struct gpu_kit *g, void (*story)(struct gpu_kit *g, size_t n))
{
    static const size_t sizes[] = {0, 1, 7, 16, 1000, 5003};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * 2; i++) {
        g->shift = i % 2;
        CHECK_ROW("%zu elements, shift %zu", sizes[i / 2], g->shift);
        story(g, sizes[i / 2]);
        gpu_free(g);
    }
    g->shift = 0;
}

/* What powers and divisions of a GPU may be off by (cuda/kernels/activation.cu), and as much again
 * for sums and products. */
#define OUT_ERROR 0x1p-20
#define SLOPE_ERROR 0x1p-19

/* Numbers up to 2 in size, and some up to 15. */
static float *wide_numbers(struct gpu_kit *g, size_t n)
{
    float *x = kit_numbers(&g->k, n);
    for (size_t i = 0; i < n; i++)
        x[i] *= i % 3 ? 1.0f : 9.0f;
    return gpu_rounded(g, n, x);
}

static void gelu_of(struct gpu_kit *g, size_t n)
{
    float *x = wide_numbers(g, n), *dout = gpu_numbers(g, n), *y = gpu_numbers(g, n);
    void *dx = gpu_up(g, n, x), *ddout = gpu_up(g, n, dout), *dy = gpu_up(g, n, NULL);
    g->ops->gelu_forward(n, dy, dx, g->s);
    ref->gelu_forward(n, y, x, NULL);
    gpu_near(g, "gelu", n, dy, y, OUT_ERROR);
    g->ops->gelu_backward(n, dy, dx, ddout, g->s);
    ref->gelu_backward(n, y, x, dout, NULL);
    gpu_near(g, "gelu backward", n, dy, y, SLOPE_ERROR);
    g->ops->gelu_backward(n, ddout, dx, ddout, g->s);
    gpu_near(g, "gelu backward in place", n, ddout, y, SLOPE_ERROR);
    g->ops->gelu_forward(n, dx, dx, g->s);
    ref->gelu_forward(n, y, x, NULL);
    gpu_near(g, "gelu in place", n, dx, y, OUT_ERROR);
}

static void gelus(struct gpu_kit *g)
{
    each_size(g, gelu_of);
}

TEST(gelu_forward_and_backward)
{
    gpu_each(gelus);
}

static void swiglu_of(struct gpu_kit *g, size_t n)
{
    const struct dt_gate packed = {1, n, 0};
    float *gate = wide_numbers(g, n), *up = gpu_numbers(g, n), *dout = gpu_numbers(g, n);
    float *y = gpu_numbers(g, n), *dup = gpu_numbers(g, n);
    void *dgate = gpu_up(g, n, gate), *d_up = gpu_up(g, n, up), *ddout = gpu_up(g, n, dout);
    void *dy = gpu_up(g, n, NULL), *dz = gpu_up(g, n, NULL);
    g->ops->swiglu_forward(&packed, dy, dgate, d_up, g->s);
    ref->swiglu_forward(&packed, y, gate, up, NULL);
    gpu_near(g, "swiglu", n, dy, y, OUT_ERROR);
    g->ops->swiglu_backward(&packed, dy, dz, dgate, d_up, ddout, g->s);
    ref->swiglu_backward(&packed, y, dup, gate, up, dout, NULL);
    gpu_near(g, "dgate", n, dy, y, SLOPE_ERROR);
    gpu_near(g, "dup", n, dz, dup, SLOPE_ERROR);
    void *copy = gpu_up(g, n, dout);
    g->ops->swiglu_backward(&packed, copy, dz, dgate, d_up, copy, g->s);
    gpu_near(g, "dgate in dout's place", n, copy, y, SLOPE_ERROR);
    g->ops->swiglu_backward(&packed, dgate, d_up, dgate, d_up, ddout, g->s);
    gpu_near(g, "dgate in gate's place", n, dgate, y, SLOPE_ERROR);
    gpu_near(g, "dup in up's place", n, d_up, dup, SLOPE_ERROR);
}

static void geglu_of(struct gpu_kit *g, size_t n)
{
    const struct dt_gate packed = {1, n, 0};
    float *gate = gpu_numbers(g, n), *up = gpu_numbers(g, n), *dout = gpu_numbers(g, n);
    float *y = kit_alloc(&g->k, n * 4), *dup = kit_alloc(&g->k, n * 4);
    void *dgate = gpu_up(g, n, gate), *d_up = gpu_up(g, n, up), *ddout = gpu_up(g, n, dout);
    void *dy = gpu_up(g, n, NULL), *dz = gpu_up(g, n, NULL);
    g->ops->geglu_forward(&packed, dy, dgate, d_up, g->s);
    ref->geglu_forward(&packed, y, gate, up, NULL);
    gpu_near(g, "geglu", n, dy, y, OUT_ERROR);
    ref->geglu_backward(&packed, y, dup, gate, up, dout, NULL);
    g->ops->geglu_backward(&packed, dy, dz, dgate, d_up, ddout, g->s);
    gpu_near(g, "dgate of geglu", n, dy, y, SLOPE_ERROR);
    gpu_near(g, "dup of geglu", n, dz, dup, SLOPE_ERROR);
    g->ops->geglu_backward(&packed, ddout, d_up, dgate, d_up, ddout, g->s);
    gpu_near(g, "dgate of geglu in dout's place", n, ddout, y, SLOPE_ERROR);
    gpu_near(g, "dup of geglu in up's place", n, d_up, dup, SLOPE_ERROR);
}

static void gates(struct gpu_kit *g)
{
    each_size(g, swiglu_of);
    each_size(g, geglu_of);
}

TEST(gates_forward_and_backward)
{
    gpu_each(gates);
}

/* Gate and up as parts of one row, [rows, stride], and their gradients in their places. */
static void joined(struct gpu_kit *g, const struct dt_gate *gate, bool gelu)
{
    size_t n = gate->rows * gate->stride, half = gate->rows * gate->width;
    size_t up_at = gate->width * gpu_size(g);
    float *both = wide_numbers(g, n), *dout = gpu_numbers(g, half);
    float *out = kit_alloc(&g->k, half * 4);
    char *there = gpu_up(g, n, both);
    void *dout_there = gpu_up(g, half, dout), *out_there = gpu_up(g, half, NULL);
    (gelu ? g->ops->geglu_forward : g->ops->swiglu_forward)(gate, out_there, there, there + up_at,
                                                            g->s);
    (gelu ? ref->geglu_forward : ref->swiglu_forward)(gate, out, both, both + gate->width, NULL);
    gpu_near(g, "out", half, out_there, out, OUT_ERROR);
    (gelu ? g->ops->geglu_backward : g->ops->swiglu_backward)(gate, there, there + up_at, there,
                                                              there + up_at, dout_there, g->s);
    (gelu ? ref->geglu_backward : ref->swiglu_backward)(gate, both, both + gate->width, both,
                                                        both + gate->width, dout, NULL);
    gpu_near(g, "both gradients", n, there, both, SLOPE_ERROR);
}

/* Rows and parts of rows that begin at whole 16 bytes, and others; more than a block is wide, and
 * than there are rows of blocks. */
static void each_joined(struct gpu_kit *g)
{
    static const struct dt_gate gates[] = {{0, 8, 16},      {1, 8, 16},   {9, 24, 48},
                                           {5, 24, 53},     {3, 7, 14},   {6, 12, 24},
                                           {3, 2056, 4112}, {4100, 1, 2}, {2, 2051, 4103}};
    for (size_t i = 0; i < sizeof gates / sizeof gates[0] * 2; i++) {
        const struct dt_gate *gate = &gates[i / 2];
        for (g->shift = 0; g->shift < 2; g->shift++) {
            CHECK_ROW("%zu rows, %zu of %zu, shift %zu, %s", gate->rows, gate->width, gate->stride,
                      g->shift, i % 2 ? "gelu" : "silu");
            joined(g, gate, i % 2);
            gpu_free(g);
        }
    }
    g->shift = 0;
}

TEST(a_gate_and_what_it_lets_through_may_be_halves_of_a_row)
{
    gpu_each(each_joined);
}

static void edges(struct gpu_kit *g)
{
    float x[] = {0, -0.0f, INFINITY, NAN, 1e30f, -1e30f, -1e10f, 88, -88, 100, -100, 20, -20};
    enum { N = sizeof x / sizeof x[0] };
    float ones[N], want[N], slope[N];
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    gpu_rounded(g, N, x);
    void *dx = gpu_up(g, N, x), *dones = gpu_up(g, N, ones), *dy = gpu_up(g, N, NULL);
    double error = gpu_error(g, 1e-6);
    g->ops->gelu_forward(N, dy, dx, g->s);
    ref->gelu_forward(N, want, x, NULL);
    float *is = gpu_down(g, N, dy);
    g->ops->gelu_backward(N, dy, dx, dones, g->s);
    ref->gelu_backward(N, slope, x, ones, NULL);
    float *slope_is = gpu_down(g, N, dy);
    for (int i = 0; i < N; i++) {
        double part = x[i] < 0 ? gpu_error(g, 0x1p-16) : error;
        CHECK_ROW("gelu of %g: %g, wanted %g; slope %g, wanted %g", (double)x[i], (double)is[i],
                  (double)want[i], (double)slope_is[i], (double)slope[i]);
        CHECK(isnan(want[i]) ? isnan(is[i])
                             : is[i] == want[i] ||
                                   fabs((double)is[i] - want[i]) <= part * fabs(want[i]) + 1e-30);
        CHECK(isnan(x[i]) ? isnan(slope_is[i])
                          : isnan(slope[i]) || fabs((double)slope_is[i] - slope[i]) < error);
    }
    const struct dt_gate packed = {1, N, 0};
    g->ops->swiglu_forward(&packed, dy, dx, dones, g->s);
    ref->swiglu_forward(&packed, want, x, ones, NULL);
    is = gpu_down(g, N, dy);
    for (int i = 0; i < N; i++) {
        double part = x[i] < 0 ? gpu_error(g, 0x1p-16) : error;
        CHECK_ROW("silu of %g: %g, wanted %g", (double)x[i], (double)is[i], (double)want[i]);
        CHECK(isnan(want[i]) ? isnan(is[i])
                             : is[i] == want[i] ||
                                   fabs((double)is[i] - want[i]) <= part * fabs(want[i]) + 1e-30);
    }
}

TEST(infinities_and_nan_stay_what_they_are)
{
    gpu_each(edges);
}

static void sum_of(struct gpu_kit *g, size_t n)
{
    float *x = gpu_numbers(g, n), *y = gpu_numbers(g, n);
    void *dx = gpu_up(g, n, x), *dy = gpu_up(g, n, y);
    g->ops->add(n, dx, dy, g->s);
    ref->add(n, x, y, NULL);
    gpu_near(g, "sum", n, dx, gpu_rounded(g, n, x), 0);
    g->shift += 3;
    dy = gpu_up(g, n, y);
    g->shift -= 3;
    g->ops->add(n, dx, dy, g->s);
    ref->add(n, x, y, NULL);
    gpu_near(g, "sum of arrays that lie differently", n, dx, gpu_rounded(g, n, x), 0);
}

/* Floats keep what is too small for the elements that are added to them. */
static void sum_in_floats_of(struct gpu_kit *g, size_t n)
{
    float *x = kit_numbers(&g->k, n), *y = gpu_numbers(g, n);
    float *sum = gpu_up_float(g, n, x);
    void *more = gpu_up(g, n, y);
    g->ops->add_to_floats(n, sum, more, g->s);
    ref->add(n, x, y, NULL);
    gpu_near_float(g, "sum in floats", n, sum, x, 0);
    g->shift += 3;
    more = gpu_up(g, n, y);
    g->shift -= 3;
    g->ops->add_to_floats(n, sum, more, g->s);
    ref->add(n, x, y, NULL);
    gpu_near_float(g, "sum in floats that lie differently", n, sum, x, 0);
}

static void sums_in_floats(struct gpu_kit *g)
{
    each_size(g, sum_in_floats_of);
}

TEST(elements_are_added_to_floats)
{
    gpu_each(sums_in_floats);
}

static void sums(struct gpu_kit *g)
{
    each_size(g, sum_of);
}

TEST(one_array_is_added_to_another)
{
    gpu_each(sums);
}

/* Rows of WIDTH, GAP apart on the one side and FAR on the other. */
static void copies_of(struct gpu_kit *g, size_t rows, size_t width, size_t gap, size_t far)
{
    size_t to = width + gap, from = width + far;
    float *x = gpu_numbers(g, rows * from), *y = gpu_numbers(g, rows * to);
    void *dx = gpu_up(g, rows * from, x), *dy = gpu_up(g, rows * to, y);
    g->ops->copy_rows(rows, width, dy, to, dx, from, g->s);
    ref->copy_rows(rows, width, y, to, x, from, NULL);
    CHECK_ROW("%zu rows of %zu, %zu and %zu apart", rows, width, gap, far);
    gpu_near(g, "copied", rows * to, dy, y, 0);
}

static void copies(struct gpu_kit *g)
{
    static const size_t sizes[] = {1, 7, 64, 300};
    for (size_t i = 0; i < 16; i++) {
        copies_of(g, sizes[i / 4], sizes[i % 4], 0, 16);
        copies_of(g, sizes[i / 4], sizes[i % 4], 3, 8);
        gpu_free(g);
    }
}

TEST(rows_are_copied_between_strides)
{
    gpu_each(copies);
}

static void dropout_of(struct gpu_kit *g, size_t n)
{
    static const struct dt_dropout rows[] = {{77, 0, 0.5f, 0, 0},
                                             {77, 1u << 31, 2, 0, 0},
                                             {9, 1u << 28, 1.5f, 0, 0},
                                             {9, 1u << 31, 2, 5, 15}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float *x = gpu_numbers(g, n), *y = gpu_numbers(g, n), *z = kit_copy(&g->k, n, y);
        void *dx = gpu_up(g, n, x), *dy = gpu_up(g, n, y);
        CHECK_ROW("%zu elements, gone below %u", n, rows[i].gone_below);
        g->ops->dropout(&rows[i], n, dy, true, dx, g->s);
        ref->dropout(&rows[i], n, z, true, x, NULL);
        gpu_near(g, "added", n, dy, gpu_rounded(g, n, z), gpu_error(g, 1e-6));
        g->ops->dropout(&rows[i], n, dx, false, dx, g->s);
        ref->dropout(&rows[i], n, z, false, x, NULL);
        gpu_near(g, "in place", n, dx, gpu_rounded(g, n, z), 0);
    }
}

static void dropouts(struct gpu_kit *g)
{
    each_size(g, dropout_of);
}

TEST(dropout_takes_the_elements_that_the_reference_takes)
{
    gpu_each(dropouts);
}

/* Of NaN in double a GPU keeps only that it is one. */
static bool same(enum dt_dtype type, const void *a, const void *b, size_t i)
{
    size_t size = dt_dtype_size(type);
    double x, y;
    ref->cast(1, &x, DT_F64, (const char *)a + i * size, type, NULL);
    ref->cast(1, &y, DT_F64, (const char *)b + i * size, type, NULL);
    return memcmp((const char *)a + i * size, (const char *)b + i * size, size) == 0 ||
           (isnan(x) && isnan(y));
}

static void one_cast(struct gpu_kit *g, size_t n, const float *all, enum dt_dtype from,
                     enum dt_dtype to)
{
    size_t bytes = n * dt_dtype_size(to), from_bytes = n * dt_dtype_size(from);
    void *x = kit_alloc(&g->k, from_bytes), *want = kit_alloc(&g->k, bytes);
    void *is = kit_alloc(&g->k, bytes);
    CHECK_ROW("from type %d to %d, shift %zu", from, to, g->shift);
    ref->cast(n, x, from, all, DT_F32, NULL);
    ref->cast(n, want, to, x, from, NULL);
    void *dx = gpu_bytes(g, from_bytes, x, g->shift * dt_dtype_size(from));
    void *dy = gpu_bytes(g, bytes, NULL, g->shift * dt_dtype_size(to));
    g->ops->cast(n, dy, to, dx, from, g->s);
    gpu_to_host(g, is, dy, bytes);
    bool may_differ = from == DT_F64 || to == DT_F64;
    for (size_t i = 0; may_differ && i < n; i++)
        CHECK(same(to, is, want, i));
    if (!may_differ)
        CHECK_BYTES(is, bytes, want, bytes);
    if (bytes == from_bytes) {
        g->ops->cast(n, dx, to, dx, from, g->s);
        void *again = kit_alloc(&g->k, bytes);
        gpu_to_host(g, again, dx, bytes);
        CHECK_BYTES(again, bytes, is, bytes);
    }
    gpu_free(g);
}

/* Every 16-bit pattern and a float within it, or N of them. */
static void patterns(struct gpu_kit *g, size_t n, float *all)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)((uint64_t)i * 0x10000 / n << 16);
        bits += i % 3 == 0 ? 0 : i % 3 == 1 ? 0x8000 : kit_random(&g->k) & 0xffff;
        memcpy(&all[i], &bits, 4);
    }
}

static void casts(struct gpu_kit *g)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16, DT_F64};
    enum { ALL = 1 << 16, SOME = 3001 };
    float *all = malloc(ALL * sizeof *all);
    for (int i = 0; i < 16; i++) {
        enum dt_dtype from = types[i / 4], to = types[i % 4];
        g->shift = 0;
        patterns(g, ALL, all);
        one_cast(g, from == DT_F64 || to == DT_F64 ? SOME : ALL, all, from, to);
        g->shift = 1;
        patterns(g, SOME, all);
        one_cast(g, SOME, all, from, to);
        one_cast(g, 0, all, from, to);
    }
    free(all);
}

TEST(casts_agree_on_every_pattern)
{
    gpu_each(casts);
}

static void bytes_of(struct gpu_kit *g)
{
    static const uint8_t bytes[] = {1, 2, 3, 255, 0, 7};
    uint8_t is[sizeof bytes];
    void *x = gpu_bytes(g, sizeof bytes, bytes, 0), *y = gpu_bytes(g, sizeof bytes, NULL, 1);
    g->ops->cast(sizeof bytes / 2, y, DT_U16, x, DT_U16, g->s);
    g->ops->cast(0, y, DT_U8, x, DT_U8, g->s);
    gpu_to_host(g, is, y, sizeof is);
    CHECK_BYTES(is, sizeof is, bytes, sizeof bytes);
}

TEST(equal_types_of_any_kind_are_copied)
{
    gpu_each(bytes_of);
}

static void rounds(struct gpu_kit *g, size_t n)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    for (size_t i = 0; i < 3; i++) {
        float *x = kit_alloc(&g->k, n * sizeof *x);
        patterns(g, n, x);
        void *dx = gpu_up_float(g, n, x);
        g->ops->round_to(n, dx, types[i], g->s);
        ref->round_to(n, x, types[i], NULL);
        CHECK_BYTES(gpu_down_float(g, n, dx), n * sizeof *x, x, n * sizeof *x);
    }
}

static void roundings(struct gpu_kit *g)
{
    each_size(g, rounds);
}

TEST(floats_are_rounded_in_place)
{
    gpu_each(roundings);
}

static void expansion_of(struct gpu_kit *g, size_t n)
{
    struct dt_err err = {0};
    struct dt_nf4_writer w;
    size_t bytes = dt_nf4_parts_of(NULL, n).words * sizeof(uint32_t);
    void *packed = kit_alloc(&g->k, bytes);
    CHECK_OK(dt_nf4_open(&w, packed, n, &err), err);
    CHECK_OK(dt_nf4_write(&w, kit_numbers(&g->k, n), n, &err), err);
    dt_nf4_finish(&w);
    dt_nf4_close(&w);
    const void *there = gpu_bytes(g, bytes, packed, 4 * g->shift);
    for (int type = DT_F32; type <= DT_F16; type++) {
        struct dt_nf4 q = {n, packed, (enum dt_dtype)type};
        float *wanted = gpu_numbers(g, n);
        void *out = gpu_up(g, n, NULL);
        ref->nf4_expand(&q, wanted, NULL);
        q.packed = there;
        g->ops->nf4_expand(&q, out, g->s);
        CHECK_ROW("rounded to type %d", type);
        gpu_near(g, "out of NF4", n, out, gpu_rounded(g, n, wanted), 0);
    }
}

static void expansions(struct gpu_kit *g)
{
    each_size(g, expansion_of);
}

TEST(numbers_come_out_of_nf4_to_the_last_bit)
{
    gpu_each(expansions);
}
