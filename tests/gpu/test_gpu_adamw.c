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

static const struct dt_adamw usual = {
    .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .bias1 = 0.19f, .bias2 = 0.1f, .grad_scale = 0.5f};

/* PART's params are what the reference makes of the master weights that the GPU found. */
static void check_params(struct gpu_kit *g, const struct dt_adamw *a,
                         const struct dt_adamw_part *part)
{
    struct dt_adamw still = *a;
    size_t n = part->count;
    float *zeros = kit_alloc(&g->k, n * 4), *want = kit_alloc(&g->k, n * 4);
    struct dt_adamw_part p = {n,
                              gpu_down_float(g, n, part->master),
                              zeros,
                              zeros,
                              want,
                              zeros,
                              0,
                              0,
                              part->chance,
                              part->chance_at};
    still.eps = still.bias1 = still.bias2 = 1;
    still.decoupled = true;
    ref->adamw(&still, 1, &p, NULL);
    kit_near("params", n, gpu_down(g, n, part->params), gpu_rounded(g, n, want), 0);
}

/* N numbers of a step: second moments are squares. */
static struct dt_adamw_part numbers(struct gpu_kit *g, size_t n)
{
    struct dt_adamw_part p = {.count = n,
                              .master = kit_numbers(&g->k, n),
                              .exp_avg = kit_numbers(&g->k, n),
                              .exp_avg_sq = kit_numbers(&g->k, n),
                              .params = kit_alloc(&g->k, n * 4),
                              .grads = gpu_numbers(g, n),
                              .lr = 0.01f,
                              .weight_decay = 0.1f};
    for (size_t i = 0; i < n; i++)
        p.exp_avg_sq[i] *= p.exp_avg_sq[i];
    return p;
}

/* P of the host, on the device. */
static struct dt_adamw_part up(struct gpu_kit *g, const struct dt_adamw_part *p)
{
    struct dt_adamw_part there = *p;
    there.master = gpu_up_float(g, p->count, p->master);
    there.exp_avg = gpu_up_float(g, p->count, p->exp_avg);
    there.exp_avg_sq = gpu_up_float(g, p->count, p->exp_avg_sq);
    there.params = gpu_up(g, p->count, NULL);
    there.grads = gpu_up(g, p->count, p->grads);
    return there;
}

/* Gradients in floats, whatever the parameters are. */
static const void *float_grads(struct gpu_kit *g, const struct dt_adamw_part *p)
{
    float *x = kit_numbers(&g->k, p->count);
    memcpy((void *)p->grads, x, p->count * sizeof *x);
    return gpu_up_float(g, p->count, x);
}

static void one_step(struct gpu_kit *g, const struct dt_adamw *a, uint64_t chance, size_t n,
                     bool in_place)
{
    CHECK_ROW("decoupled %d type %d chance %d in place %d float gradients %d", a->decoupled,
              a->model_type, chance != 0, in_place, a->float_grads);
    struct dt_adamw_part p = numbers(g, n), is = up(g, &p);
    p.chance = is.chance = chance;
    if (a->float_grads)
        is.grads = float_grads(g, &p);
    if (in_place)
        is.params = is.master;
    g->ops->adamw(a, 1, &is, g->s);
    ref->adamw(a, 1, &p, NULL);
    /* Where the second moment is all but 0 a step is 30, and as exact as a float of that size. */
    gpu_near_float(g, "master", n, is.master, p.master, 2e-6);
    gpu_near_float(g, "exp_avg", n, is.exp_avg, p.exp_avg, 5e-7);
    gpu_near_float(g, "exp_avg_sq", n, is.exp_avg_sq, p.exp_avg_sq, 5e-7);
    if (a->float_grads)
        gpu_near_float(g, "grads untouched", n, is.grads, p.grads, 0);
    else
        kit_near("grads untouched", n, gpu_down(g, n, is.grads), p.grads, 0);
    if (!in_place)
        check_params(g, a, &is);
}

static void steps_of(struct gpu_kit *g, size_t n)
{
    for (int how = 0; how < 10; how++) {
        struct dt_adamw a = usual;
        a.decoupled = how % 2;
        a.float_grads = how / 2 == 4;
        a.model_type = how / 2 < 2    ? DT_F32
                       : how / 2 == 2 ? DT_BF16
                       : how / 2 == 3 ? DT_F16
                                      : DT_BF16;
        uint64_t chance = how / 2 >= 3 ? 77 + (uint64_t)how : 0;
        bool in_place = how / 2 == 1;
        if (in_place && g->elem != DT_F32)
            continue;
        one_step(g, &a, chance, n, in_place);
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
    struct dt_adamw_part want = {N, p, m, v, out, zeros, 1e-6f, 0.025f, 0, 0};
    struct dt_adamw_part there = up(g, &want);
    g->ops->adamw(&a, 1, &there, g->s);
    ref->adamw(&a, 1, &want, NULL);
    const float *is = gpu_down_float(g, N, there.master);
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
    a.decoupled = true;
    float *x = kit_alloc(&g->k, N * 4), *zeros = kit_alloc(&g->k, N * 4);
    float *want = kit_alloc(&g->k, N * 4);
    for (int type = DT_BF16; type <= (g->elem == DT_F32 ? DT_F16 : DT_BF16); type++) {
        float above = type == DT_BF16 ? 1.0078125f : 0x1.004p+0f, third = 1 + (above - 1) / 3;
        CHECK_ROW("type %d", type);
        for (size_t i = 0; i < N; i++)
            x[i] = third;
        a.model_type = (enum dt_dtype)type;
        struct dt_adamw_part p = {N, x, zeros, zeros, want, zeros, 0, 0, UINT64_MAX - 5, 0};
        struct dt_adamw_part there = up(g, &p);
        g->ops->adamw(&a, 1, &there, g->s);
        ref->adamw(&a, 1, &p, NULL);
        gpu_near_float(g, "master untouched", N, there.master, x, 0);
        float *is = gpu_down(g, N, there.params);
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

/* COUNT elements of P from AT on. */
static struct dt_adamw_part slice(const struct gpu_kit *g, const struct dt_adamw_part *p, size_t at,
                                  size_t count)
{
    struct dt_adamw_part some = *p;
    some.count = count;
    some.master += at;
    some.exp_avg += at;
    some.exp_avg_sq += at;
    some.params = (char *)p->params + at * gpu_size(g);
    some.grads = (const char *)p->grads + at * gpu_size(g);
    return some;
}

/* To the bit, what nobody wrote included. */
static void same_part(struct gpu_kit *g, const struct dt_adamw_part *a,
                      const struct dt_adamw_part *b)
{
    size_t n = a->count, bytes = n * sizeof(float);
    CHECK_BYTES(gpu_down_float(g, n, a->master), bytes, gpu_down_float(g, n, b->master), bytes);
    CHECK_BYTES(gpu_down_float(g, n, a->exp_avg), bytes, gpu_down_float(g, n, b->exp_avg), bytes);
    CHECK_BYTES(gpu_down_float(g, n, a->exp_avg_sq), bytes, gpu_down_float(g, n, b->exp_avg_sq),
                bytes);
    CHECK_BYTES(gpu_down(g, n, a->params), bytes, gpu_down(g, n, b->params), bytes);
}

/* More parts than go into one launch, of all sizes and alignments, each with a rate, decay and
 * chance of its own: each has the bits that it has alone. */
static void many(struct gpu_kit *g)
{
    enum { PARTS = 120, SIZES = 7, ROOM = 40 };
    static const size_t sizes[SIZES] = {0, 1, 7, 16, 300, 4096, 5003};
    static const size_t shifts[] = {0, 1, 4};
    struct dt_adamw a = usual;
    a.model_type = DT_BF16;
    for (size_t i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        struct dt_adamw_part together[PARTS], alone[PARTS];
        g->shift = shifts[i];
        for (size_t j = 0; j < SIZES; j++) {
            struct dt_adamw_part p = numbers(g, sizes[j]);
            together[j] = up(g, &p);
            alone[j] = up(g, &p);
        }
        /* The others stand in a row with something between them: there is room for few arrays. */
        struct dt_adamw_part p = numbers(g, ROOM * PARTS), all = up(g, &p), each = up(g, &p);
        for (size_t j = SIZES; j < PARTS; j++) {
            together[j] = slice(g, &all, ROOM * j, 1 + j % ROOM);
            alone[j] = slice(g, &each, ROOM * j, 1 + j % ROOM);
        }
        for (size_t j = 0; j < PARTS; j++) {
            together[j].lr = alone[j].lr = 0.001f * (float)(1 + j);
            together[j].weight_decay = alone[j].weight_decay = j % 3 == 0 ? 0 : 0.1f;
            together[j].chance = alone[j].chance = j % 2 == 0 ? 0 : 1000 + j;
            g->ops->adamw(&a, 1, &alone[j], g->s);
        }
        g->ops->adamw(&a, PARTS, together, g->s);
        for (size_t j = 0; j < PARTS; j++) {
            CHECK_ROW("part %zu of %zu elements, shift %zu", j, together[j].count, g->shift);
            same_part(g, &together[j], &alone[j]);
        }
        same_part(g, &all, &each); /* and what is between them is as it was */
        gpu_free(g);
    }
    g->shift = 0;
}

TEST(many_parts_are_moved_as_each_alone)
{
    gpu_each(many);
}

static void sum_squares(struct gpu_kit *g, size_t n, double *sum, const float *x)
{
    struct dt_squares_part p = {n, gpu_up(g, n, x)};
    g->ops->sum_squares(g->elem, 1, sum, &p, g->s);
}

static void squares(struct gpu_kit *g)
{
    static const size_t sizes[] = {0, 1, 1000, 16384, 50001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        float *x = gpu_numbers(g, n), odd[] = {NAN, -INFINITY};
        double is = -1, again = -1, wanted = -1;
        CHECK_ROW("%zu elements", n);
        g->shift = 0;
        sum_squares(g, n, &is, x);
        g->shift = 1;
        sum_squares(g, n, &again, x);
        ref->sum_squares(DT_F32, 1, &wanted, &(struct dt_squares_part){n, x}, NULL);
        CHECK(fabs(is - wanted) <= 1e-12 * wanted);
        CHECK_BYTES(&is, sizeof is, &again, sizeof again);
        for (int what = 0; what < 2 && n; what++) {
            x[n / 2] = odd[what];
            sum_squares(g, n, &is, x);
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

/* As many parts as a call takes, more than go into one launch: each sum has the bits that it has
 * alone, and what is no number stays in its part. */
static void many_squares(struct gpu_kit *g)
{
    enum { N = 70000 };
    struct dt_squares_part part[DT_PARTS_MOST];
    double together[DT_PARTS_MOST], alone;
    float *x = gpu_numbers(g, N);
    x[N - 1] = NAN;
    const char *there = gpu_up(g, N, x);
    for (size_t i = 0; i < DT_PARTS_MOST; i++) {
        size_t from = i * 64 + i % 3;
        part[i] = (struct dt_squares_part){i % 50 == 7 ? 0 : (i % 9 + 1) * 5000 - i,
                                           there + from * gpu_size(g)};
    }
    part[99] = (struct dt_squares_part){1, there + (N - 1) * gpu_size(g)};
    g->ops->sum_squares(g->elem, DT_PARTS_MOST, together, part, g->s);
    for (size_t i = 0; i < DT_PARTS_MOST; i++) {
        CHECK_ROW("part %zu of %zu elements", i, part[i].count);
        g->ops->sum_squares(g->elem, 1, &alone, &part[i], g->s);
        CHECK(i == 99 ? isnan(together[i]) && isnan(alone) : together[i] == alone);
    }
    gpu_free(g);
}

TEST(many_parts_are_summed_as_each_alone)
{
    gpu_each(many_squares);
}
