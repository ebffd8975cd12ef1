/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU's optimizer does: the step says what the reference says, in all types and both ways of
 * rounding; and the sum of squares, for clipping. Arrays begin where 16 bytes at a time can be
 * read, and where they cannot. */
#include "tests/gpu/gpu_kit.h"

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

/* Runs STORY(g, n) for sizes of 0, 1, less and more than a pack, a block and more. Four elements
 * are 16 bytes of floats, but 8 of the parameters beside them. */
static void each_size(struct gpu_kit *g, void (*story)(struct gpu_kit *g, size_t n))
{
    static const size_t sizes[] = {0, 1, 7, 16, 1000, 5003};
    static const size_t shifts[] = {0, 1, 4};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * 3; i++) {
        g->shift = shifts[i % 3];
        CHECK_ROW("%zu elements, shift %zu", sizes[i / 3], g->shift);
        story(g, sizes[i / 3]);
        gpu_free(g);
    }
    g->shift = 0;
}

static const struct dt_adamw usual = {.lr = 0.01f,
                                      .beta1 = 0.9f,
                                      .beta2 = 0.95f,
                                      .eps = 1e-8f,
                                      .weight_decay = 0.1f,
                                      .bias1 = 0.19f,
                                      .bias2 = 0.1f,
                                      .grad_scale = 0.5f};

/* PARAMS is what the reference makes of the master weights that the GPU found. */
static void check_params(struct gpu_kit *g, const struct dt_adamw *a, size_t n, const void *params,
                         const void *master)
{
    struct dt_adamw still = *a;
    float *p = gpu_down_float(g, n, master), *zeros = kit_alloc(&g->k, n * 4);
    float *want = kit_alloc(&g->k, n * 4);
    still.lr = 0;
    still.eps = still.bias1 = still.bias2 = 1;
    still.decoupled = true;
    ref->adamw(&still, n, p, zeros, zeros, want, zeros, NULL);
    kit_near("params", n, gpu_down(g, n, params), gpu_rounded(g, n, want), 0);
}

static void one_step(struct gpu_kit *g, const struct dt_adamw *a, size_t n, bool in_place)
{
    CHECK_ROW("decoupled %d type %d chance %d in place %d", a->decoupled, a->model_type,
              a->chance != 0, in_place);
    float *p = kit_numbers(&g->k, n), *m = kit_numbers(&g->k, n), *v = kit_numbers(&g->k, n);
    float *grads = kit_numbers(&g->k, n), *out = kit_alloc(&g->k, n * 4);
    for (size_t i = 0; i < n; i++)
        v[i] *= v[i];
    void *dp = gpu_up_float(g, n, p), *dm = gpu_up_float(g, n, m), *dv = gpu_up_float(g, n, v);
    void *dgrads = gpu_up_float(g, n, grads), *params = in_place ? dp : gpu_up(g, n, NULL);
    g->ops->adamw(a, n, dp, dm, dv, params, dgrads, g->s);
    ref->adamw(a, n, p, m, v, out, grads, NULL);
    /* Where the second moment is all but 0 a step is 30, and as exact as a float of that size. */
    gpu_near_float(g, "master", n, dp, p, 2e-6);
    gpu_near_float(g, "exp_avg", n, dm, m, 5e-7);
    gpu_near_float(g, "exp_avg_sq", n, dv, v, 5e-7);
    gpu_near_float(g, "grads untouched", n, dgrads, grads, 0);
    if (!in_place)
        check_params(g, a, n, params, dp);
}

static void steps_of(struct gpu_kit *g, size_t n)
{
    for (int how = 0; how < 10; how++) {
        struct dt_adamw a = usual;
        a.decoupled = how % 2;
        a.model_type = how / 2 < 2    ? DT_F32
                       : how / 2 == 2 ? DT_BF16
                       : how / 2 == 3 ? DT_F16
                                      : DT_BF16;
        a.chance = how / 2 >= 3 ? 77 + (uint64_t)how : 0;
        bool in_place = how / 2 == 1;
        if (in_place && g->elem != DT_F32)
            continue;
        one_step(g, &a, n, in_place);
    }
}

static void steps(struct gpu_kit *g)
{
    each_size(g, steps_of);
}

TEST(adamw_in_both_ways_and_all_types)
{
    gpu_each(steps);
}

/* A decay far smaller than a float's last place next to 1 is not lost where there is a small step
 * beside it: 64 weights of 64 sizes are moved by both together. */
static void decays(struct gpu_kit *g)
{
    enum { N = 4096 };
    struct dt_adamw a = usual;
    a.lr = 1e-6f;
    a.weight_decay = 0.025f;
    a.decoupled = true;
    a.model_type = DT_F32;
    float *p = kit_alloc(&g->k, N * 4), *m = kit_alloc(&g->k, N * 4), *v = kit_alloc(&g->k, N * 4);
    float *out = kit_alloc(&g->k, N * 4), *zeros = kit_alloc(&g->k, N * 4);
    for (size_t i = 0; i < N; i++) {
        p[i] = 0.5f + (float)(i % 64) / 128;
        m[i] = (float)(i / 64) / 640;
        v[i] = 1;
        zeros[i] = 0;
    }
    void *dp = gpu_up_float(g, N, p), *dm = gpu_up_float(g, N, m), *dv = gpu_up_float(g, N, v);
    void *dg = gpu_up_float(g, N, zeros), *params = gpu_up(g, N, NULL);
    g->ops->adamw(&a, N, dp, dm, dv, params, dg, g->s);
    ref->adamw(&a, N, p, m, v, out, zeros, NULL);
    const float *is = gpu_down_float(g, N, dp);
    double off = 0;
    for (size_t i = 0; i < N; i++)
        off += (double)is[i] - (double)p[i];
    /* A twentieth of the decay, which is 2e-8. */
    CHECK_ROW("off by %g on average", off / N);
    CHECK(fabs(off) / N < 1e-9);
}

TEST(a_small_decay_is_not_lost)
{
    gpu_each(decays);
}

/* Rounded by chance where the step changes nothing: the bits of the reference, and right on
 * average. */
static void chances(struct gpu_kit *g)
{
    enum { N = 40001 };
    struct dt_adamw a = usual;
    a.lr = 0;
    a.decoupled = true;
    float *x = kit_alloc(&g->k, N * 4), *zeros = kit_alloc(&g->k, N * 4);
    float *want = kit_alloc(&g->k, N * 4);
    for (int type = DT_BF16; type <= (g->elem == DT_F32 ? DT_F16 : DT_BF16); type++) {
        float above = type == DT_BF16 ? 1.0078125f : 0x1.004p+0f, third = 1 + (above - 1) / 3;
        CHECK_ROW("type %d", type);
        for (size_t i = 0; i < N; i++)
            x[i] = third;
        a.model_type = (enum dt_dtype)type;
        a.chance = UINT64_MAX - 5;
        void *dx = gpu_up_float(g, N, x), *dm = gpu_up_float(g, N, zeros);
        void *dv = gpu_up_float(g, N, zeros), *dg = gpu_up_float(g, N, zeros);
        void *params = gpu_up(g, N, NULL);
        g->ops->adamw(&a, N, dx, dm, dv, params, dg, g->s);
        ref->adamw(&a, N, x, zeros, zeros, want, zeros, NULL);
        gpu_near_float(g, "master untouched", N, dx, x, 0);
        float *is = gpu_down(g, N, params);
        CHECK_BYTES(is, N * 4, want, N * 4);
        size_t ups = 0;
        for (size_t i = 0; i < N; i++) {
            CHECK(is[i] == 1 || is[i] == above);
            ups += is[i] == above;
        }
        /* Five deviations of a coin thrown N times. */
        CHECK(fabs((double)ups - N / 3.0) < 5 * sqrt(N * 2 / 9.0));
    }
}

TEST(rounding_by_chance_has_the_bits_of_the_reference)
{
    gpu_each(chances);
}

static void squares(struct gpu_kit *g)
{
    static const size_t sizes[] = {0, 1, 1000, 16384, 50001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        float *x = kit_numbers(&g->k, n), odd[] = {NAN, -INFINITY};
        double is = -1, again = -1, wanted = -1;
        CHECK_ROW("%zu elements", n);
        g->shift = 0;
        g->ops->sum_squares(n, &is, gpu_up_float(g, n, x), g->s);
        g->shift = 1;
        g->ops->sum_squares(n, &again, gpu_up_float(g, n, x), g->s);
        ref->sum_squares(n, &wanted, x, NULL);
        CHECK(fabs(is - wanted) <= 1e-12 * wanted);
        CHECK_BYTES(&is, sizeof is, &again, sizeof again);
        for (int what = 0; what < 2 && n; what++) {
            x[n / 2] = odd[what];
            g->ops->sum_squares(n, &is, gpu_up_float(g, n, x), g->s);
            CHECK(what == 0 ? isnan(is) : isinf(is));
        }
        gpu_free(g);
    }
    g->shift = 0;
}

TEST(the_sum_of_squares_tells_of_infinities)
{
    gpu_each(squares);
}
