/* SPDX-License-Identifier: Apache-2.0 */
/* A model in the forms that devices ask for says the same, and takes the memory that it says. */
#include "tests/runtime/transformer_line.h"

TEST(a_head_in_several_chunks_is_one_head)
{
    struct dt_shape shape = shapes[0];
    struct world both, one;
    size_t count, row = 200; /* two of these are more than a chunk */
    shape.positions = row;
    open_world(&both, &shape, 2, row);
    open_world(&one, &shape, 1, row);
    double loss = train(&both, 2, 1), parts = 0;
    for (size_t i = 0; i < 2; i++) {
        memcpy(one.ids, both.ids + i * row, row * sizeof *one.ids);
        memcpy(one.targets, both.targets + i * row, row * sizeof *one.targets);
        parts += train(&one, 1, 1);
    }
    CHECK(fabs(loss - parts) < 1e-9 * loss);
    float *a = grads_of(&both, &count), *b = grads_of(&one, &count);
    check_close(a, b, count, 1e-5);
    free(a);
    free(b);
    close_world(&both);
    close_world(&one);
}

static const struct dt_device_form cpu;

static void check_counted(const struct dt_shape *s, const struct dt_transformer_options *o,
                          struct dt_device_form form)
{
    struct dt_ops ops = dt_ops_reference;
    struct counted c = {.device = {.ops = &ops,
                                   .table = &counted_table,
                                   .head_rows = form.head_rows,
                                   .head_stride = form.head_stride,
                                   .gate_grain = form.gate_grain}};
    ops.elem = form.elem;
    struct dt_transformer *t = dt_transformer_create(s, o, &c.device, NULL);
    CHECK(t != NULL);
    CHECK_EQ(c.bytes, dt_transformer_bytes(s, o, form));
    dt_transformer_destroy(t);
}

TEST(the_memory_it_says_is_the_memory_it_takes)
{
    static const struct dt_transformer_options options[] = {
        {.batch = 3, .positions = 6},
        {.batch = 1, .positions = 1},
        {.batch = 3, .positions = 5, .recompute = true},
        {.batch = 2, .positions = 6, .recompute = true, .recompute_every = 2},
        {.batch = 2, .positions = 6, .slots = 3},
        {.batch = 2, .positions = 6, .slots = 2, .recompute = true, .recompute_every = 2},
        {.batch = 2, .positions = 6, .recompute = true, .recompute_every = 9}};
    for (size_t i = 0; i < ROWS(shapes); i++) {
        for (size_t k = 0; k < ROWS(options); k++) {
            CHECK_ROW("%s, options %zu", name_of(&shapes[i]), k);
            check_counted(&shapes[i], &options[k], cpu);
            check_counted(&shapes[i], &options[k], dt_gpu_form(DT_BF16));
            check_counted(&shapes[i], &options[k], (struct dt_device_form){DT_F32, 2, 8, 1});
        }
    }
}

TEST(recomputing_takes_less_memory)
{
    struct dt_shape s = {DT_GPT2, 12,    12,    12, 768,   64,          3072,
                         1024,    50257, 1e-5f, 0,  0.02f, .tied = true};
    struct dt_transformer_options all = {.batch = 4, .positions = 1024},
                                  none = {.batch = 4, .positions = 1024, .recompute = true};
    CHECK(dt_transformer_bytes(&s, &none, cpu) < dt_transformer_bytes(&s, &all, cpu) / 3);
}

TEST(what_cannot_be_made_is_refused)
{
    struct counted c = {.device = {.ops = &dt_ops_reference, .table = &counted_table}};
    struct dt_transformer_options long_ones = {.batch = 1, .positions = 8},
                                  none = {.batch = 0, .positions = 5};
    struct dt_transformer_options huge = {.batch = SIZE_MAX / 4, .positions = 6};
    struct dt_err err = {0};
    CHECK_FAIL(dt_transformer_create(&shapes[0], &long_ones, &c.device, &err) ? 0 : -1, err,
               "1 samples of 8 positions; this model takes 1 to 7 positions");
    CHECK_FAIL(dt_transformer_create(&shapes[0], &none, &c.device, &err) ? 0 : -1, err,
               "0 samples of 5");
    CHECK_EQ(dt_transformer_bytes(&shapes[0], &huge, cpu), SIZE_MAX);
    CHECK_FAIL(dt_transformer_create(&shapes[0], &huge, &c.device, &err) ? 0 : -1, err,
               "no memory for activations");
    CHECK_EQ(c.bytes, 0);
}

TEST(the_fast_ops_agree_with_the_plain_ones)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct world plain, fast;
        struct dt_err err = {0};
        size_t count;
        open_world(&plain, &shapes[i], 2, 6);
        open_world(&fast, &shapes[i], 2, 6);
        fast.device = dt_device_open_cpu(2, &err);
        CHECK_OK(fast.device ? 0 : -1, err);
        dt_transformer_destroy(fast.t);
        fast.t = NULL;
        open_transformer(&fast, true, 2);
        double a = train(&plain, 2, 1), b = train(&fast, 2, 1);
        CHECK(fabs(a - b) < 1e-5 * a);
        float *p = grads_of(&plain, &count), *f = grads_of(&fast, &count);
        check_close(f, p, count, 1e-4);
        free(p);
        free(f);
        dt_transformer_destroy(fast.t);
        fast.t = NULL;
        dt_device_close(fast.device);
        fast.device = NULL;
        close_world(&fast);
        close_world(&plain);
    }
}

/* As a GPU asks for it: no vocabulary here is a multiple of 8. */
TEST(rows_of_logits_may_be_padded)
{
    for (size_t i = 0; i < ROWS(shapes); i++) {
        CHECK_ROW("%s", name_of(&shapes[i]));
        struct world packed, padded;
        size_t count;
        open_world(&packed, &shapes[i], 2, 6);
        open_world(&padded, &shapes[i], 2, 6);
        padded.counted.device.head_stride = 8;
        padded.counted.device.head_rows = packed.counted.device.head_rows = 5;
        open_transformer(&packed, false, 0);
        open_transformer(&padded, false, 0);
        packed.targets[3] = padded.targets[3] = -100;
        double a = loss_of(&packed), b = loss_of(&padded);
        CHECK(a == b);
        a = train(&packed, 2, 1);
        b = train(&padded, 2, 1);
        CHECK(a == b);
        float *p = grads_of(&packed, &count), *q = grads_of(&padded, &count);
        check_same_bits(q, p, count);
        free(p);
        free(q);
        close_world(&padded);
        close_world(&packed);
    }
}

static size_t products;

static void product_forward(const struct dt_linear *l, dt_elem *out, const dt_elem *x,
                            struct dt_stream *s)
{
    products++;
    dt_ops_reference.linear_forward(l, out, x, s);
}

static void product_backward(const struct dt_linear *l, dt_elem *dx, bool add, dt_elem *dweight,
                             dt_elem *dbias, const dt_elem *x, const dt_elem *dout,
                             struct dt_stream *s)
{
    products++;
    dt_ops_reference.linear_backward(l, dx, add, dweight, dbias, x, dout, s);
}

/* As a GPU asks for it: a product less on each way through a block. Sums are in another order. */
TEST(a_gate_may_be_one_product_with_what_it_lets_through)
{
    static const size_t batch[MICRO_BATCHES] = {2, 1, 2};
    struct dt_ops counting = dt_ops_reference;
    counting.linear_forward = product_forward;
    counting.linear_backward = product_backward;
    for (size_t i = 0; i < ROWS(shapes); i++) {
        struct world apart, joined;
        struct line l;
        size_t count, blocks = shapes[i].layers * MICRO_BATCHES;
        double loss = 0;
        if (shapes[i].experts)
            continue;
        CHECK_ROW("%s", name_of(&shapes[i]));
        open_world(&apart, &shapes[i], 2, 5);
        open_world(&joined, &shapes[i], 2, 5);
        apart.counted.device.ops = joined.counted.device.ops = &counting;
        joined.counted.device.gate_grain = 1;
        open_transformer(&apart, false, 0);
        open_transformer(&joined, false, 0);
        int32_t *const ids[MICRO_BATCHES] = {apart.ids, apart.targets, apart.ids};
        products = 0;
        double a = train_at_once(&apart, ids, batch);
        size_t before = products;
        double b = train_at_once(&joined, ids, batch);
        CHECK_EQ(products - before, before - (shapes[i].family == DT_GPT2 ? 0 : 2 * blocks));
        CHECK(fabs(a - b) < 1e-6 * a);
        float *p = grads_of(&apart, &count), *q = grads_of(&joined, &count);
        check_close(q, p, count, 1e-5);
        held_clear_grads(joined.z);
        open_transformer(&joined, true, 2);
        CHECK(train_at_once(&joined, ids, batch) == b);
        float *again = grads_of(&joined, &count);
        check_same_bits(again, q, count);
        free(again);
        held_clear_grads(joined.z);
        open_line(&l, &joined, shapes[i].layers, false, true);
        for (size_t m = 0; m < MICRO_BATCHES; m++)
            line_forward(&l, m, batch[m], ids[m]);
        line_halves(&l, batch, &loss);
        CHECK(loss == b);
        again = grads_of(&joined, &count);
        check_same_bits(again, q, count);
        free(again);
        free(p);
        free(q);
        close_line(&l);
        close_world(&joined);
        close_world(&apart);
    }
}
