/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a step: losses, the size of gradients, AdamW, rounding by chance. */
#include "tests/runtime/ops_tables.h"
#include "worker_runtime/ops/by_chance.h"

static void losses(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {3, 5, 8}, {33, 257, 257}, {9, 1000, 1024}};
    for (size_t how = 0; how < 2 * sizeof shapes / sizeof shapes[0]; how++) {
        size_t i = how / 2, rows = shapes[i][0], n = rows * shapes[i][2];
        int32_t *targets = kit_ids(k, rows, shapes[i][1]);
        float cap = how % 2 ? 30 : 0;
        CHECK_ROW("rows %zu vocabulary %zu stride %zu cap %g", rows, shapes[i][1], shapes[i][2],
                  (double)cap);
        if (rows > 2)
            targets[1] = -100;
        struct dt_cross_entropy c = {rows, shapes[i][1], shapes[i][2], targets, 0.25f, cap, NULL};
        float *logits = kit_numbers(k, n);
        for (size_t e = 0; e < n; e++)
            logits[e] *= 20;
        float *a = kit_copy(k, n, logits), *b = kit_copy(k, n, logits);
        float *loss = kit_numbers(k, rows), *want = kit_numbers(k, rows);
        ops->cross_entropy(&c, loss, a, false, s);
        ref->cross_entropy(&c, want, b, false, NULL);
        kit_near("loss alone", rows, loss, want, 1e-6);
        kit_near("logits untouched", n, a, logits, 0);
        ops->cross_entropy(&c, loss, a, true, s);
        ref->cross_entropy(&c, want, b, true, NULL);
        kit_near("loss", rows, loss, want, 1e-6);
        kit_near("dlogits", n, a, b, 1e-6);
        memcpy(a, logits, n * sizeof *a);
        memcpy(b, logits, n * sizeof *b);
        c.weights = kit_numbers(k, rows);
        ops->cross_entropy(&c, loss, a, true, s);
        ref->cross_entropy(&c, want, b, true, NULL);
        kit_near("loss of rows with weights", rows, loss, want, 1e-6);
        kit_near("dlogits of rows with weights", n, a, b, 1e-6);
    }
}

TEST(cross_entropy_with_padding_and_rows_that_do_not_count)
{
    on_each_table(losses);
}

/* Rows of logits that PARTS ranks have some columns of each; the first PART of V is that of rank 0.
 */
struct columns {
    size_t rows, words, parts;
    float *logits; /* [rows, words] */
    int32_t *targets;
    float cap, *weights;
};

static size_t first_word(const struct columns *x, size_t part)
{
    return x->words * part / x->parts;
}

enum { PADS = 3 };

/* The loss of rank PART: its columns, with padding behind each row. */
static struct dt_cross_entropy loss_of(struct kit *k, const struct columns *x, size_t part,
                                       float **logits)
{
    size_t from = first_word(x, part), words = first_word(x, part + 1) - from;
    int32_t *targets = kit_alloc(k, x->rows * sizeof *targets);
    struct dt_cross_entropy c = {.rows = x->rows,
                                 .vocabulary = words,
                                 .stride = words + PADS,
                                 .targets = targets,
                                 .scale = 0.25f,
                                 .cap = x->cap,
                                 .weights = x->weights};
    *logits = kit_numbers(k, x->rows * c.stride);
    for (size_t n = 0; n < x->rows; n++) {
        size_t at = (size_t)x->targets[n] - from;
        targets[n] = x->targets[n] < 0 ? -1 : at < words ? (int32_t)at : (int32_t)words;
        memcpy(*logits + n * c.stride, x->logits + n * x->words + from, words * sizeof **logits);
    }
    return c;
}

/* All ranks come to the same losses, which are those of whole rows, and so are the gradients. */
static void check_columns(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                          const struct columns *x)
{
    struct dt_cross_entropy whole = {x->rows, x->words, x->words,  x->targets,
                                     0.25f,   x->cap,   x->weights};
    float *want = kit_alloc(k, x->rows * sizeof *want), *logits[4];
    float *losses = kit_numbers(k, x->rows), *again = kit_numbers(k, x->rows);
    float *sums = kit_numbers(k, x->parts * x->rows * 3);
    float *wanted = kit_copy(k, x->rows * x->words, x->logits);
    struct dt_cross_entropy c[4];
    ref->cross_entropy(&whole, want, wanted, true, NULL);
    for (size_t part = 0; part < x->parts; part++) {
        c[part] = loss_of(k, x, part, &logits[part]);
        ops->cross_entropy_sums(&c[part], sums + part * x->rows * 3, logits[part], s);
    }
    for (size_t part = 0; part < x->parts; part++) {
        size_t from = first_word(x, part), words = c[part].vocabulary;
        float *alone = kit_copy(k, x->rows * c[part].stride, logits[part]);
        ops->cross_entropy_join(&c[part], x->parts, sums, again, alone, false, s);
        CHECK_BYTES(alone, x->rows * c[part].stride * sizeof *alone, logits[part],
                    x->rows * c[part].stride * sizeof *alone);
        ops->cross_entropy_join(&c[part], x->parts, sums, losses, logits[part], true, s);
        CHECK_BYTES(losses, x->rows * sizeof *losses, again, x->rows * sizeof *again);
        kit_near("losses", x->rows, losses, want, 1e-6);
        for (size_t n = 0; n < x->rows; n++) {
            const float *row = logits[part] + n * c[part].stride;
            kit_near("dlogits", words, row, wanted + n * x->words + from, 1e-6);
            for (size_t i = 0; i < PADS; i++)
                CHECK(row[words + i] == 0);
        }
    }
}

static void losses_in_parts(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][3] = {{1, 4, 4}, {5, 7, 2}, {19, 257, 3}, {9, 1000, 1}};
    for (size_t how = 0; how < 4 * sizeof shapes / sizeof shapes[0]; how++) {
        const size_t *of = shapes[how / 4];
        struct columns x = {.rows = of[0], .words = of[1], .parts = of[2]};
        x.logits = kit_numbers(k, x.rows * x.words);
        x.targets = kit_ids(k, x.rows, x.words);
        x.cap = how % 2 ? 30 : 0;
        x.weights = how / 2 % 2 ? kit_numbers(k, x.rows) : NULL;
        for (size_t e = 0; e < x.rows * x.words; e++)
            x.logits[e] *= 20;
        /* No target; none of a rank's words can be; and one that is certain. */
        if (x.rows > 4) {
            x.targets[1] = -100;
            x.targets[2] = (int32_t)x.words - 1;
            for (size_t i = 0; x.parts > 1 && i < first_word(&x, 1); i++)
                x.logits[2 * x.words + i] = -INFINITY;
            x.logits[3 * x.words] = 3000;
        }
        CHECK_ROW("rows %zu words %zu ranks %zu cap %g", x.rows, x.words, x.parts, (double)x.cap);
        check_columns(ops, s, k, &x);
        check_columns(ref, NULL, k, &x);
    }
}

TEST(cross_entropy_of_words_that_ranks_share)
{
    on_each_table(losses_in_parts);
}

/* Though a rank whose words have numbers alone could come to a loss without it. */
static void no_number_in_a_part(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    const struct dt_ops *tables[] = {ops, ref};
    (void)k;
    for (size_t i = 0; i < 8; i++) {
        const struct dt_ops *of = tables[i & 1];
        float logits[][3] = {{1, 2, 3}, {NAN, i & 2 ? -INFINITY : NAN, NAN}}, sums[6], loss;
        int32_t target = 1, none = 3;
        struct dt_cross_entropy c = {1, 3, 3, &target, 1, i & 4 ? 30 : 0, NULL};
        of->cross_entropy_sums(&c, sums, logits[0], s);
        c.targets = &none;
        of->cross_entropy_sums(&c, sums + 3, logits[1], s);
        of->cross_entropy_join(&c, 2, sums, &loss, logits[0], false, s);
        CHECK(isnan(loss));
    }
}

TEST(what_is_no_number_with_one_rank_is_none_in_the_loss_of_all)
{
    on_each_table(no_number_in_a_part);
}

/* What P has from AT on, of other arrays. */
static struct dt_adamw_part rest_of(const struct dt_adamw_part *p, size_t at, float *master,
                                    float *exp_avg, float *exp_avg_sq, float *params)
{
    struct dt_adamw_part rest = *p;
    rest.count -= at;
    rest.master = master + at;
    rest.exp_avg = exp_avg + at;
    rest.exp_avg_sq = exp_avg_sq + at;
    rest.params = params + at;
    rest.grads = (const float *)p->grads + at;
    return rest;
}

static void optimizer(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t sizes[] = {0, 1, 17, 1025, 40000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] * 4; i++) {
        size_t n = sizes[i / 4];
        struct dt_adamw a = {.beta1 = 0.9f,
                             .beta2 = 0.95f,
                             .eps = 1e-8f,
                             .bias1 = 0.19f,
                             .bias2 = 0.1f,
                             .grad_scale = 0.5f,
                             .decoupled = i & 1};
        a.model_type = i % 4 == 2 ? DT_BF16 : i % 4 == 3 ? DT_F16 : DT_F32;
        CHECK_ROW("n %zu decoupled %d type %d", n, a.decoupled, a.model_type);
        float *p = kit_numbers(k, n), *m = kit_numbers(k, n), *v = kit_numbers(k, n);
        float *g = kit_numbers(k, n), *out = kit_numbers(k, n), *out2 = kit_numbers(k, n);
        for (size_t e = 0; e < n; e++)
            v[e] *= v[e];
        float *p2 = kit_copy(k, n, p), *m2 = kit_copy(k, n, m), *v2 = kit_copy(k, n, v);
        struct dt_adamw_part is[] = {{n / 3, p, m, v, out, g, 0.01f, 0.1f, 0, 0}, {0}};
        struct dt_adamw_part wanted = {n, p2, m2, v2, out2, g, 0.01f, 0.1f, 0, 0};
        is[1] = rest_of(&wanted, n / 3, p, m, v, out);
        ops->adamw(&a, 2, is, s);
        ref->adamw(&a, 1, &wanted, NULL);
        kit_near("master", n, p, p2, 5e-7);
        kit_near("exp_avg", n, m, m2, 5e-7);
        kit_near("exp_avg_sq", n, v, v2, 5e-7);
        ref->round_to(n, p, a.model_type, NULL);
        kit_near("params", n, out, p, 0);
        kit_free(k);
    }
}

TEST(adamw_in_both_ways_and_three_types)
{
    on_each_table(optimizer);
}

/* A decay far smaller than a float's last place next to 1, beside a step: weights of 64 sizes are
 * moved by both together, on average as far as they should be. */
static void small_decay(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    enum { N = 4096 };
    size_t bytes = N * sizeof(float);
    struct dt_adamw a = {.beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .eps = 1e-8f,
                         .bias1 = 0.19f,
                         .bias2 = 0.1f,
                         .grad_scale = 1,
                         .decoupled = true,
                         .model_type = DT_F32};
    float *p = kit_alloc(k, bytes), *m = kit_alloc(k, bytes), *v = kit_alloc(k, bytes);
    float *out = kit_alloc(k, bytes), *no_grads = kit_alloc(k, bytes);
    double off = 0;
    for (size_t i = 0; i < N; i++) {
        p[i] = 0.5f + (float)(i % 64) / 128;
        m[i] = (float)(i / 64) / 640;
        v[i] = 1;
        no_grads[i] = 0;
    }
    float *p2 = kit_copy(k, N, p), *m2 = kit_copy(k, N, m), *v2 = kit_copy(k, N, v);
    struct dt_adamw_part is = {N, p, m, v, out, no_grads, 1e-6f, 0.025f, 0, 0};
    struct dt_adamw_part wanted = {N, p2, m2, v2, out, no_grads, 1e-6f, 0.025f, 0, 0};
    ops->adamw(&a, 1, &is, s);
    ref->adamw(&a, 1, &wanted, NULL);
    for (size_t i = 0; i < N; i++)
        off += (double)p[i] - (double)p2[i];
    CHECK_ROW("off by %g on average; the decay is 2e-8", off / N);
    CHECK(fabs(off) / N < 1e-9);
    kit_free(k);
}

TEST(a_small_decay_is_not_lost)
{
    on_each_table(small_decay);
}

/* ADAMW where it changes nothing, so that PARAMS are X rounded. */
static void round_by(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                     enum dt_dtype type, uint64_t chance, size_t n, float *params, const float *x)
{
    struct dt_adamw a = {.beta1 = 0.9f,
                         .beta2 = 0.95f,
                         .eps = 1,
                         .bias1 = 1,
                         .bias2 = 1,
                         .grad_scale = 1,
                         .decoupled = true,
                         .model_type = type};
    size_t bytes = n * sizeof(float);
    struct dt_adamw_part p = {.count = n,
                              .master = kit_copy(k, n, x),
                              .exp_avg = kit_alloc(k, bytes),
                              .exp_avg_sq = kit_alloc(k, bytes),
                              .params = params,
                              .grads = kit_alloc(k, bytes),
                              .chance = chance};
    ops->adamw(&a, 1, &p, s);
}

/* Many roundings of one number, a third of the way from one 16-bit number to the next. */
static void one_number(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                       enum dt_dtype type, float below, float above)
{
    enum { N = 90000 };
    float third = below + (above - below) / 3, *x = kit_alloc(k, N * sizeof *x);
    size_t ups = 0, again = 0;
    CHECK_ROW("type %d from %g to %g", type, (double)below, (double)above);
    for (size_t i = 0; i < N; i++)
        x[i] = third;
    float *is = kit_alloc(k, N * sizeof *is), *other = kit_alloc(k, N * sizeof *other);
    round_by(ops, s, k, type, 41, N, is, x);
    round_by(ops, s, k, type, 42, N, other, x);
    for (size_t i = 0; i < N; i++) {
        CHECK(is[i] == below || is[i] == above);
        ups += is[i] == above;
        again += is[i] == other[i];
    }
    /* Five deviations of a coin thrown N times; 5/9 agree where the next step's throws differ. */
    CHECK(fabs((double)ups - N / 3.0) < 5 * sqrt(N * 2 / 9.0));
    CHECK(fabs((double)again - N * 5 / 9.0) < 5 * sqrt(N * 20 / 81.0));
    kit_free(k);
}

static void chances(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    one_number(ops, s, k, DT_BF16, 1, 1.0078125f);
    one_number(ops, s, k, DT_BF16, -3.984375f, -4);
    one_number(ops, s, k, DT_F16, 1, 0x1.004p+0f);
    one_number(ops, s, k, DT_F16, 0x1.ff8p-15f, 0x1p-14f);
    one_number(ops, s, k, DT_F16, 0, -0x1p-24f);
    for (int type = DT_BF16; type <= DT_F16; type++) {
        enum { N = 1 << 16 };
        CHECK_ROW("type %d", type);
        float *all = kit_alloc(k, N * sizeof *all), *is = kit_alloc(k, N * sizeof *all);
        for (uint32_t i = 0; i < N; i++)
            all[i] = type == DT_BF16 ? dt_bf16_to_float((uint16_t)i) : dt_f16_to_float((uint16_t)i);
        round_by(ops, s, k, type, 9, N, is, all);
        for (uint32_t i = 0; i < N; i++)
            CHECK(!isfinite(all[i]) || is[i] == all[i]);
        float *x = kit_numbers(k, N), *wanted = kit_alloc(k, N * sizeof *x);
        for (uint32_t i = 0; i < N; i++)
            x[i] *= i % 3 == 0 ? 1e-6f : i % 3 == 1 ? 1 : 4e4f;
        round_by(ops, s, k, type, UINT64_MAX, N - 3, is, x);
        round_by(ref, NULL, k, type, UINT64_MAX, N - 3, wanted, x);
        CHECK_BYTES(is, (N - 3) * sizeof *is, wanted, (N - 3) * sizeof *wanted);
        kit_free(k);
    }
}

TEST(what_is_no_number_stays_so_by_any_chance)
{
    for (uint64_t chance = 0; chance <= UINT32_MAX; chance += UINT32_MAX / 9) {
        uint32_t c = (uint32_t)chance;
        CHECK_EQ(dt_float_to_bf16_by_chance(-INFINITY, c), 0xff80);
        CHECK_EQ(dt_float_to_f16_by_chance(INFINITY, c), 0x7c00);
        CHECK_EQ(dt_float_to_f16_by_chance(-65536, c), 0xfc00);
        CHECK(isnan(dt_bf16_to_float(dt_float_to_bf16_by_chance(NAN, c))));
        CHECK(isnan(dt_f16_to_float(dt_float_to_f16_by_chance(NAN, c))));
    }
}

TEST(rounding_by_chance_is_right_on_average_and_the_same_everywhere)
{
    on_each_table(chances);
}

static void squares(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t sizes[] = {0, 1, 1000, 65536, 200001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        float *x = kit_numbers(k, sizes[i]);
        double is = -1, wanted = -1, two[2] = {-1, -1};
        struct dt_squares_part all = {sizes[i], x}, twice[] = {all, all};
        CHECK_ROW("%zu elements", sizes[i]);
        ops->sum_squares(DT_F32, 1, &is, &all, s);
        ref->sum_squares(DT_F32, 1, &wanted, &all, NULL);
        CHECK(fabs(is - wanted) <= 1e-12 * wanted);
        ops->sum_squares(DT_F32, 2, two, twice, s);
        CHECK(two[0] == is && two[1] == is);
        if (sizes[i] == 0)
            continue;
        x[sizes[i] / 2] = NAN;
        ops->sum_squares(DT_F32, 1, &is, &all, s);
        CHECK(isnan(is));
        x[sizes[i] / 2] = -INFINITY;
        ops->sum_squares(DT_F32, 1, &is, &all, s);
        CHECK(isinf(is));
    }
}

TEST(the_sum_of_squares_tells_of_infinities)
{
    on_each_table(squares);
}
