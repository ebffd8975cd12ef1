/* SPDX-License-Identifier: Apache-2.0 */
/* Which experts a row goes through, and back: the reference by what must hold and by slopes, and
 * the fast ops by the reference. */
#include "tests/runtime/ops_kit.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/model/experts.h"
#include "worker_runtime/ops/cpu/cpu_level.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

static const struct dt_ops *const ref = &dt_ops_reference;

/* What a router makes of logits, and the order that follows. */
struct routed {
    float *logits, *probs, *weights;
    int32_t *experts;
    struct dt_route_order order;
};

static struct routed room(struct kit *k, const struct dt_routes *r)
{
    size_t picks = r->rows * r->picks, all = r->rows * r->experts;
    return (struct routed){.logits = kit_numbers(k, all),
                           .probs = kit_alloc(k, all * sizeof(float)),
                           .weights = kit_alloc(k, picks * sizeof(float)),
                           .experts = kit_alloc(k, picks * sizeof(int32_t)),
                           .order = {.first = kit_alloc(k, (r->experts + 1) * sizeof(int32_t)),
                                     .picks = kit_alloc(k, picks * sizeof(int32_t)),
                                     .places = kit_alloc(k, picks * sizeof(int32_t))}};
}

static void route(const struct dt_ops *ops, const struct dt_routes *r, struct routed *to,
                  struct dt_stream *s)
{
    ops->route(r, to->probs, to->experts, to->weights, to->logits, s);
    ops->route_sort(r, &to->order, to->experts, s);
}

TEST(the_largest_are_picked_and_of_equals_the_first)
{
    static const struct {
        float logits[5];
        int32_t picks[3];
    } rows[] = {
        {{1, 5, 3, 4, 2}, {1, 3, 2}},
        {{0, 0, 0, 0, 0}, {0, 1, 2}},
        {{2, 7, 2, 7, 2}, {1, 3, 0}},
        {{-1, -1, 9, -1, -1}, {2, 0, 1}},
        {{NAN, NAN, NAN, NAN, NAN}, {0, 1, 2}},
        {{0, 0, INFINITY, 0, 0},
         {0, 1, 2}}, /* what is not finite makes NaN of all, and stays inside */
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        for (size_t to_one = 0; to_one < 2; to_one++) {
            struct dt_routes r = {.rows = 1, .experts = 5, .picks = 3, .to_one = to_one};
            float probs[5], weights[3];
            int32_t experts[3];
            ref->route(&r, probs, experts, weights, rows[i].logits, NULL);
            CHECK_ROW("row %zu, to one %zu", i, to_one);
            for (size_t j = 0; j < 3; j++)
                CHECK_EQ(experts[j], rows[i].picks[j]);
            if (!isfinite(probs[0]))
                continue;
            double sum = (double)weights[0] + (double)weights[1] + (double)weights[2];
            CHECK(to_one ? fabs(sum - 1) < 1e-6 : sum < 1);
            CHECK(to_one || weights[1] == probs[experts[1]]);
        }
    }
}

TEST(rows_are_ordered_by_expert_and_for_one_expert_as_they_came)
{
    static const int32_t experts[] = {3, 0, 0, 3, 5, 3, 0, 5};
    static const int32_t first[] = {0, 3, 3, 3, 6, 6, 8}; /* three of the experts have no row */
    static const int32_t picks[] = {1, 2, 6, 0, 3, 5, 4, 7};
    const struct dt_routes r = {.rows = 4, .experts = 6, .picks = 2};
    int32_t begins[7], found[8], places[8];
    const struct dt_route_order order = {begins, found, places};
    ref->route_sort(&r, &order, experts, NULL);
    CHECK_BYTES(begins, sizeof begins, first, sizeof first);
    CHECK_BYTES(found, sizeof found, picks, sizeof picks);
    for (size_t i = 0; i < 8; i++)
        CHECK_EQ(found[places[i]], i);
    const struct dt_routes one = {.rows = 8, .experts = 1, .picks = 1};
    const int32_t zeros[8] = {0};
    ref->route_sort(&one, &order, zeros, NULL);
    CHECK_EQ(begins[0], 0);
    CHECK_EQ(begins[1], 8);
    CHECK_EQ(found[7], 7);
}

/* The sum that DWEIGHTS, DPROBS and the z loss are the slopes of. */
static double sum_of(const struct dt_routes *r, struct routed *of, const float *dweights,
                     const float *dprobs)
{
    double sum = 0;
    ref->route(r, of->probs, of->experts, of->weights, of->logits, NULL);
    for (size_t i = 0; i < r->rows * r->picks; i++)
        sum += (double)dweights[i] * (double)of->weights[i];
    for (size_t i = 0; i < r->rows * r->experts; i++)
        sum += (double)dprobs[i % r->experts] * (double)of->probs[i];
    for (size_t n = 0; n < r->rows; n++)
        sum += (double)r->z_slope / 2 * (double)r->logsums[n] * (double)r->logsums[n];
    return sum;
}

TEST(gradients_of_a_router_are_its_slopes)
{
    static const size_t shapes[][3] = {{1, 2, 1}, {3, 5, 2}, {2, 7, 7}, {4, 9, 3}};
    for (size_t i = 0; i < 2 * ROWS(shapes); i++) {
        const size_t *shape = shapes[i / 2];
        struct kit k = {.state = i + 1};
        float logsums[4];
        struct dt_routes r = {shape[0], shape[1], shape[2], i % 2, logsums, i % 3 ? 0.4f : 0};
        struct routed is = room(&k, &r);
        float *dweights = kit_numbers(&k, r.rows * r.picks), *dprobs = kit_numbers(&k, r.experts);
        float *dlogits = kit_alloc(&k, r.rows * r.experts * sizeof *dlogits);
        /* Further apart than a step, so that no step changes what is picked. */
        for (size_t n = 0; n < r.rows * r.experts; n++)
            is.logits[n] = 0.3f * (float)((n + 3 * (n / r.experts)) % r.experts);
        sum_of(&r, &is, dweights, dprobs);
        ref->route_backward(&r, dlogits, is.probs, is.experts, dweights, dprobs, NULL);
        for (size_t n = 0; n < r.rows * r.experts; n++) {
            const float was = is.logits[n], step = 1e-3f;
            is.logits[n] = was + step;
            double there = sum_of(&r, &is, dweights, dprobs);
            is.logits[n] = was - step;
            double slope = (there - sum_of(&r, &is, dweights, dprobs)) / (2 * (double)step);
            is.logits[n] = was;
            CHECK_ROW("%zu rows, %zu of %zu, to one %d: logit %zu has the slope %g, backward %g",
                      r.rows, r.picks, r.experts, r.to_one, n, slope, (double)dlogits[n]);
            CHECK(fabs(slope - (double)dlogits[n]) < 1e-3);
        }
        kit_free(&k);
    }
}

/* What goes to experts that do nothing comes back as the row, so often as it was picked. */
TEST(rows_come_back_from_experts)
{
    struct kit k = {.state = 4};
    const struct dt_routes r = {.rows = 7, .experts = 5, .picks = 2};
    enum { WIDTH = 3 };
    struct routed is = room(&k, &r);
    float *x = kit_numbers(&k, 7 * WIDTH), *there = kit_alloc(&k, 14 * WIDTH * sizeof *there);
    float *back = kit_copy(&k, 7 * WIDTH, x);
    route(ref, &r, &is, NULL);
    ref->route_spread(&r, &is.order, WIDTH, there, x, NULL);
    for (size_t i = 0; i < 14; i++)
        CHECK_BYTES(there + i * WIDTH, sizeof(float[WIDTH]), x + is.order.picks[i] / 2 * WIDTH,
                    sizeof(float[WIDTH]));
    ref->route_collect(&r, &is.order, WIDTH, back, true, there, NULL);
    for (size_t i = 0; i < 7 * WIDTH; i++)
        CHECK(fabsf(back[i] - 3 * x[i]) < 1e-6f * fabsf(x[i]) + 1e-30f);
    ref->route_collect(&r, &is.order, WIDTH, back, false, there, NULL);
    for (size_t i = 0; i < 7 * WIDTH; i++)
        CHECK(back[i] == 2 * x[i]);
    kit_free(&k);
}

/* Equal picks of all experts lean on none of them more than on another; a full expert is leant on
 * alone. */
TEST(the_auxiliary_loss_leans_on_experts_by_their_picks)
{
    const struct dt_shape s = {.layers = 2, .experts = 3};
    static const int32_t counts[] = {4, 0, 2, 1, 0, 5};
    float slopes[3];
    dt_experts_balance(&s, 6, counts, 0.5, slopes);
    /* 0.5 * 3 experts * picks / (12 rows)^2 */
    CHECK(fabsf(slopes[0] - 0.5f * 3 * 5 / 144) < 1e-7f);
    CHECK(slopes[1] == 0);
    CHECK(fabsf(slopes[2] - 0.5f * 3 * 7 / 144) < 1e-7f);
}

static void compare_routes(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                           const struct dt_routes *r, size_t width)
{
    struct dt_routes mine = *r, plain = *r;
    mine.logsums = kit_alloc(k, r->rows * sizeof *mine.logsums);
    plain.logsums = kit_alloc(k, r->rows * sizeof *plain.logsums);
    size_t all = r->rows * r->experts, picks = r->rows * r->picks, n = r->rows * width;
    struct routed is = room(k, r), want = room(k, r);
    memcpy(want.logits, is.logits, all * sizeof *want.logits);
    route(ops, &mine, &is, s);
    route(ref, &plain, &want, NULL);
    kit_near("logsums", r->rows, mine.logsums, plain.logsums, 1e-6);
    CHECK_BYTES(is.experts, picks * sizeof(int32_t), want.experts, picks * sizeof(int32_t));
    CHECK_BYTES(is.order.places, picks * sizeof(int32_t), want.order.places,
                picks * sizeof(int32_t));
    kit_near("probs", all, is.probs, want.probs, 1e-6);
    kit_near("weights", picks, is.weights, want.weights, 1e-6);
    float *dweights = kit_numbers(k, picks), *dprobs = kit_numbers(k, r->experts);
    float *a = kit_alloc(k, all * sizeof *a), *b = kit_alloc(k, all * sizeof *b);
    for (int with = 0; with < 2; with++) {
        mine.z_slope = plain.z_slope = with ? 0.7f : 0;
        ops->route_backward(&mine, a, is.probs, is.experts, dweights, with ? dprobs : NULL, s);
        ref->route_backward(&plain, b, is.probs, is.experts, dweights, with ? dprobs : NULL, NULL);
        kit_near("dlogits", all, a, b, 1e-6);
    }
    float *x = kit_numbers(k, n), *out = kit_copy(k, n, x), *out2 = kit_copy(k, n, x);
    float *there = kit_alloc(k, picks * width * sizeof *there);
    float *there2 = kit_alloc(k, picks * width * sizeof *there2);
    ops->route_spread(r, &is.order, width, there, x, s);
    ref->route_spread(r, &is.order, width, there2, x, NULL);
    CHECK_BYTES(there, picks * width * sizeof *there, there2, picks * width * sizeof *there);
    for (int add = 0; add < 2; add++) {
        ops->route_collect(r, &is.order, width, out, add, there, s);
        ref->route_collect(r, &is.order, width, out2, add, there, NULL);
        CHECK_BYTES(out, n * sizeof *out, out2, n * sizeof *out);
    }
}

static void compare_weighing(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                             size_t rows, size_t width, bool ordered)
{
    size_t n = rows * width;
    float *weights = kit_numbers(k, rows), *x = kit_numbers(k, n), *x2 = kit_copy(k, n, x);
    float *dout = kit_numbers(k, n), *dout2 = kit_copy(k, n, dout);
    float *dw = kit_alloc(k, rows * sizeof *dw), *dw2 = kit_alloc(k, rows * sizeof *dw);
    int32_t *of = ordered ? kit_alloc(k, rows * sizeof *of) : NULL;
    for (size_t i = 0; ordered && i < rows; i++)
        of[i] = (int32_t)(rows - 1 - i);
    ops->weigh_forward(rows, width, x, weights, of, s);
    ref->weigh_forward(rows, width, x2, weights, of, NULL);
    CHECK_BYTES(x, n * sizeof *x, x2, n * sizeof *x);
    ops->weigh_backward(rows, width, x, dout, dw, weights, of, s);
    ref->weigh_backward(rows, width, x2, dout2, dw2, weights, of, NULL);
    kit_near("dweights", rows, dw, dw2, 1e-5);
    CHECK_BYTES(x, n * sizeof *x, x2, n * sizeof *x);
    CHECK_BYTES(dout, n * sizeof *dout, dout2, n * sizeof *dout);
    ops->sigmoid_forward(rows, dw, weights, s);
    ref->sigmoid_forward(rows, dw2, weights, NULL);
    kit_near("sigmoid", rows, dw, dw2, 1e-6);
    ops->sigmoid_backward(rows, x, dw2, weights, s);
    ref->sigmoid_backward(rows, x2, dw2, weights, NULL);
    kit_near("dsigmoid", rows, x, x2, 1e-6);
}

TEST(fast_ops_do_the_same)
{
    static const char *const names[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
    static const size_t shapes[][4] = {
        {1, 1, 1, 1}, {5, 3, 2, 7}, {33, 8, 2, 65}, {130, 60, 4, 17}, {17, 128, 8, 130}};
    for (int level = 0; level <= (int)dt_cpu_level(); level++) {
        struct kit k = {.state = 7};
        setenv("DTRUN_CPU_ISA", names[level], 1);
        struct dt_device *d = dt_device_open_cpu(3, NULL);
        CHECK(d != NULL);
        for (size_t i = 0; i < 2 * ROWS(shapes); i++) {
            const size_t *shape = shapes[i / 2];
            const struct dt_routes r = {shape[0], shape[1], shape[2], i % 2, NULL, 0};
            CHECK_ROW("%s: %zu rows, %zu of %zu, width %zu", names[level], r.rows, r.picks,
                      r.experts, shape[3]);
            compare_routes(d->ops, d->stream, &k, &r, shape[3]);
            compare_weighing(d->ops, d->stream, &k, r.rows, shape[3], i % 2);
        }
        kit_free(&k);
        dt_device_close(d);
    }
    unsetenv("DTRUN_CPU_ISA");
}
