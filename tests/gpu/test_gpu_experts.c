/* SPDX-License-Identifier: Apache-2.0 */
/* Experts of a GPU beside the plain loops: what a router picks, the order that rows are put in,
 * their way there and back, and weights; twice the same bits. */
#include "tests/gpu/gpu_kit.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

/* What a router makes of logits, on one side. */
struct side {
    float *probs, *weights, *logsums;
    int32_t *experts;
    struct dt_route_order order;
};

static struct side of_host(struct gpu_kit *g, const struct dt_routes *r)
{
    size_t picks = r->rows * r->picks;
    return (struct side){.probs = kit_alloc(&g->k, r->rows * r->experts * sizeof(float)),
                         .weights = kit_alloc(&g->k, picks * sizeof(float)),
                         .logsums = kit_alloc(&g->k, r->rows * sizeof(float)),
                         .experts = kit_alloc(&g->k, picks * sizeof(int32_t)),
                         .order = {.first = kit_alloc(&g->k, (r->experts + 1) * sizeof(int32_t)),
                                   .picks = kit_alloc(&g->k, picks * sizeof(int32_t)),
                                   .places = kit_alloc(&g->k, picks * sizeof(int32_t))}};
}

static struct side of_device(struct gpu_kit *g, const struct dt_routes *r)
{
    size_t picks = r->rows * r->picks;
    return (struct side){.probs = gpu_up_float(g, r->rows * r->experts, NULL),
                         .weights = gpu_up_float(g, picks, NULL),
                         .logsums = gpu_up_float(g, r->rows, NULL),
                         .experts = gpu_up_ids(g, picks, NULL),
                         .order = {.first = gpu_up_ids(g, r->experts + 1, NULL),
                                   .picks = gpu_up_ids(g, picks, NULL),
                                   .places = gpu_up_ids(g, picks, NULL)}};
}

static void same_ids(struct gpu_kit *g, const char *what, size_t n, const void *at,
                     const int32_t *wanted)
{
    const int32_t *is = gpu_down_ids(g, n, at);
    CHECK_ROW("%s, %zu numbers", what, n);
    CHECK_BYTES(is, n * sizeof *is, wanted, n * sizeof *wanted);
}

/* R as one side has it. */
static struct dt_routes on(const struct dt_routes *r, const struct side *side, float z_slope)
{
    struct dt_routes own = *r;
    own.logsums = side->logsums;
    own.z_slope = z_slope;
    return own;
}

static void route(struct gpu_kit *g, const struct dt_routes *r, const struct side *to,
                  const void *logits)
{
    const struct dt_routes own = on(r, to, 0);
    g->ops->route(&own, to->probs, to->experts, to->weights, logits, g->s);
    g->ops->route_sort(r, &to->order, to->experts, g->s);
}

/* Both sides have the picks that the plain loops make, and the device the probabilities too. */
static void same_routes(struct gpu_kit *g, const struct dt_routes *r, const float *logits,
                        struct side *host, struct side *device)
{
    size_t all = r->rows * r->experts, picks = r->rows * r->picks;
    void *there = gpu_up(g, all, logits);
    *host = of_host(g, r);
    *device = of_device(g, r);
    struct side again = of_device(g, r);
    route(g, r, device, there);
    route(g, r, &again, there);
    const struct dt_routes plain = on(r, host, 0);
    ref->route(&plain, host->probs, host->experts, host->weights, logits, NULL);
    ref->route_sort(r, &host->order, host->experts, NULL);
    same_ids(g, "experts", picks, device->experts, host->experts);
    same_ids(g, "first", r->experts + 1, device->order.first, host->order.first);
    same_ids(g, "picks", picks, device->order.picks, host->order.picks);
    same_ids(g, "places", picks, device->order.places, host->order.places);
    gpu_near_float(g, "probs", all, device->probs, host->probs, 1e-6);
    gpu_near_float(g, "weights", picks, device->weights, host->weights, 1e-6);
    gpu_near_float(g, "logsums", r->rows, device->logsums, host->logsums, 1e-6);
    CHECK_BYTES(gpu_down_float(g, all, again.probs), all * 4, gpu_down_float(g, all, device->probs),
                all * 4);
}

/* By chance, but no two logits of a row alike: a processor's exp() may tell apart what a GPU's does
 * not. */
static float *logits_of(struct gpu_kit *g, const struct dt_routes *r)
{
    float *x = kit_alloc(&g->k, r->rows * r->experts * sizeof *x);
    for (size_t n = 0; n < r->rows; n++) {
        size_t turn = kit_random(&g->k) % r->experts, by = 1 + kit_random(&g->k) % 7;
        while (r->experts % by == 0 && by > 1)
            by--;
        for (size_t e = 0; e < r->experts; e++)
            x[n * r->experts + (turn + e * by) % r->experts] =
                ((float)e - (float)r->experts / 2) / 16;
    }
    return gpu_rounded(g, r->rows * r->experts, x);
}

static void and_back(struct gpu_kit *g, const struct dt_routes *r, const struct side *host,
                     const struct side *device)
{
    size_t all = r->rows * r->experts, picks = r->rows * r->picks;
    float *dweights = kit_numbers(&g->k, picks), *dprobs = kit_numbers(&g->k, r->experts);
    float *wanted = kit_alloc(&g->k, all * sizeof *wanted);
    void *dweights_there = gpu_up_float(g, picks, dweights);
    void *dprobs_there = gpu_up_float(g, r->experts, dprobs);
    for (int with = 0; with < 2; with++) {
        const struct dt_routes there = on(r, device, with ? 0.7f : 0);
        const struct dt_routes plain = on(r, host, with ? 0.7f : 0);
        void *is[2];
        for (int i = 0; i < 2; i++) {
            is[i] = gpu_up(g, all, NULL);
            g->ops->route_backward(&there, is[i], device->probs, device->experts, dweights_there,
                                   with ? dprobs_there : NULL, g->s);
        }
        ref->route_backward(&plain, wanted, host->probs, host->experts, dweights,
                            with ? dprobs : NULL, NULL);
        gpu_near(g, "dlogits", all, is[0], wanted, 2e-6);
        CHECK_BYTES(gpu_down(g, all, is[0]), all * 4, gpu_down(g, all, is[1]), all * 4);
    }
}

static void there_and_back(struct gpu_kit *g, const struct dt_routes *r, size_t width,
                           const struct side *host, const struct side *device)
{
    size_t n = r->rows * width, all = n * r->picks;
    float *x = gpu_numbers(g, n), *there = kit_alloc(&g->k, all * sizeof *there);
    void *spread = gpu_up(g, all, NULL), *out = gpu_up(g, n, x);
    g->ops->route_spread(r, &device->order, width, spread, out, g->s);
    ref->route_spread(r, &host->order, width, there, x, NULL);
    CHECK_BYTES(gpu_down(g, all, spread), all * 4, there, all * 4);
    float *made = gpu_numbers(g, all);
    void *made_there = gpu_up(g, all, made);
    for (int add = 0; add < 2; add++) {
        g->ops->route_collect(r, &device->order, width, out, add, made_there, g->s);
        ref->route_collect(r, &host->order, width, x, add, made, NULL);
        gpu_rounded(g, n, x);
        CHECK_BYTES(gpu_down(g, n, out), n * 4, x, n * 4);
    }
}

static void each_shape(struct gpu_kit *g)
{
    static const size_t shapes[][4] = {{1, 1, 1, 1},     {5, 3, 2, 7},     {33, 8, 2, 64},
                                       {300, 8, 2, 24},  {130, 60, 4, 17}, {17, 128, 8, 136},
                                       {3, 1024, 40, 5}, {0, 6, 2, 8}};
    for (size_t i = 0; i < 2 * ROWS(shapes); i++) {
        const size_t *shape = shapes[i / 2];
        const struct dt_routes r = {shape[0], shape[1], shape[2], i % 2, NULL, 0};
        struct side host, device;
        g->shift = i / 2 % 3 == 1;
        CHECK_ROW("%zu rows, %zu of %zu, to one %d, width %zu, shift %zu", r.rows, r.picks,
                  r.experts, r.to_one, shape[3], g->shift);
        same_routes(g, &r, logits_of(g, &r), &host, &device);
        and_back(g, &r, &host, &device);
        there_and_back(g, &r, shape[3], &host, &device);
        gpu_free(g);
    }
    g->shift = 0;
}

TEST(rows_go_to_their_experts_and_back)
{
    gpu_each(each_shape);
}

static void odd_logits(struct gpu_kit *g)
{
    static const float rows[][5] = {{1, 5, 3, 4, 2},
                                    {0, 0, 0, 0, 0},
                                    {2, 7, 2, 7, 2},
                                    {-1, -1, 9, -1, -1},
                                    {-INFINITY, 1, -INFINITY, -INFINITY, -INFINITY},
                                    {NAN, NAN, NAN, NAN, NAN},
                                    {0, 0, INFINITY, 0, 0},
                                    {0, NAN, 3, 0, 0}};
    static const int32_t wanted[] = {1, 3, 2, 0, 1, 2, 1, 3, 0, 2, 0, 1,
                                     1, 0, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2};
    for (int to_one = 0; to_one < 2; to_one++) {
        const struct dt_routes r = {ROWS(rows), 5, 3, to_one, NULL, 0};
        const struct side is = of_device(g, &r);
        route(g, &r, &is, gpu_up(g, ROWS(rows) * 5, &rows[0][0]));
        same_ids(g, "experts", ROWS(wanted), is.experts, wanted);
        const float *probs = gpu_down_float(g, ROWS(rows) * 5, is.probs);
        CHECK(probs[4 * 5 + 1] == 1 && probs[1 * 5] == 0.2f);
        CHECK(isnan(probs[5 * 5]) && isnan(probs[6 * 5]) && isnan(probs[7 * 5 + 4]));
        gpu_free(g);
    }
}

TEST(of_equals_the_first_is_picked_and_what_is_no_number_stays_inside)
{
    gpu_each(odd_logits);
}

/* Parts of several tiles each, one expert with nearly all of them, and some with none. */
TEST(many_picks_are_put_in_order)
{
    struct gpu_kit g = {.k.state = 7, .elem = DT_F32};
    g.device = gpu_open_device(DT_F32, false);
    g.ops = g.device->ops;
    g.s = g.device->stream;
    const struct dt_routes r = {.rows = (1 << 19) + 77, .experts = 9, .picks = 1};
    struct side host = of_host(&g, &r), device = of_device(&g, &r);
    for (size_t i = 0; i < r.rows; i++)
        host.experts[i] = i % 1000 ? 5 : (int32_t)(kit_random(&g.k) % 8);
    g.ops->route_sort(&r, &device.order, gpu_up_ids(&g, r.rows, host.experts), g.s);
    ref->route_sort(&r, &host.order, host.experts, NULL);
    same_ids(&g, "first", r.experts + 1, device.order.first, host.order.first);
    same_ids(&g, "picks", r.rows, device.order.picks, host.order.picks);
    same_ids(&g, "places", r.rows, device.order.places, host.order.places);
    gpu_free(&g);
    dt_device_close(g.device);
}

static void one_weighing(struct gpu_kit *g, size_t rows, size_t width, bool ordered)
{
    size_t n = rows * width;
    float *weights = kit_numbers(&g->k, rows), *x = gpu_numbers(g, n), *dout = gpu_numbers(g, n);
    float *dweights = kit_alloc(&g->k, rows * sizeof *dweights);
    int32_t *of = ordered ? kit_alloc(&g->k, rows * sizeof *of) : NULL;
    for (size_t i = 0; ordered && i < rows; i++)
        of[i] = (int32_t)(rows - 1 - i);
    void *weights_there = gpu_up_float(g, rows, weights), *x_there = gpu_up(g, n, x);
    void *again = gpu_up(g, n, x), *dout_there = gpu_up(g, n, dout);
    int32_t *of_there = ordered ? gpu_up_ids(g, rows, of) : NULL;
    void *slopes = gpu_up_float(g, rows, NULL);
    g->ops->weigh_forward(rows, width, again, weights_there, of_there, g->s);
    g->ops->weigh_backward(rows, width, x_there, dout_there, slopes, weights_there, of_there, g->s);
    ref->weigh_backward(rows, width, x, dout, dweights, weights, of, NULL);
    gpu_near_float(g, "dweights", rows, slopes, dweights, 1e-5);
    CHECK_BYTES(gpu_down(g, n, x_there), n * 4, gpu_rounded(g, n, x), n * 4);
    CHECK_BYTES(gpu_down(g, n, again), n * 4, x, n * 4);
    CHECK_BYTES(gpu_down(g, n, dout_there), n * 4, gpu_rounded(g, n, dout), n * 4);
}

static void weighings(struct gpu_kit *g)
{
    static const size_t shapes[][2] = {{1, 1}, {3, 7}, {40, 64}, {5, 1032}, {2, 2049}, {0, 8}};
    for (size_t i = 0; i < 4 * ROWS(shapes); i++) {
        const size_t *shape = shapes[i / 4];
        g->shift = i % 4 / 2;
        CHECK_ROW("%zu rows of %zu, ordered %zu, shift %zu", shape[0], shape[1], i % 2, g->shift);
        one_weighing(g, shape[0], shape[1], i % 2);
        gpu_free(g);
    }
    g->shift = 0;
}

TEST(rows_are_weighed_and_weights_get_their_slopes)
{
    gpu_each(weighings);
}

static void sigmoids(struct gpu_kit *g)
{
    static const size_t sizes[] = {0, 1, 31, 300};
    for (size_t i = 0; i < ROWS(sizes); i++) {
        size_t n = sizes[i];
        float *x = gpu_numbers(g, n), *out = kit_alloc(&g->k, n * sizeof *out);
        float *dout = kit_numbers(&g->k, n), *dx = kit_alloc(&g->k, n * sizeof *dx);
        if (n > 2)
            x[1] = 200, x[2] = -200;
        void *out_there = gpu_up_float(g, n, NULL), *dx_there = gpu_up(g, n, NULL);
        g->ops->sigmoid_forward(n, out_there, gpu_up(g, n, x), g->s);
        ref->sigmoid_forward(n, out, x, NULL);
        gpu_near_float(g, "sigmoid", n, out_there, out, 1e-6);
        g->ops->sigmoid_backward(n, dx_there, out_there, gpu_up_float(g, n, dout), g->s);
        ref->sigmoid_backward(n, dx, out, dout, NULL);
        gpu_near(g, "dsigmoid", n, dx_there, dx, 1e-6);
        gpu_free(g);
    }
}

TEST(sigmoids_and_their_slopes)
{
    gpu_each(sigmoids);
}
