/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers of a GPU beside the plain loops: both layouts of the weight, with and without bias
 * and GELU, widths that cuBLASLt's fused GELU takes and widths that it does not. */
#include "tests/gpu/gpu_kit.h"

BEFORE_ALL
{
    gpu_plugin_or_skip();
}

static const struct shape {
    size_t rows, in, out;
} shapes[] = {
    {1, 1, 1}, {1, 16, 8}, {3, 5, 7}, {17, 33, 24}, {64, 16, 41}, {33, 8, 64}, {130, 72, 96},
};

/* A layer's weight and bias, on both sides. */
struct layer {
    struct dt_linear host, device;
};

static struct layer layer_new(struct gpu_kit *g, const struct shape *s, enum dt_weight_layout w,
                              bool bias)
{
    struct layer l = {.host = {s->rows, s->in, s->out, 0, w, NULL, NULL}};
    l.device = l.host;
    l.host.weight = gpu_numbers(g, s->in * s->out);
    l.device.weight = gpu_up(g, s->in * s->out, l.host.weight);
    if (bias) {
        l.host.bias = gpu_numbers(g, s->out);
        l.device.bias = gpu_up(g, s->out, l.host.bias);
    }
    return l;
}

static void forward(struct gpu_kit *g, const struct shape *s, const struct layer *l)
{
    size_t n = s->rows * s->out;
    const float *x = gpu_numbers(g, s->rows * s->in);
    const void *dx = gpu_up(g, s->rows * s->in, x);
    float *out = kit_alloc(&g->k, n * sizeof *out), *pre = kit_alloc(&g->k, n * sizeof *pre);
    void *dout = gpu_up(g, n, NULL), *dpre = gpu_up(g, n, NULL), *alone = gpu_up(g, n, NULL);

    g->ops->linear_forward(&l->device, dout, dx, g->s);
    ref->linear_forward(&l->host, out, x, NULL);
    /* Where the bias or GELU are kernels of their own, what they are given was rounded before. */
    double twice = g->elem == DT_BF16 ? 0x1p-8 : 2e-6;
    gpu_near(g, "out", n, dout, out, twice);

    g->ops->linear_gelu_forward(&l->device, dout, dpre, dx, g->s);
    g->ops->linear_gelu_forward(&l->device, alone, NULL, dx, g->s);
    ref->linear_gelu_forward(&l->host, out, pre, x, NULL);
    gpu_near(g, "pre", n, dpre, pre, twice);
    gpu_near(g, "gelu", n, dout, out, twice);
    gpu_near(g, "gelu without pre", n, alone, out, twice);
}

/* dx is assigned over NaNs, or added to what is there; the other two are always added to. Where it
 * adds, cuBLASLt may round a product to bfloat16 before: on an H100 one dx was off by as much. */
static void backward(struct gpu_kit *g, const struct shape *s, const struct layer *l, bool add)
{
    size_t in = s->rows * s->in, out = s->rows * s->out, w = s->in * s->out;
    const float *x = gpu_numbers(g, in), *dout = gpu_numbers(g, out);
    float *dx = gpu_numbers(g, in), *dw = gpu_numbers(g, w), *db = gpu_numbers(g, s->out);
    const void *x_there = gpu_up(g, in, x), *dout_there = gpu_up(g, out, dout);
    void *dx_there = gpu_up(g, in, add ? dx : NULL), *dw_there = gpu_up(g, w, dw);
    void *db_there = gpu_up(g, s->out, db);

    g->ops->linear_backward(&l->device, dx_there, add, dw_there, db_there, x_there, dout_there,
                            g->s);
    ref->linear_backward(&l->host, dx, add, dw, db, x, dout, NULL);
    double twice = g->elem == DT_BF16 ? 0x1p-8 : 2e-6;
    gpu_near(g, "dx", in, dx_there, dx, add ? twice : 2e-6);
    gpu_near(g, "dweight", w, dw_there, dw, 2e-6);
    gpu_near(g, "dbias", s->out, db_there, db, 2e-6);
}

/* Back through the GELU in front, too. Where that is a kernel of its own, what it is given was
 * rounded before. */
static void gelu_backward(struct gpu_kit *g, const struct shape *s, const struct layer *l)
{
    size_t in = s->rows * s->in, out = s->rows * s->out, w = s->in * s->out;
    const float *x = gpu_numbers(g, in), *pre = gpu_numbers(g, in), *dout = gpu_numbers(g, out);
    float *dpre = kit_alloc(&g->k, in * sizeof *dpre), *dw = gpu_numbers(g, w);
    float *db = gpu_numbers(g, s->out);
    const void *x_there = gpu_up(g, in, x), *pre_there = gpu_up(g, in, pre);
    const void *dout_there = gpu_up(g, out, dout);
    void *dpre_there = gpu_up(g, in, NULL), *alone = gpu_up(g, in, NULL);
    void *dw_there = gpu_up(g, w, dw), *db_there = gpu_up(g, s->out, db);

    g->ops->linear_gelu_backward(&l->device, dpre_there, dw_there, db_there, x_there, pre_there,
                                 dout_there, g->s);
    g->ops->linear_gelu_backward(&l->device, alone, NULL, NULL, NULL, pre_there, dout_there, g->s);
    ref->linear_gelu_backward(&l->host, dpre, dw, db, x, pre, dout, NULL);
    gpu_near(g, "dpre", in, dpre_there, dpre, g->elem == DT_BF16 ? 0x1p-8 : 2e-6);
    gpu_near(g, "dpre alone", in, alone, gpu_down(g, in, dpre_there), 0);
    gpu_near(g, "dweight behind a GELU", w, dw_there, dw, 2e-6);
    gpu_near(g, "dbias behind a GELU", s->out, db_there, db, 2e-6);
}

/* Each gradient without the others, as two steps of a schedule ask for them: the same bits. */
static void backward_apart(struct gpu_kit *g, const struct shape *s, const struct layer *l)
{
    size_t in = s->rows * s->in, w = s->in * s->out;
    const float *dw = gpu_numbers(g, w), *db = gpu_numbers(g, s->out);
    const void *x = gpu_up(g, in, gpu_numbers(g, in));
    const void *dout = gpu_up(g, s->rows * s->out, gpu_numbers(g, s->rows * s->out));
    void *dx_there[2], *dw_there[2], *db_there[2];
    for (int i = 0; i < 2; i++) {
        dx_there[i] = gpu_up(g, in, NULL);
        dw_there[i] = gpu_up(g, w, dw);
        db_there[i] = gpu_up(g, s->out, db);
    }
    g->ops->linear_backward(&l->device, dx_there[0], false, dw_there[0], db_there[0], x, dout,
                            g->s);
    g->ops->linear_backward(&l->device, dx_there[1], false, NULL, NULL, NULL, dout, g->s);
    g->ops->linear_backward(&l->device, NULL, false, dw_there[1], db_there[1], x, dout, g->s);
    gpu_near(g, "dx alone", in, dx_there[1], gpu_down(g, in, dx_there[0]), 0);
    gpu_near(g, "dweight without dx", w, dw_there[1], gpu_down(g, w, dw_there[0]), 0);
    gpu_near(g, "dbias without dx", s->out, db_there[1], gpu_down(g, s->out, db_there[0]), 0);
}

static void each_shape(struct gpu_kit *g)
{
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int w = DT_WEIGHT_IN_OUT; w <= DT_WEIGHT_OUT_IN; w++) {
            for (int bias = 0; bias < 2; bias++) {
                const struct shape *s = &shapes[i];
                CHECK_ROW("%zu rows, %zu to %zu, %s, %s bias", s->rows, s->in, s->out,
                          w == DT_WEIGHT_IN_OUT ? "[in,out]" : "[out,in]", bias ? "with" : "no");
                struct layer l = layer_new(g, s, (enum dt_weight_layout)w, bias);
                forward(g, s, &l);
                backward(g, s, &l, bias);
                backward_apart(g, s, &l);
                gelu_backward(g, s, &l);
                gpu_free(g);
            }
        }
    }
}

TEST(layers_of_both_layouts_are_those_of_the_plain_loops)
{
    gpu_each(each_shape);
}

/* A real cuBLASLt decides that by itself. */
TEST(what_cublaslt_does_not_do_with_a_product_is_done_behind_it)
{
    setenv("DT_EMULATOR_PLAIN_PRODUCTS", "1", 1);
    gpu_each(each_shape);
    setenv("DT_EMULATOR_PLAIN_PRODUCTS", "invalid", 1);
    gpu_each(each_shape);
    unsetenv("DT_EMULATOR_PLAIN_PRODUCTS");
}

/* Rows of out STRIDE apart, beside the plain loops over packed ones. NaNs between the rows stay,
 * and come into no gradient. */
static void spread(struct gpu_kit *g, const struct shape *s, struct layer *l, size_t stride)
{
    size_t in = s->rows * s->in, out = s->rows * s->out, w = s->in * s->out;
    size_t apart = kit_spread_size(s->rows, s->out, stride);
    const float *x = gpu_numbers(g, in), *dout = gpu_numbers(g, out);
    float *dx = kit_alloc(&g->k, in * sizeof *dx), *dw = gpu_numbers(g, w);
    float *db = gpu_numbers(g, s->out), *want = kit_alloc(&g->k, out * sizeof *want);
    const void *x_there = gpu_up(g, in, x);
    void *there = gpu_up(g, apart, kit_spread(&g->k, s->rows, s->out, stride, dout));
    void *dx_there = gpu_up(g, in, NULL), *dw_there = gpu_up(g, w, dw);
    void *db_there = gpu_up(g, s->out, db);

    l->device.out_stride = stride;
    g->ops->linear_backward(&l->device, dx_there, false, dw_there, db_there, x_there, there, g->s);
    ref->linear_backward(&l->host, dx, false, dw, db, x, dout, NULL);
    gpu_near(g, "dx", in, dx_there, dx, 2e-6);
    gpu_near(g, "dweight", w, dw_there, dw, 2e-6);
    gpu_near(g, "dbias", s->out, db_there, db, 2e-6);

    g->ops->linear_forward(&l->device, there, x_there, g->s);
    ref->linear_forward(&l->host, want, x, NULL);
    const float *is = kit_gather(&g->k, s->rows, s->out, stride, gpu_down(g, apart, there));
    /* As above: the bias may be added to what was rounded before. */
    kit_near("out", out, is, want, gpu_error(g, g->elem == DT_BF16 ? 0x1p-8 : 2e-6));
}

/* Each stride on the same device, so that a plan for another one would be found. */
static void each_stride(struct gpu_kit *g)
{
    static const struct shape s[] = {{1, 3, 1},   {17, 33, 24},  {9, 16, 41},
                                     {33, 8, 50}, {130, 5, 261}, {40, 16, 261}};
    for (size_t i = 0; i < sizeof s / sizeof s[0] * 4; i++) {
        const struct shape *shape = &s[i / 4];
        size_t out = shape->out, up = (out + 7) / 8 * 8;
        const size_t strides[] = {up, out, out + 1, up + 8, up + 3, up};
        bool bias = i % 2;
        struct layer l = layer_new(g, shape, i & 2 ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN, bias);
        for (size_t k = 0; k < sizeof strides / sizeof strides[0]; k++) {
            CHECK_ROW("%zu rows, %zu to %zu of %zu, layout %d, %s bias", shape->rows, shape->in,
                      out, strides[k], l.host.layout, bias ? "with" : "no");
            spread(g, shape, &l, strides[k]);
        }
        gpu_free(g);
    }
}

TEST(rows_of_out_may_lie_apart)
{
    gpu_each(each_stride);
    setenv("DT_EMULATOR_PLAIN_PRODUCTS", "1", 1);
    gpu_each(each_stride);
    unsetenv("DT_EMULATOR_PLAIN_PRODUCTS");
}

/* A head of more words than tensor cores are fed at once, as that of GPT-2 is: 8 * 33 + 1. */
static void a_word_too_many(struct gpu_kit *g)
{
    static const struct shape s = {40, 16, 265};
    for (int bias = 0; bias < 2; bias++) {
        CHECK_ROW("%s bias", bias ? "with" : "no");
        struct layer l = layer_new(g, &s, DT_WEIGHT_OUT_IN, bias);
        spread(g, &s, &l, 272);
        gpu_free(g);
    }
}

/* A real cuBLASLt is slow with these. */
TEST(wide_layers_become_products_of_whole_extents)
{
    setenv("DT_EMULATOR_WHOLE_PRODUCTS", "1", 1);
    gpu_each(a_word_too_many);
    unsetenv("DT_EMULATOR_WHOLE_PRODUCTS");
}

/* Arrays of a block's parts begin where they begin. */
static void at_odd_addresses(struct gpu_kit *g)
{
    static const struct shape s = {9, 24, 16};
    for (g->shift = 1; g->shift < 9; g->shift *= 2) {
        CHECK_ROW("%zu elements behind an aligned address", g->shift);
        struct layer l = layer_new(g, &s, DT_WEIGHT_IN_OUT, true);
        forward(g, &s, &l);
        backward(g, &s, &l, true);
        gelu_backward(g, &s, &l);
        gpu_free(g);
    }
}

TEST(arrays_may_begin_at_any_element)
{
    gpu_each(at_odd_addresses);
}

/* An algorithm that was found for aligned arrays must not be used where one of them is not. */
static void one_at_an_odd_address(struct gpu_kit *g)
{
    enum { ROWS = 9, IN = 24, OUT = 16, ALIGNED = 4 };
    const float *x = gpu_numbers(g, ROWS * IN), *weight = gpu_numbers(g, IN * OUT);
    float *out = kit_alloc(&g->k, ROWS * OUT * sizeof *out);
    struct dt_linear l = {ROWS, IN, OUT, 0, DT_WEIGHT_OUT_IN, weight, weight};
    ref->linear_forward(&l, out, x, NULL);
    for (int odd = ALIGNED; odd >= 0; odd--) {
        CHECK_ROW("array %d", odd);
        g->shift = odd == 0;
        const void *x_there = gpu_up(g, ROWS * IN, x);
        g->shift = odd == 1;
        l.weight = gpu_up(g, IN * OUT, weight);
        g->shift = odd == 2;
        l.bias = gpu_up(g, OUT, weight);
        g->shift = odd == 3;
        void *out_there = gpu_up(g, ROWS * OUT, NULL);
        g->ops->linear_forward(&l, out_there, x_there, g->s);
        gpu_near(g, "out", ROWS * OUT, out_there, out, 2e-6);
    }
}

TEST(each_array_may_begin_elsewhere)
{
    gpu_each(one_at_an_odd_address);
}

static void without_some(struct gpu_kit *g)
{
    static const struct shape s = {5, 8, 24};
    struct layer l = layer_new(g, &s, DT_WEIGHT_OUT_IN, false);
    const float *x = gpu_numbers(g, 5 * 8), *dout = gpu_numbers(g, 5 * 24);
    float *dw = gpu_numbers(g, 8 * 24);
    const void *x_there = gpu_up(g, 5 * 8, x), *dout_there = gpu_up(g, 5 * 24, dout);
    void *dw_there = gpu_up(g, 8 * 24, dw);

    g->ops->linear_backward(&l.device, NULL, false, dw_there, NULL, x_there, dout_there, g->s);
    ref->linear_backward(&l.host, NULL, false, dw, NULL, x, dout, NULL);
    gpu_near(g, "dweight", 8 * 24, dw_there, dw, 2e-6);

    l.device.rows = 0;
    void *out = gpu_up(g, 24, x);
    g->ops->linear_forward(&l.device, out, x_there, g->s);
    g->ops->linear_gelu_forward(&l.device, out, NULL, x_there, g->s);
    g->ops->linear_backward(&l.device, out, false, dw_there, NULL, x_there, dout_there, g->s);
    g->ops->linear_gelu_backward(&l.device, out, dw_there, NULL, x_there, x_there, dout_there,
                                 g->s);
    gpu_near(g, "dweight after no rows", 8 * 24, dw_there, dw, 2e-6);
    gpu_near(g, "out of no rows", 24, out, x, 0);
}

TEST(gradients_that_are_not_wanted_are_left_out_and_no_rows_do_nothing)
{
    gpu_each(without_some);
}

/* More rows than a block sums, more columns than a block is wide, in both of its widths. */
static void tall_sums(struct gpu_kit *g)
{
    static const struct shape tall[] = {{1, 1, 300}, {7, 1, 520}, {500, 1, 33}, {777, 1, 264}};
    for (size_t i = 0; i < sizeof tall / sizeof tall[0]; i++) {
        CHECK_ROW("%zu rows of %zu", tall[i].rows, tall[i].out);
        struct layer l = layer_new(g, &tall[i], DT_WEIGHT_IN_OUT, true);
        backward(g, &tall[i], &l, false);
        gpu_free(g);
    }
}

TEST(gradients_of_a_bias_are_sums_over_all_rows)
{
    gpu_each(tall_sums);
}

static void *gradients_of(struct gpu_kit *g, const struct layer *l, const void *x, const void *dout)
{
    size_t w = l->host.in * l->host.out;
    float *zeros = kit_alloc(&g->k, (w + l->host.out) * sizeof *zeros);
    char *to = gpu_up(g, w + l->host.out, zeros);
    g->ops->linear_backward(&l->device, NULL, false, to, to + w * gpu_size(g), x, dout, g->s);
    void *bits = kit_alloc(&g->k, (w + l->host.out) * gpu_size(g));
    gpu_to_host(g, bits, to, (w + l->host.out) * gpu_size(g));
    return bits;
}

static void same_bits(struct gpu_kit *g)
{
    static const struct shape s = {300, 24, 40};
    struct layer l = layer_new(g, &s, DT_WEIGHT_OUT_IN, true);
    const void *x = gpu_up(g, 300 * 24, gpu_numbers(g, 300 * 24));
    const void *dout = gpu_up(g, 300 * 40, gpu_numbers(g, 300 * 40));
    size_t bytes = (24 * 40 + 40) * gpu_size(g);
    const void *once = gradients_of(g, &l, x, dout), *again = gradients_of(g, &l, x, dout);
    CHECK_BYTES(once, bytes, again, bytes);
}

TEST(the_same_gradients_have_the_same_bits)
{
    gpu_each(same_bits);
}

/* More kinds of products than plans are kept for, then the first again. */
static void many_kinds(struct gpu_kit *g)
{
    enum { KINDS = 140, IN = 4, OUT = 8 };
    static const struct shape s = {KINDS, IN, OUT};
    struct layer l = layer_new(g, &s, DT_WEIGHT_IN_OUT, true);
    const float *x = gpu_numbers(g, KINDS * IN);
    const void *x_there = gpu_up(g, KINDS * IN, x);
    float *out = kit_alloc(&g->k, KINDS * OUT * sizeof *out);
    void *out_there = gpu_up(g, KINDS * OUT, NULL);

    ref->linear_forward(&l.host, out, x, NULL);
    for (size_t i = 0; i <= KINDS; i++) {
        CHECK_ROW("kind %zu", i);
        size_t rows = l.device.rows = i < KINDS ? KINDS - i : KINDS;
        g->ops->linear_forward(&l.device, out_there, x_there, g->s);
        if (rows == 1 || rows == KINDS)
            gpu_near(g, "out", rows * OUT, out_there, out, 2e-6);
    }
}

TEST(a_model_may_have_any_number_of_kinds_of_products)
{
    gpu_each(many_kinds);
}

/* Where any order of sums will do, tensor cores may take 10 bits of a float. */
TEST(fast_products_are_near)
{
    static const struct shape s = {33, 40, 24};
    struct gpu_kit g = {.k.state = 3, .elem = DT_F32};
    g.device = gpu_open_device(DT_F32, true);
    g.ops = g.device->ops;
    g.s = g.device->stream;
    struct layer l = layer_new(&g, &s, DT_WEIGHT_OUT_IN, true);
    const float *x = gpu_numbers(&g, 33 * 40);
    float *out = kit_alloc(&g.k, 33 * 24 * sizeof *out);
    void *there = gpu_up(&g, 33 * 24, NULL);
    g.ops->linear_forward(&l.device, there, gpu_up(&g, 33 * 40, x), g.s);
    ref->linear_forward(&l.host, out, x, NULL);
    gpu_near(&g, "out", 33 * 24, there, out, 2e-3);
    gpu_free(&g);
    dt_device_close(g.device);
}

/* There cuBLASLt may sum for a bias, too, and rounds what it has summed before that is added. */
static void fast_sums(struct gpu_kit *g, const struct shape *s, const struct layer *l)
{
    size_t in = s->rows * s->in, out = s->rows * s->out, w = s->in * s->out;
    const float *x = gpu_numbers(g, in), *dout = gpu_numbers(g, out);
    float *dw = gpu_numbers(g, w), *db = gpu_numbers(g, s->out);
    const void *x_there = gpu_up(g, in, x), *dout_there = gpu_up(g, out, dout);
    void *dw_there = gpu_up(g, w, dw), *db_there = gpu_up(g, s->out, db);
    g->ops->linear_backward(&l->device, NULL, false, dw_there, db_there, x_there, dout_there, g->s);
    g->ops->linear_backward(&l->device, NULL, false, NULL, db_there, x_there, dout_there, g->s);
    ref->linear_backward(&l->host, NULL, false, dw, db, x, dout, NULL);
    ref->linear_backward(&l->host, NULL, false, NULL, db, x, dout, NULL);
    double error = g->elem == DT_BF16 ? 0x1p-7 : 2e-3;
    kit_near("dweight", w, gpu_down(g, w, dw_there), dw, error);
    kit_near("dbias", s->out, gpu_down(g, s->out, db_there), db, error);
}

static void each_fast_sum(struct gpu_kit *g)
{
    static const struct shape s[] = {{1, 1, 1}, {33, 40, 24}, {17, 33, 41}, {300, 8, 265}};
    for (size_t i = 0; i < sizeof s / sizeof s[0] * 2; i++) {
        const struct shape *of = &s[i / 2];
        CHECK_ROW("%zu rows, %zu to %zu, layout %zu", of->rows, of->in, of->out, i % 2);
        struct layer l = layer_new(g, of, i % 2 ? DT_WEIGHT_OUT_IN : DT_WEIGHT_IN_OUT, true);
        fast_sums(g, of, &l);
        gpu_free(g);
    }
}

TEST(a_bias_may_have_its_gradient_of_the_weights_product_where_any_order_will_do)
{
    for (int type = DT_F32; type <= DT_BF16; type++) {
        struct gpu_kit g = {.k.state = 3, .elem = (enum dt_dtype)type};
        g.device = gpu_open_device(g.elem, true);
        g.ops = g.device->ops;
        g.s = g.device->stream;
        each_fast_sum(&g);
        setenv("DT_EMULATOR_PLAIN_PRODUCTS", "1", 1);
        each_fast_sum(&g);
        unsetenv("DT_EMULATOR_PLAIN_PRODUCTS");
        dt_device_close(g.device);
    }
}

static void no_width(struct gpu_kit *g)
{
    struct dt_err err = {0};
    struct dt_linear l = {3, 0, 5, 0, DT_WEIGHT_IN_OUT, gpu_up(g, 1, NULL), NULL};
    void *x = gpu_up(g, 1, NULL), *out = gpu_up(g, 3 * 5, NULL);

    g->ops->linear_forward(&l, out, x, g->s);
    CHECK_EQ(dt_device_sync(g->device, &err), -1);
    CHECK_ROW("%s", err.text);
    CHECK(strstr(err.text, "[3,0]") && strstr(err.text, "[0,5]"));
    CHECK(strstr(err.text, "CUBLAS_STATUS_"));
    g->used = 0; /* a device that has failed gives nothing back any more */
    kit_free(&g->k);
}

/* GELU goes over packed rows alone. */
static void gelu_of_rows_apart(struct gpu_kit *g)
{
    struct dt_err err = {0};
    struct dt_linear l = {3, 4, 5, 8, DT_WEIGHT_IN_OUT, gpu_up(g, 4 * 5, NULL), NULL};
    void *x = gpu_up(g, 3 * 4, NULL), *out = gpu_up(g, 3 * 8, NULL);

    g->ops->linear_gelu_forward(&l, out, NULL, x, g->s);
    CHECK_EQ(dt_device_sync(g->device, &err), -1);
    CHECK_ROW("%s", err.text);
    CHECK(strstr(err.text, "linear_gelu_forward"));
    g->used = 0;
    kit_free(&g->k);
}

TEST(gelu_of_rows_that_lie_apart_is_refused)
{
    gpu_each(gelu_of_rows_apart);
}

TEST(what_cublaslt_cannot_multiply_is_told_with_its_shape)
{
    gpu_each(no_width);
}
