/* SPDX-License-Identifier: Apache-2.0 */
/* DoRA's magnitudes on a GPU beside the plain loops: norms of both layouts of weights, for ranks
 * within and beyond a tile; and columns among others that nobody may touch. */
#include "tests/gpu/gpu_kit.h"

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

static const struct lengths {
    size_t in, out, r;
} layers[] = {{1, 1, 1}, {5, 33, 3}, {64, 16, 16}, {131, 50, 17}, {200, 7, 40}};

/* The first output is made of nothing. */
static void norms_of(struct gpu_kit *g, const struct lengths *z, enum dt_weight_layout layout)
{
    size_t in = z->in, out = z->out, r = z->r;
    float *weight = gpu_numbers(g, in * out), *a = gpu_numbers(g, r * in);
    float *b = gpu_numbers(g, out * r), *wanted = kit_alloc(&g->k, out * sizeof *wanted);
    struct dt_linear l = {.in = in, .out = out, .layout = layout, .weight = weight};
    for (size_t i = 0; i < in; i++)
        weight[layout == DT_WEIGHT_IN_OUT ? i * out : i] = 0;
    memset(b, 0, r * sizeof *b);
    ref->magnitude_norms(&l, r, 0.7f, a, b, wanted, NULL);
    const void *a_there = gpu_up(g, r * in, a), *b_there = gpu_up(g, out * r, b);
    float *rnorms = gpu_up_float(g, out, NULL);
    l.weight = gpu_up(g, in * out, weight);
    g->ops->magnitude_norms(&l, r, 0.7f, a_there, b_there, rnorms, g->s);
    CHECK_ROW("[%zu, %zu] of rank %zu, layout %d", in, out, r, layout);
    CHECK(gpu_down_float(g, out, rnorms)[0] == 0);
    gpu_near_float(g, "1 / norm", out, rnorms, wanted, 2e-6); /* floats, whatever an element is */
    gpu_free(g);
}

static void norms(struct gpu_kit *g)
{
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
        norms_of(g, &layers[i], DT_WEIGHT_IN_OUT);
        norms_of(g, &layers[i], DT_WEIGHT_OUT_IN);
    }
}

TEST(norms_are_of_the_weights_and_the_adapter_together)
{
    gpu_each(norms);
}

static const struct shape {
    size_t rows, width, beside; /* columns before; after them there are two more, or none */
    size_t shift;
} shapes[] = {{1, 1, 1, 0}, {7, 33, 5, 0}, {70, 64, 64, 0}, {70, 64, 64, 1}, {300, 24, 8, 0}};

/* A group of columns on both sides, and what is in it. */
struct columns {
    size_t all, stride, at;
    struct dt_magnitude host, device;
};

static struct columns columns_new(struct gpu_kit *g, const struct shape *s, bool biased)
{
    size_t w = s->width, stride = w + 2 * s->beside + (w % 8 ? 2 : 0);
    float *magnitudes = gpu_numbers(g, w), *rnorms = kit_numbers(&g->k, w);
    float *bias = gpu_numbers(g, w);
    rnorms[w / 2] = 0;
    struct columns c = {.all = s->rows * stride, .stride = stride, .at = s->beside};
    c.host = (struct dt_magnitude){s->rows, w, stride, magnitudes, biased ? bias : NULL, rnorms};
    c.device = c.host;
    c.device.magnitudes = gpu_up(g, w, magnitudes);
    c.device.bias = biased ? gpu_up(g, w, bias) : NULL;
    c.device.rnorms = gpu_up_float(g, w, rnorms);
    return c;
}

static void *from_column(const struct gpu_kit *g, const struct columns *c, const void *x)
{
    return (char *)x + c->at * gpu_size(g);
}

/* BASE given, or to be found in what there is. */
static void forward(struct gpu_kit *g, const struct columns *c, bool dropped)
{
    float *out = gpu_numbers(g, c->all), *base = gpu_numbers(g, c->all);
    float *sum = gpu_numbers(g, c->all);
    void *out_there = gpu_up(g, c->all, out), *base_there = gpu_up(g, c->all, base);
    void *sum_there = gpu_up(g, c->all, sum);
    g->ops->magnitude_forward(&c->device, from_column(g, c, out_there),
                              dropped ? from_column(g, c, base_there) : NULL,
                              from_column(g, c, sum_there), g->s);
    ref->magnitude_forward(&c->host, out + c->at, dropped ? base + c->at : NULL, sum + c->at, NULL);
    gpu_near(g, "out", c->all, out_there, out, 1e-6);
}

/* Gradients take the places of what they are of, or, with the last, places of their own. */
static void backward(struct gpu_kit *g, const struct columns *c, bool dropped, bool apart)
{
    size_t n = c->all, w = c->host.width;
    float *base = gpu_numbers(g, n), *sum = gpu_numbers(g, n), *dout = gpu_numbers(g, n);
    float *dm = gpu_numbers(g, w), *dsum = kit_copy(&g->k, n, sum);
    float *dbase = kit_copy(&g->k, n, base);
    void *base_there = gpu_up(g, n, base), *sum_there = gpu_up(g, n, sum);
    void *dout_there = gpu_up(g, n, dout), *dm_there = gpu_up(g, w, dm);
    void *dsum_there = apart ? gpu_up(g, n, sum) : sum_there;
    void *dbase_there = apart ? gpu_up(g, n, base) : base_there;
    g->ops->magnitude_backward(&c->device, from_column(g, c, dsum_there),
                               dropped ? from_column(g, c, dbase_there) : NULL, dm_there,
                               from_column(g, c, base_there), from_column(g, c, sum_there),
                               from_column(g, c, dout_there), g->s);
    ref->magnitude_backward(&c->host, dsum + c->at, dropped ? dbase + c->at : NULL, dm,
                            base + c->at, sum + c->at, dout + c->at, NULL);
    gpu_near(g, "dsum", n, dsum_there, dsum, 1e-6);
    gpu_near(g, "dbase", n, dbase_there, dbase, 1e-6);
    gpu_near(g, "dmagnitudes", w, dm_there, dm, 4e-6);
}

static void each_shape(struct gpu_kit *g)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int dropped = 0; dropped < 2; dropped++) {
            g->shift = shapes[i].shift;
            CHECK_ROW("%zu rows of %zu beside %zu, %zu from alignment%s", shapes[i].rows,
                      shapes[i].width, shapes[i].beside, shapes[i].shift,
                      dropped ? ", dropped from" : "");
            const struct columns c = columns_new(g, &shapes[i], i % 2 == 0);
            forward(g, &c, dropped);
            backward(g, &c, dropped, i % 2);
            gpu_free(g);
        }
    }
}

TEST(magnitudes_multiply_their_columns_alone)
{
    gpu_each(each_shape);
}
