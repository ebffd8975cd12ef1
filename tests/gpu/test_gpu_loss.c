/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy of a GPU beside the plain loops: vocabularies of which a row fits a few threads and
 * of which it does not, strides that leave each row at another alignment, padding, rows that do not
 * count, and logits that are no help: infinite, huge, not a number. */
#include "tests/gpu/gpu_kit.h"

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

static const struct shape {
    size_t rows, vocabulary, stride;
} shapes[] = {
    {1, 1, 1},       {2, 2, 2},       {5, 3, 8},       {9, 7, 7},
    {4, 32, 32},     {6, 100, 103},   {3, 333, 333},   {3, 1000, 1024},
    {2, 4097, 4097}, {2, 2049, 2060}, {2, 5000, 5003}, {2, 60013, 60013},
};

struct rows {
    struct dt_cross_entropy host, device;
    size_t n;
    float *logits, *losses;
    void *logits_there, *losses_there;
};

/* Every third row does not count, but there is one that does. */
static struct rows rows_new(struct gpu_kit *g, const struct shape *s)
{
    struct rows r = {.host = {s->rows, s->vocabulary, s->stride, NULL, 300, 0, NULL}};
    int32_t *targets = kit_ids(&g->k, s->rows, s->vocabulary);
    for (size_t i = 2; i < s->rows; i += 3)
        targets[i] = i % 2 ? -100 : -1;
    targets[0] = (int32_t)s->vocabulary - 1;
    if (s->rows > 1)
        targets[1] = 0;
    r.device = r.host;
    r.host.targets = targets;
    r.device.targets = gpu_up_ids(g, s->rows, targets);
    r.n = s->rows * s->stride;
    r.logits = gpu_numbers(g, r.n);
    for (size_t i = 0; i < r.n; i++)
        r.logits[i] *= 4;
    r.losses = kit_alloc(&g->k, s->rows * sizeof *r.losses);
    r.logits_there = gpu_up(g, r.n, r.logits);
    r.losses_there = gpu_up_float(g, s->rows, NULL);
    return r;
}

static void run(struct gpu_kit *g, struct rows *r, bool gradients)
{
    g->ops->cross_entropy(&r->device, r->losses_there, r->logits_there, gradients, g->s);
    ref->cross_entropy(&r->host, r->losses, r->logits, gradients, NULL);
}

/* Each gradient as near as its own size asks for: most are far smaller than the target's. */
static void same_gradients(struct gpu_kit *g, const struct rows *r)
{
    const float *is = gpu_down(g, r->n, r->logits_there);
    double relative = gpu_error(g, 1e-5), absolute = 1e-6 * (double)r->host.scale;
    for (size_t i = 0; i < r->n; i++) {
        double off = fabs((double)is[i] - (double)r->logits[i]);
        double allowed = relative * fabs((double)r->logits[i]) + absolute;
        if (is[i] != r->logits[i] && !(off <= allowed)) {
            CHECK_ROW("row %zu, logit %zu is %.9g, wanted %.9g", i / r->host.stride,
                      i % r->host.stride, (double)is[i], (double)r->logits[i]);
            CHECK(off <= allowed);
        }
    }
    CHECK(true);
}

static void each_shape(struct gpu_kit *g)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int how = 0; how < 4; how++) {
            const struct shape *s = &shapes[i];
            bool gradients = how & 1;
            struct rows r = rows_new(g, s);
            r.host.cap = r.device.cap = how & 2 ? 5 : 0;
            CHECK_ROW("%zu rows of %zu in %zu, %s gradients, cap %g", s->rows, s->vocabulary,
                      s->stride, gradients ? "with" : "no", (double)r.host.cap);
            run(g, &r, gradients);
            gpu_near_float(g, "losses", s->rows, r.losses_there, r.losses, 2e-6);
            same_gradients(g, &r); /* without gradients: logits are as they were */
            gpu_free(g);
        }
    }
}

TEST(losses_and_gradients_are_those_of_the_plain_loops)
{
    gpu_each(each_shape);
}

/* One of them is 0, and some are below it. */
static void with_weights(struct gpu_kit *g)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *s = &shapes[i];
        CHECK_ROW("%zu rows of %zu in %zu", s->rows, s->vocabulary, s->stride);
        struct rows r = rows_new(g, s);
        float *weights = kit_numbers(&g->k, s->rows);
        weights[s->rows / 2] = s->rows > 1 ? 0 : -2;
        r.host.weights = weights;
        r.device.weights = gpu_up_float(g, s->rows, weights);
        run(g, &r, true);
        gpu_near_float(g, "losses", s->rows, r.losses_there, r.losses, 2e-6);
        same_gradients(g, &r);
        gpu_free(g);
    }
}

TEST(gradients_of_each_row_have_its_weight)
{
    gpu_each(with_weights);
}

static void at_odd_addresses(struct gpu_kit *g)
{
    static const struct shape s = {3, 50, 53};
    for (g->shift = 1; g->shift < 9; g->shift++) {
        CHECK_ROW("%zu elements behind an aligned address", g->shift);
        struct rows r = rows_new(g, &s);
        run(g, &r, true);
        gpu_near_float(g, "losses", s.rows, r.losses_there, r.losses, 2e-6);
        same_gradients(g, &r);
        gpu_free(g);
    }
}

TEST(rows_may_begin_at_any_element)
{
    gpu_each(at_odd_addresses);
}

/* A mask is -infinity or the like; that it comes first must not matter. */
static void masked(struct gpu_kit *g)
{
    static const struct shape s = {4, 700, 700};
    static const float masks[] = {-INFINITY, -3e38f, -1e4f};
    for (size_t m = 0; m < sizeof masks / sizeof masks[0]; m++) {
        CHECK_ROW("%g", (double)masks[m]);
        struct rows r = rows_new(g, &s);
        for (size_t i = 0; i < r.n; i++)
            if (i % 700 < 690 && (int32_t)(i % 700) != r.host.targets[i / 700])
                r.logits[i] = masks[m];
        gpu_rounded(g, r.n, r.logits);
        r.logits_there = gpu_up(g, r.n, r.logits);
        run(g, &r, true);
        gpu_near_float(g, "losses", s.rows, r.losses_there, r.losses, 2e-6);
        same_gradients(g, &r);
        gpu_free(g);
    }
}

TEST(masked_words_have_no_chance_and_no_gradient)
{
    gpu_each(masked);
}

static void far_apart(struct gpu_kit *g)
{
    static const struct shape s = {5, 90, 96};
    struct rows r = rows_new(g, &s);
    for (size_t i = 0; i < r.n; i++)
        r.logits[i] *= i / 96 % 2 ? 1e30f : 40;
    gpu_rounded(g, r.n, r.logits);
    r.logits_there = gpu_up(g, r.n, r.logits);
    run(g, &r, true);
    const float *is = gpu_down_float(g, s.rows, r.losses_there);
    for (size_t i = 0; i < s.rows; i++) {
        CHECK_ROW("loss %zu is %g, wanted %g", i, (double)is[i], (double)r.losses[i]);
        CHECK(fabs((double)is[i] - (double)r.losses[i]) <= 2e-6 * fabs((double)r.losses[i]));
    }
    same_gradients(g, &r);
}

TEST(logits_may_be_far_apart)
{
    gpu_each(far_apart);
}

/* Only differences count, and a thread that has no logits has none to compare. */
static void far_below(struct gpu_kit *g)
{
    static const struct shape few[] = {{3, 2, 8}, {5, 90, 96}, {2, 700, 700}, {2, 5000, 5000}};
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) {
        for (float by = -120; by > -1e5f; by *= 32) {
            CHECK_ROW("%zu of %zu, by %g", few[i].vocabulary, few[i].stride, (double)by);
            struct rows r = rows_new(g, &few[i]);
            for (size_t l = 0; l < r.n; l++)
                r.logits[l] += by;
            gpu_rounded(g, r.n, r.logits);
            r.logits_there = gpu_up(g, r.n, r.logits);
            run(g, &r, true);
            gpu_near_float(g, "losses", few[i].rows, r.losses_there, r.losses, 2e-6);
            same_gradients(g, &r);
            gpu_free(g);
        }
    }
}

TEST(logits_may_all_be_far_below_zero)
{
    gpu_each(far_below);
}

/* What has gone wrong must be seen in the loss, not hidden by a maximum. */
static void broken(struct gpu_kit *g)
{
    static const struct shape s = {2, 600, 600};
    static const float values[] = {NAN, INFINITY};
    for (size_t v = 0; v < 2; v++) {
        CHECK_ROW("%g", (double)values[v]);
        struct rows r = rows_new(g, &s);
        r.logits[417] = values[v];
        r.logits_there = gpu_up(g, r.n, r.logits);
        run(g, &r, true);
        const float *is = gpu_down_float(g, s.rows, r.losses_there);
        CHECK(isnan(is[0]));
        CHECK(isnan(r.losses[0]));
        CHECK(isfinite(is[1]));
        gpu_free(g);
    }
}

TEST(a_logit_that_is_no_number_makes_a_loss_that_is_none)
{
    gpu_each(broken);
}

/* Ranks with other words each. One has the target of a row, which are dealt in turn. */
enum { PARTS = 3 };

static void deal_targets(struct gpu_kit *g, struct rows *parts)
{
    size_t rows = parts->host.rows;
    for (size_t part = 0; part < PARTS; part++) {
        struct rows *r = &parts[part];
        int32_t *targets = kit_alloc(&g->k, rows * sizeof *targets);
        for (size_t n = 0; n < rows; n++) {
            int32_t own = parts[0].host.targets[n];
            targets[n] = own < 0 || n % PARTS == part ? own : (int32_t)(r->host.vocabulary + n);
        }
        r->device.targets = gpu_up_ids(g, rows, targets);
        if (part > 0)
            r->host.targets = targets;
    }
    parts[0].host.targets = kit_alloc(&g->k, rows * sizeof(int32_t));
    gpu_to_host(g, (void *)parts[0].host.targets, parts[0].device.targets, rows * sizeof(int32_t));
}

/* Each one's sums, and what comes of those of all. */
static void join_all(struct gpu_kit *g, struct rows *parts)
{
    size_t rows = parts->host.rows, numbers = rows * 3;
    float *sums = kit_numbers(&g->k, PARTS * numbers),
          *there = gpu_up_float(g, PARTS * numbers, NULL);
    for (size_t part = 0; part < PARTS; part++) {
        struct rows *r = &parts[part];
        ref->cross_entropy_sums(&r->host, sums + part * numbers, r->logits, NULL);
        g->ops->cross_entropy_sums(&r->device, there + part * numbers, r->logits_there, g->s);
    }
    const float *is = gpu_down_float(g, PARTS * numbers, there);
    for (size_t i = 0; i < PARTS * numbers; i++) {
        CHECK_ROW("sum %zu is %.9g, wanted %.9g", i, (double)is[i], (double)sums[i]);
        CHECK(is[i] == sums[i] ||
              fabs((double)is[i] - (double)sums[i]) <= 2e-6 * fabs((double)sums[i]));
    }
    for (size_t part = 0; part < PARTS; part++)
        for (int gradients = 0; gradients < 2; gradients++) {
            struct rows *r = &parts[part];
            ref->cross_entropy_join(&r->host, PARTS, sums, r->losses, r->logits, gradients, NULL);
            g->ops->cross_entropy_join(&r->device, PARTS, there, r->losses_there, r->logits_there,
                                       gradients, g->s);
            gpu_near_float(g, "losses", rows, r->losses_there, r->losses, 2e-6);
            same_gradients(g, r);
        }
}

static void shared_words(struct gpu_kit *g)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0] * 4; i++) {
        const struct shape *s = &shapes[i / 4];
        struct rows parts[PARTS];
        g->shift = i % 4 == 3;
        CHECK_ROW("%zu rows of %zu in %zu, way %zu", s->rows, s->vocabulary, s->stride, i % 4);
        for (size_t part = 0; part < PARTS; part++) {
            struct rows *r = &parts[part];
            *r = rows_new(g, s);
            r->host.cap = r->device.cap = i % 2 ? 5 : 0;
            float *weights = i % 4 > 1 ? kit_numbers(&g->k, s->rows) : NULL;
            r->host.weights = weights;
            r->device.weights = weights ? gpu_up_float(g, s->rows, weights) : NULL;
        }
        deal_targets(g, parts);
        join_all(g, parts);
        gpu_free(g);
    }
    g->shift = 0;
}

TEST(ranks_that_share_the_words_come_to_the_losses_of_the_plain_loops)
{
    gpu_each(shared_words);
}

/* VALUE is what the second rank has of the first row's words. */
static void one_part_has(struct gpu_kit *g, struct rows *parts, float value)
{
    static const struct shape s = {3, 40, 48};
    for (size_t part = 0; part < PARTS; part++)
        parts[part] = rows_new(g, &s);
    for (size_t l = 0; l < s.vocabulary; l++)
        parts[1].logits[l] = value;
    parts[1].logits_there = gpu_up(g, parts[1].n, parts[1].logits);
    deal_targets(g, parts);
}

static void masked_part(struct gpu_kit *g)
{
    struct rows parts[PARTS];
    one_part_has(g, parts, -INFINITY);
    join_all(g, parts);
}

TEST(words_of_one_rank_that_cannot_be_add_nothing)
{
    gpu_each(masked_part);
}

static void broken_part(struct gpu_kit *g)
{
    struct rows parts[PARTS];
    one_part_has(g, parts, NAN);
    size_t rows = parts->host.rows;
    float *there = gpu_up_float(g, PARTS * rows * 3, NULL);
    for (size_t part = 0; part < PARTS; part++)
        g->ops->cross_entropy_sums(&parts[part].device, there + part * rows * 3,
                                   parts[part].logits_there, g->s);
    g->ops->cross_entropy_join(&parts->device, PARTS, there, parts->losses_there,
                               parts->logits_there, false, g->s);
    const float *losses = gpu_down_float(g, rows, parts->losses_there);
    CHECK(isnan(losses[0]));
    CHECK(isfinite(losses[1]));
}

TEST(what_is_no_number_with_one_rank_is_none_in_the_loss_of_all)
{
    gpu_each(broken_part);
}

static void no_rows(struct gpu_kit *g)
{
    static const struct shape s = {1, 40, 40};
    struct rows r = rows_new(g, &s);
    float *was = gpu_down(g, r.n, r.logits_there);
    r.device.rows = 0;
    g->ops->cross_entropy(&r.device, r.losses_there, r.logits_there, true, g->s);
    gpu_near(g, "logits", r.n, r.logits_there, was, 0);
}

TEST(no_rows_do_nothing)
{
    gpu_each(no_rows);
}
