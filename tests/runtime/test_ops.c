/* SPDX-License-Identifier: Apache-2.0 */
/* The fast ops say what the reference says: each op, for each set of instructions this processor
 * has, over shapes that are 1, odd, and no multiple of any block. */
#include "tests/lib/sanitized.h"
#include "tests/runtime/ops_kit.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/cpu/cpu_level.h"
#include "worker_runtime/ops/nf4.h"
#include "worker_runtime/ops/ops.h"

/* Runs FN(ops, stream, kit) for each table, on a pool of 3 threads. They are compiled of the same
 * source: a sanitizer, under which all loops stay scalar, sees in the last what is in all. */
typedef void (*story_fn)(const struct dt_ops *ops, struct dt_stream *s, struct kit *k);

static void on_each_table(story_fn story)
{
    static const char *const names[] = {"x86-64", "x86-64-v3", "x86-64-v4"};
    int most = (int)dt_cpu_level();
    for (int level = SANITIZED ? most : 0; level <= most; level++) {
        struct dt_err err;
        struct kit k = {.state = 7};
        setenv("DTRUN_CPU_ISA", names[level], 1);
        struct dt_device *d = dt_device_open_cpu(3, &err);
        CHECK_ROW("%s", d ? d->description : err.text);
        CHECK(d != NULL);
        CHECK(dt_cpu_level() == DT_CPU_BASE || strcmp(d->ops->name, names[level]) == 0);
        story(d->ops, d->stream, &k);
        kit_free(&k);
        dt_device_close(d);
    }
    unsetenv("DTRUN_CPU_ISA");
}

static const struct dt_ops *const ref = &dt_ops_reference;

static void embedding(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t rows[][4] = {
        {1, 1, 1, 1}, {6, 3, 5, 7}, {514, 257, 65, 11}, {40, 20, 128, 9}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct dt_embedding e = {rows[i][0], rows[i][1], rows[i][2], rows[i][3], NULL, i, NULL};
        size_t n = e.rows * e.width, words = e.vocabulary * e.width,
               places = (e.first + e.positions) * e.width;
        CHECK_ROW("rows %zu positions %zu from %zu width %zu", e.rows, e.positions, e.first,
                  e.width);
        e.ids = kit_ids(k, e.rows, e.vocabulary);
        float *token = kit_numbers(k, words), *place = kit_numbers(k, places);
        float *out = kit_numbers(k, n), *want = kit_numbers(k, n);
        const int32_t *own = kit_ids(k, e.rows, e.positions);
        for (int with = 0; with < 3; with++) {
            e.places = with == 2 ? own : NULL;
            ops->embedding_forward(&e, out, token, with ? place : NULL, s);
            ref->embedding_forward(&e, want, token, with ? place : NULL, NULL);
            kit_near("out", n, out, want, 0);
            float *dt = kit_copy(k, words, token), *dt2 = kit_copy(k, words, token);
            float *dp = kit_copy(k, places, place), *dp2 = kit_copy(k, places, place);
            ops->embedding_backward(&e, dt, with ? dp : NULL, out, s);
            ref->embedding_backward(&e, dt2, with ? dp2 : NULL, out, NULL);
            kit_near("dtoken", words, dt, dt2, 1e-6);
            kit_near("dposition", places, dp, dp2, 1e-6);
        }
    }
}

TEST(embeddings_are_looked_up_and_added_up)
{
    on_each_table(embedding);
}

static void one_norm(const struct dt_ops *ops, struct dt_stream *s, struct kit *k, size_t rows,
                     size_t width, bool layer, bool add, float plus)
{
    size_t n = rows * width;
    CHECK_ROW("rows %zu width %zu layer %d add %d plus %g", rows, width, layer, add, (double)plus);
    float *weight = kit_numbers(k, width), *bias = layer ? kit_numbers(k, width) : NULL;
    struct dt_norm a = {.rows = rows, .width = width, .eps = 1e-5f, .weight = weight, .bias = bias};
    a.plus = plus;
    a.mean = layer ? kit_alloc(k, rows * sizeof(float)) : NULL;
    a.rstd = kit_alloc(k, rows * sizeof(float));
    struct dt_norm b = a;
    b.mean = layer ? kit_alloc(k, rows * sizeof(float)) : NULL;
    b.rstd = kit_alloc(k, rows * sizeof(float));
    float *x = kit_numbers(k, n), *more = kit_numbers(k, n), *dout = kit_numbers(k, n);
    float *out = kit_alloc(k, n * 4), *sum = kit_alloc(k, n * 4);
    float *out2 = kit_alloc(k, n * 4), *sum2 = kit_alloc(k, n * 4);
    ops->norm_forward(&a, out, sum, x, add ? more : NULL, s);
    ref->norm_forward(&b, out2, sum2, x, add ? more : NULL, NULL);
    kit_near("out", n, out, out2, 3e-6);
    kit_near("sum", n, sum, sum2, 1e-7);
    kit_near("rstd", rows, a.rstd, b.rstd, 1e-6);
    if (layer)
        kit_near("mean", rows, a.mean, b.mean, 1e-6);
    float *same = kit_copy(k, n, x), *out3 = kit_alloc(k, n * 4);
    ops->norm_forward(&a, out3, same, same, add ? more : NULL, s);
    kit_near("sum in x's place", n, same, sum, 0);
    kit_near("out with it", n, out3, out, 0);
    if (!add) {
        float *alone = kit_alloc(k, n * 4);
        ops->norm_forward(&a, alone, NULL, x, NULL, s);
        kit_near("out without sum", n, alone, out, 0);
    }
    float *dx = kit_copy(k, n, more), *dx2 = kit_copy(k, n, more);
    float *dw = kit_copy(k, width, weight), *dw2 = kit_copy(k, width, weight);
    float *db = kit_copy(k, width, weight), *db2 = kit_copy(k, width, weight);
    ops->norm_backward(&b, dx, dw, layer ? db : NULL, sum2, dout, s);
    ref->norm_backward(&b, dx2, dw2, layer ? db2 : NULL, sum2, dout, NULL);
    kit_near("dx", n, dx, dx2, 1e-5);
    kit_near("dweight", width, dw, dw2, 1e-5);
    kit_near("dbias", width, db, db2, 1e-5);
    ops->norm_backward(&b, dx, NULL, NULL, sum2, dout, s);
    ref->norm_backward(&b, dx2, NULL, NULL, sum2, dout, NULL);
    kit_near("dx alone", n, dx, dx2, 1e-5);
}

static void norms(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][2] = {{1, 1}, {1, 384}, {3, 5}, {17, 33}, {257, 65}, {100, 384}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int how = 0; how < 8; how++) {
            /* A row of one has no variance to be compared. */
            if (shapes[i][1] == 1 && (how & 1))
                continue;
            one_norm(ops, s, k, shapes[i][0], shapes[i][1], how & 1, how & 2, how & 4 ? 1 : 0);
            kit_free(k);
        }
    }
}

TEST(norms_of_both_kinds_with_and_without_a_residual)
{
    on_each_table(norms);
}

static void one_head_norm(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                          const struct dt_head_norm *n)
{
    size_t all = n->rows * n->stride, dim = n->head_dim;
    float *x = kit_numbers(k, all), *dout = kit_numbers(k, all), *sums = kit_numbers(k, dim);
    float *out = kit_copy(k, all, dout), *wanted = kit_copy(k, all, dout);
    float *dweight = kit_copy(k, dim, sums), *wanted_dweight = kit_copy(k, dim, sums);
    ops->head_norm_forward(n, out, x, s);
    ref->head_norm_forward(n, wanted, x, NULL);
    kit_near("out", all, out, wanted, 2e-6);
    float *in_place = kit_copy(k, all, x);
    ops->head_norm_forward(n, in_place, in_place, s);
    for (size_t row = 0; row < n->rows; row++)
        kit_near("in place", n->heads * dim, in_place + row * n->stride, wanted + row * n->stride,
                 2e-6);
    float *dx = kit_copy(k, all, dout), *wanted_dx = kit_copy(k, all, dout);
    ops->head_norm_backward(n, dx, dweight, x, dx, s);
    ref->head_norm_backward(n, wanted_dx, wanted_dweight, x, dout, NULL);
    kit_near("dx", all, dx, wanted_dx, 1e-5);
    kit_near("dweight", dim, dweight, wanted_dweight, 1e-5);
    float *alone = kit_copy(k, all, dout), *wanted_alone = kit_copy(k, all, dout);
    ops->head_norm_backward(n, alone, NULL, x, dout, s);
    ref->head_norm_backward(n, wanted_alone, NULL, x, dout, NULL);
    kit_near("dx alone", all, alone, wanted_alone, 1e-5);
}

/* What lies between the heads of two rows is left as it is. */
static void head_norms(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][4] = {
        {1, 1, 1, 1}, {1, 1, 64, 64}, {5, 3, 6, 20}, {257, 2, 65, 130}, {40, 7, 128, 1000}};
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        const size_t *h = shapes[i / 2];
        float plus = i % 2 ? 1 : 0;
        struct dt_head_norm n = {h[0], h[1], h[2], h[3], 1e-6f, plus, kit_numbers(k, h[2])};
        CHECK_ROW("rows %zu heads %zu dim %zu stride %zu plus %g", h[0], h[1], h[2], h[3],
                  (double)plus);
        one_head_norm(ops, s, k, &n);
        kit_free(k);
    }
}

TEST(norms_of_single_heads)
{
    on_each_table(head_norms);
}

static void ropes(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][5] = {{1, 1, 1, 2, 2},
                                       {6, 3, 2, 6, 17},
                                       {514, 257, 3, 64, 192},
                                       {40, 40, 1, 10, 12},
                                       {5, 9, 1, 4, 4}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const size_t *h = shapes[i];
        float scale = i == 2 ? 1.25f : 1;
        struct dt_rope r = {h[0], h[1], h[2], h[3], h[4], kit_speeds(k, h[3]), scale, 3 * i};
        size_t n = r.rows * r.stride;
        CHECK_ROW("rows %zu positions %zu from %zu heads %zu dim %zu", h[0], h[1], r.first, h[2],
                  h[3]);
        float *was = kit_numbers(k, n), *x = kit_copy(k, n, was), *y = kit_copy(k, n, was);
        ops->rope(&r, x, false, s);
        ref->rope(&r, y, false, NULL);
        kit_near("turned", n, x, y, 1e-6);
        ops->rope(&r, x, true, s);
        ref->rope(&r, y, true, NULL);
        kit_near("turned back", n, x, y, 1e-6);
        if (scale == 1)
            kit_near("what it was", n, x, was, 1e-6);
    }
}

TEST(rotary_positions_turn_forth_and_back)
{
    on_each_table(ropes);
}

static void one_linear(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                       struct dt_linear l, bool biased, bool add)
{
    size_t in = l.rows * l.in, out = l.rows * l.out, w = l.in * l.out;
    CHECK_ROW("rows %zu in %zu out %zu layout %d bias %d add %d", l.rows, l.in, l.out, l.layout,
              biased, add);
    l.weight = kit_numbers(k, w);
    l.bias = biased ? kit_numbers(k, l.out) : NULL;
    float *x = kit_numbers(k, in), *dout = kit_numbers(k, out), *y = kit_numbers(k, out);
    float *want = kit_numbers(k, out), *pre = kit_numbers(k, out), *pre2 = kit_numbers(k, out);
    ops->linear_forward(&l, y, x, s);
    ref->linear_forward(&l, want, x, NULL);
    kit_near("out", out, y, want, 2e-5);
    ops->linear_gelu_forward(&l, y, pre, x, s);
    ref->linear_gelu_forward(&l, want, pre2, x, NULL);
    kit_near("pre", out, pre, pre2, 2e-5);
    kit_near("gelu", out, y, want, 2e-5);
    ops->linear_gelu_forward(&l, y, NULL, x, s);
    kit_near("gelu without pre", out, y, want, 2e-5);
    float *dx = kit_copy(k, in, x), *dx2 = kit_copy(k, in, x), *dw = kit_copy(k, w, l.weight);
    float *dw2 = kit_copy(k, w, l.weight), *db = kit_numbers(k, l.out);
    float *db2 = kit_copy(k, l.out, db);
    ops->linear_backward(&l, dx, add, dw, biased ? db : NULL, x, dout, s);
    ref->linear_backward(&l, dx2, add, dw2, biased ? db2 : NULL, x, dout, NULL);
    kit_near("dx", in, dx, dx2, 2e-5);
    kit_near("dweight", w, dw, dw2, 2e-5);
    kit_near("dbias", l.out, db, db2, 2e-5);
    if (biased && !add) { /* once of the four */
        ops->linear_gelu_backward(&l, dx, dw, db, x, x, dout, s);
        ref->linear_gelu_backward(&l, dx2, dw2, db2, x, x, dout, NULL);
        kit_near("dpre", in, dx, dx2, 2e-5);
        kit_near("dweight behind a GELU", w, dw, dw2, 2e-5);
        kit_near("dbias behind a GELU", l.out, db, db2, 2e-5);
    }
    ops->linear_backward(&l, NULL, false, dw, NULL, x, dout, s);
    ref->linear_backward(&l, NULL, false, dw2, NULL, x, dout, NULL);
    kit_near("dweight without dx", w, dw, dw2, 2e-5);
    ops->linear_backward(&l, dx, add, NULL, NULL, NULL, dout, s);
    ref->linear_backward(&l, dx2, add, NULL, NULL, NULL, dout, NULL);
    kit_near("dx without dweight", in, dx, dx2, 2e-5);
    ops->linear_backward(&l, NULL, false, NULL, biased ? db : NULL, NULL, dout, s);
    ref->linear_backward(&l, NULL, false, NULL, biased ? db2 : NULL, NULL, dout, NULL);
    kit_near("dbias alone, or nothing", l.out, db, db2, 2e-5);
}

static void linears(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][3] = {{1, 1, 1},     {1, 64, 48},   {3, 5, 7},    {257, 33, 65},
                                       {64, 96, 300}, {300, 64, 40}, {70, 700, 19}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int how = 0; how < 8; how++) {
            struct dt_linear l = {.rows = shapes[i][0], .in = shapes[i][1], .out = shapes[i][2]};
            l.layout = how & 4 ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
            one_linear(ops, s, k, l, how & 1, how & 2);
            kit_free(k);
        }
    }
}

TEST(linear_layers_in_both_layouts)
{
    on_each_table(linears);
}

/* L, whose rows of out lie apart, beside the plain loops over packed ones. */
static void one_spread(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                       struct dt_linear l, bool biased)
{
    size_t in = l.rows * l.in, out = l.rows * l.out, w = l.in * l.out;
    CHECK_ROW("%s: rows %zu in %zu out %zu of %zu layout %d bias %d", ops->name, l.rows, l.in,
              l.out, l.out_stride, l.layout, biased);
    l.weight = kit_numbers(k, w);
    l.bias = biased ? kit_numbers(k, l.out) : NULL;
    struct dt_linear packed = l;
    packed.out_stride = 0;
    float *x = kit_numbers(k, in), *dout = kit_numbers(k, out), *want = kit_numbers(k, out);
    float *y = kit_spread(k, l.rows, l.out, l.out_stride, dout);
    ops->linear_forward(&l, y, x, s);
    ref->linear_forward(&packed, want, x, NULL);
    kit_near("out", out, kit_gather(k, l.rows, l.out, l.out_stride, y), want, 2e-5);

    float *apart = kit_spread(k, l.rows, l.out, l.out_stride, dout);
    float *dx = kit_alloc(k, in * sizeof *dx), *dx2 = kit_alloc(k, in * sizeof *dx);
    float *dw = kit_copy(k, w, l.weight), *dw2 = kit_copy(k, w, l.weight);
    float *db = kit_numbers(k, l.out), *db2 = kit_copy(k, l.out, db);
    ops->linear_backward(&l, dx, false, dw, biased ? db : NULL, x, apart, s);
    ref->linear_backward(&packed, dx2, false, dw2, biased ? db2 : NULL, x, dout, NULL);
    kit_near("dx", in, dx, dx2, 2e-5);
    kit_near("dweight", w, dw, dw2, 2e-5);
    kit_near("dbias", l.out, db, db2, 2e-5);
}

static void spreads(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][4] = {{1, 1, 1, 3},      {3, 5, 7, 7},       {3, 5, 7, 8},
                                       {257, 33, 65, 72}, {64, 96, 300, 301}, {300, 64, 40, 57},
                                       {70, 70, 519, 520}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int how = 0; how < 4; how++) {
            struct dt_linear l = {.rows = shapes[i][0],
                                  .in = shapes[i][1],
                                  .out = shapes[i][2],
                                  .out_stride = shapes[i][3]};
            l.layout = how & 2 ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
            one_spread(ops, s, k, l, how & 1);
            one_spread(ref, NULL, k, l, how & 1);
            kit_free(k);
        }
    }
}

TEST(rows_of_a_linear_layer_may_lie_apart)
{
    on_each_table(spreads);
}

/* q, k, v side by side in one row of width STRIDE, or apart where it is 0. */
static void one_attention(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                          struct dt_attention a, bool together)
{
    size_t rows = a.batch * a.queries, key_rows = a.batch * a.keys;
    size_t q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
    size_t row = together ? q + 2 * kv + 3 : 0, stats = a.batch * a.heads * a.queries;
    CHECK_ROW("batch %zu, %zu queries from %zu, %zu keys, window %zu, documents %d, heads %zu/%zu "
              "dim %zu together %d scale %g cap %g dropout %g",
              a.batch, a.queries, a.first, a.keys, a.window, a.documents != NULL, a.heads,
              a.kv_heads, a.head_dim, together, (double)a.scale, (double)a.cap,
              a.dropout.gone_below * 0x1p-32);
    a.q_stride = together ? row : q + 1;
    a.k_stride = a.v_stride = together ? row : kv;
    a.out_stride = q + 2;
    size_t n_q = rows * a.q_stride, n_kv = key_rows * a.k_stride, n_out = rows * a.out_stride;
    float *base = kit_numbers(k, n_q), *dbase = kit_numbers(k, n_q),
          *dbase2 = kit_copy(k, n_q, dbase);
    a.q = base;
    a.k = together ? base + q : kit_numbers(k, n_kv);
    a.v = together ? base + q + kv : kit_numbers(k, n_kv);
    float *out = kit_numbers(k, n_out), *want = kit_copy(k, n_out, out);
    float *dout = kit_numbers(k, n_out), *logsum = kit_alloc(k, stats * 4);
    a.logsum = kit_alloc(k, stats * 4);
    ref->attention_forward(&a, want, NULL);
    struct dt_attention b = a;
    b.logsum = logsum;
    ops->attention_forward(&b, out, s);
    kit_near("out", n_out, out, want, 5e-6);
    kit_near("logsum", stats, logsum, a.logsum, 2e-6);
    float *dk = together ? dbase + q : kit_numbers(k, n_kv);
    float *dk2 = together ? dbase2 + q : kit_copy(k, n_kv, dk);
    float *dv = together ? dbase + q + kv : kit_numbers(k, n_kv);
    float *dv2 = together ? dbase2 + q + kv : kit_copy(k, n_kv, dv);
    ref->attention_backward(&a, dbase2, dk2, dv2, want, dout, NULL);
    ops->attention_backward(&a, dbase, dk, dv, want, dout, s);
    kit_near("dq", n_q, dbase, dbase2, 1e-5);
    if (!together) {
        kit_near("dk", n_kv, dk, dk2, 1e-5);
        kit_near("dv", n_kv, dv, dv2, 1e-5);
    }
}

/* A fifth of the weights goes, those of some heads of many. */
static void drop_weights(struct dt_attention *a)
{
    a->dropout = (struct dt_dropout){.start = 77, .gone_below = (1u << 31) / 5 * 2, .scale = 1.25f};
    a->all_heads = a->heads + 3;
    a->first_head = 2;
}

static void attentions(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t shapes[][5] = {{1, 1, 1, 1, 1},   {2, 3, 2, 1, 4},    {1, 257, 2, 2, 16},
                                       {2, 64, 4, 2, 20}, {1, 65, 6, 3, 64},  {1, 600, 1, 1, 8},
                                       {3, 1, 2, 2, 5},   {1, 320, 4, 1, 12}, {1, 40, 1, 1, 300},
                                       {1, 777, 2, 1, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (int how = 0; how < 4; how++) {
            const size_t *h = shapes[i];
            struct dt_attention a = {.batch = h[0],
                                     .queries = h[1],
                                     .keys = h[1],
                                     .heads = h[2],
                                     .kv_heads = h[3],
                                     .head_dim = h[4]};
            if (how & 2)
                drop_weights(&a);
            one_attention(ops, s, k, a, how & 1);
            kit_free(k);
        }
    }
}

TEST(attention_with_heads_shared_and_rows_apart)
{
    on_each_table(attentions);
}

/* Documents of LENGTH positions, the first of the second sequence one shorter. */
static const int32_t *documents_of(struct kit *k, size_t batch, size_t keys, size_t length)
{
    int32_t *begins = kit_alloc(k, batch * keys * sizeof *begins);
    for (size_t i = 0; i < batch * keys; i++) {
        size_t t = i % keys, shift = i / keys;
        size_t begin = (t + shift) / length * length;
        begins[i] = (int32_t)(begin > shift ? begin - shift : 0);
    }
    return begins;
}

/* Of blocks of 32 queries and chunks of 256 keys: parts begin and end inside of them, at them, and
 * chunks away from them. */
static void parts_of_attention(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const struct {
        size_t batch, queries, keys, first, window, document;
    } rows[] = {
        {1, 1, 9, 8, 0, 0},         {2, 5, 9, 3, 0, 0},       {1, 40, 300, 250, 0, 0},
        {1, 300, 600, 256, 0, 0},   {2, 100, 777, 500, 0, 0}, {1, 32, 288, 256, 0, 0},
        {1, 70, 70, 0, 1, 0},       {1, 600, 600, 0, 100, 0}, {2, 300, 600, 290, 33, 0},
        {1, 600, 600, 0, 999, 0},   {1, 70, 70, 0, 0, 1},     {2, 70, 70, 0, 0, 10},
        {2, 600, 600, 0, 0, 256},   {1, 600, 600, 0, 0, 300}, {2, 300, 640, 300, 0, 77},
        {2, 300, 640, 300, 50, 77},
    };
    for (size_t i = 0; i < 4 * sizeof rows / sizeof rows[0]; i++) {
        struct dt_attention a = {.batch = rows[i / 4].batch,
                                 .queries = rows[i / 4].queries,
                                 .keys = rows[i / 4].keys,
                                 .first = rows[i / 4].first,
                                 .window = rows[i / 4].window,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 12};
        a.scale = i % 2 ? 0.4f : 0;
        a.cap = i % 2 ? 2 : 0;
        if (i & 2)
            drop_weights(&a);
        if (rows[i / 4].document > 0)
            a.documents = documents_of(k, a.batch, a.keys, rows[i / 4].document);
        one_attention(ops, s, k, a, a.queries == a.keys);
        kit_free(k);
    }
}

TEST(attention_over_parts_of_sequences_windows_and_documents)
{
    on_each_table(parts_of_attention);
}

/* What attention gives, and the gradients of it. */
struct attended {
    float *out, *logsum, *dq, *dk, *dv;
};

static struct attended open_attended(struct kit *k, const struct dt_attention *a)
{
    size_t rows = a->batch * a->queries, keys = a->batch * a->keys;
    return (struct attended){.out = kit_numbers(k, rows * a->out_stride),
                             .logsum = kit_numbers(k, rows * a->heads),
                             .dq = kit_numbers(k, rows * a->q_stride),
                             .dk = kit_alloc(k, keys * a->k_stride * sizeof(float)),
                             .dv = kit_alloc(k, keys * a->v_stride * sizeof(float))};
}

/* Between the keys HERE, those of a stretch, and ALL. */
static void copy_stretch(const struct dt_attention *a, float *all, float *here, bool back)
{
    size_t rows = dt_attention_keys_here(a), numbers = rows * a->k_stride;
    for (size_t b = 0; b < a->batch; b++, here += numbers) {
        float *at = all + (b * a->keys + a->keys_from) * a->k_stride;
        memcpy(back ? at : here, back ? here : at, numbers * sizeof *at);
    }
}

/* Keys CUT[i] to CUT[i + 1] - 1 are stretch i. The second is met first, the first one last. */
static struct dt_attention stretch_of(struct kit *k, const struct dt_attention *whole,
                                      const size_t *cut, size_t count, size_t turn)
{
    size_t i = (turn + 1) % count;
    struct dt_attention a = *whole;
    a.keys_from = cut[i];
    a.keys_to = cut[i + 1];
    a.joins = turn > 0;
    size_t n = a.batch * dt_attention_keys_here(&a) * a.k_stride;
    float *keys = kit_alloc(k, n * sizeof *keys), *values = kit_alloc(k, n * sizeof *values);
    copy_stretch(&a, (float *)whole->k, keys, false);
    copy_stretch(&a, (float *)whole->v, values, false);
    a.k = keys;
    a.v = values;
    return a;
}

static void attend_stretches(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                             struct dt_attention whole, const size_t *cut, size_t count,
                             const float *dout, struct attended *x)
{
    whole.logsum = x->logsum;
    for (size_t turn = 0; turn < count; turn++) {
        struct dt_attention a = stretch_of(k, &whole, cut, count, turn);
        ops->attention_forward(&a, x->out, s);
    }
    for (size_t turn = 0; turn < count; turn++) {
        struct dt_attention a = stretch_of(k, &whole, cut, count, turn);
        size_t n = a.batch * dt_attention_keys_here(&a) * a.k_stride;
        float *dk = turn > 0 ? kit_alloc(k, n * sizeof *dk) : kit_numbers(k, n);
        float *dv = turn > 0 ? kit_alloc(k, n * sizeof *dv) : kit_numbers(k, n);
        ops->attention_backward(&a, x->dq, dk, dv, x->out, dout, s);
        copy_stretch(&a, x->dk, dk, true);
        copy_stretch(&a, x->dv, dv, true);
    }
}

static void near_attended(const struct dt_attention *a, const struct attended *x,
                          const struct attended *want)
{
    size_t rows = a->batch * a->queries, keys = a->batch * a->keys;
    kit_near("out", rows * a->out_stride, x->out, want->out, 1e-5);
    kit_near("logsum", rows * a->heads, x->logsum, want->logsum, 5e-6);
    kit_near("dq", rows * a->q_stride, x->dq, want->dq, 1e-5);
    kit_near("dk", keys * a->k_stride, x->dk, want->dk, 1e-5);
    kit_near("dv", keys * a->v_stride, x->dv, want->dv, 1e-5);
}

/* The first stretch that is met has keys that some queries, or all, do not read. */
static void stretches_of_attention(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const struct {
        size_t batch, queries, keys, first, window, document, count, cut[5];
    } rows[] = {
        {1, 9, 9, 0, 0, 0, 2, {0, 4, 9}},
        {2, 30, 40, 10, 0, 0, 3, {0, 10, 25, 40}},
        {1, 300, 600, 300, 0, 0, 2, {0, 300, 600}},
        {2, 150, 600, 150, 0, 0, 4, {0, 150, 300, 450, 600}},
        {1, 600, 600, 0, 100, 0, 3, {0, 257, 300, 600}},
        {2, 300, 640, 300, 50, 77, 4, {0, 1, 310, 400, 640}},
        {1, 600, 600, 0, 0, 256, 2, {0, 555, 600}},
    };
    for (size_t i = 0; i < 4 * sizeof rows / sizeof rows[0]; i++) {
        struct dt_attention a = {.batch = rows[i / 4].batch,
                                 .queries = rows[i / 4].queries,
                                 .keys = rows[i / 4].keys,
                                 .first = rows[i / 4].first,
                                 .window = rows[i / 4].window,
                                 .heads = 6,
                                 .kv_heads = 3,
                                 .head_dim = 12,
                                 .q_stride = 72,
                                 .k_stride = 36,
                                 .v_stride = 36,
                                 .out_stride = 72,
                                 .cap = i % 2 ? 2 : 0};
        size_t queries = a.batch * a.queries, keys = a.batch * a.keys;
        CHECK_ROW("row %zu, cap %g, dropout %d", i / 4, (double)a.cap, (i & 2) > 0);
        if (i & 2)
            drop_weights(&a);
        if (rows[i / 4].document > 0)
            a.documents = documents_of(k, a.batch, a.keys, rows[i / 4].document);
        a.q = kit_numbers(k, queries * a.q_stride);
        a.k = kit_numbers(k, keys * a.k_stride);
        a.v = kit_numbers(k, keys * a.v_stride);
        const float *dout = kit_numbers(k, queries * a.out_stride);
        struct attended want = open_attended(k, &a), plain = open_attended(k, &a);
        struct attended fast = open_attended(k, &a);
        a.logsum = want.logsum;
        ref->attention_forward(&a, want.out, NULL);
        ref->attention_backward(&a, want.dq, want.dk, want.dv, want.out, dout, NULL);
        attend_stretches(ref, NULL, k, a, rows[i / 4].cut, rows[i / 4].count, dout, &plain);
        near_attended(&a, &plain, &want);
        attend_stretches(ops, s, k, a, rows[i / 4].cut, rows[i / 4].count, dout, &fast);
        near_attended(&a, &fast, &want);
        kit_free(k);
    }
}

TEST(attention_to_stretches_of_keys_joins_to_that_of_all)
{
    on_each_table(stretches_of_attention);
}

/* Keys that no query reads: the start for others. */
static void nothing_read(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    struct dt_attention a = {.batch = 1,
                             .queries = 40,
                             .keys = 80,
                             .keys_from = 40,
                             .keys_to = 80,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 4,
                             .q_stride = 4,
                             .k_stride = 4,
                             .v_stride = 4,
                             .out_stride = 4};
    a.q = kit_numbers(k, 160);
    a.k = kit_numbers(k, 160);
    a.v = kit_numbers(k, 160);
    const struct dt_ops *each[] = {ref, ops};
    for (size_t table = 0; table < 2; table++) {
        float *out = kit_numbers(k, 160);
        a.logsum = kit_numbers(k, 40);
        each[table]->attention_forward(&a, out, s);
        for (size_t i = 0; i < 160; i++)
            CHECK(out[i] == 0 && a.logsum[i / 4] == -INFINITY);
    }
}

TEST(attention_to_keys_that_nobody_reads_is_none)
{
    on_each_table(nothing_read);
}

/* Products and attention on three threads, three times: the same bits. */
static void repeats(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    enum { B = 2, T = 300, H = 4, D = 24, N = B * T, C = H * D };
    struct dt_linear l = {N, C, 3 * C, 0, DT_WEIGHT_IN_OUT, kit_numbers(k, 3 * C * C), NULL};
    struct dt_attention a = {.batch = B,
                             .queries = T,
                             .keys = T,
                             .heads = H,
                             .kv_heads = 2,
                             .head_dim = D,
                             .q_stride = 3 * C,
                             .k_stride = 3 * C,
                             .v_stride = 3 * C,
                             .out_stride = C};
    drop_weights(&a);
    float *x = kit_numbers(k, N * C), *dout = kit_numbers(k, N * C);
    float *first[4] = {NULL};
    static const size_t sizes[] = {N * 3 * C, N * C, N * 3 * C, 3 * C * C};
    a.logsum = kit_alloc(k, B * H * T * sizeof(float));
    for (int i = 0; i < 3; i++) {
        float *now[4];
        for (int n = 0; n < 4; n++)
            now[n] = kit_alloc(k, sizes[n] * sizeof(float));
        ops->linear_forward(&l, now[0], x, s);
        a.q = now[0];
        a.k = now[0] + C;
        a.v = now[0] + 2 * C;
        ops->attention_forward(&a, now[1], s);
        ops->attention_backward(&a, now[2], now[2] + C, now[2] + 2 * C, now[1], dout, s);
        ops->linear_backward(&l, now[1], true, now[3], NULL, x, now[2], s);
        for (int n = 0; n < 4; n++) {
            first[n] = first[n] ? first[n] : now[n];
            CHECK_BYTES(now[n], sizes[n] * sizeof(float), first[n], sizes[n] * sizeof(float));
        }
    }
}

TEST(the_same_again_has_the_same_bits)
{
    on_each_table(repeats);
}

static void activations(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t sizes[] = {0, 1, 15, 1000, 32768, 70001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        const struct dt_gate packed = {1, n, 0};
        float *x = kit_numbers(k, n), *up = kit_numbers(k, n), *dout = kit_numbers(k, n);
        for (size_t e = 0; e < n; e++)
            x[e] *= e % 3 ? 2.0f : 9.0f;
        float *a = kit_numbers(k, n), *b = kit_numbers(k, n), *c = kit_numbers(k, n);
        float *d = kit_numbers(k, n);
        ops->gelu_forward(n, a, x, s);
        ref->gelu_forward(n, b, x, NULL);
        kit_near("gelu", n, a, b, 2e-7);
        ops->gelu_backward(n, a, x, dout, s);
        ref->gelu_backward(n, b, x, dout, NULL);
        kit_near("gelu backward", n, a, b, 1e-6);
        memcpy(a, dout, n * 4);
        ops->gelu_backward(n, a, x, a, s);
        kit_near("gelu backward in place", n, a, b, 1e-6);
        ops->swiglu_forward(&packed, a, x, up, s);
        ref->swiglu_forward(&packed, b, x, up, NULL);
        kit_near("swiglu", n, a, b, 3e-7);
        ops->swiglu_backward(&packed, a, c, x, up, dout, s);
        ref->swiglu_backward(&packed, b, d, x, up, dout, NULL);
        kit_near("swiglu dgate", n, a, b, 1e-6);
        kit_near("swiglu dup", n, c, d, 1e-6);
        memcpy(c, up, n * 4);
        memcpy(a, x, n * 4);
        ops->swiglu_backward(&packed, a, c, a, c, dout, s);
        kit_near("swiglu dgate in place", n, a, b, 1e-6);
        kit_near("swiglu dup in place", n, c, d, 1e-6);
        ops->geglu_forward(&packed, a, x, up, s);
        ref->geglu_forward(&packed, b, x, up, NULL);
        kit_near("geglu", n, a, b, 3e-7);
        ops->geglu_backward(&packed, a, c, x, up, dout, s);
        ref->geglu_backward(&packed, b, d, x, up, dout, NULL);
        kit_near("geglu dgate", n, a, b, 1e-6);
        kit_near("geglu dup", n, c, d, 1e-6);
        memcpy(c, up, n * 4);
        memcpy(a, dout, n * 4);
        ops->geglu_backward(&packed, a, c, x, c, a, s);
        kit_near("geglu dgate in place", n, a, b, 1e-6);
        kit_near("geglu dup in place", n, c, d, 1e-6);
        ops->add(n, a, dout, s);
        ref->add(n, b, dout, NULL);
        kit_near("add", n, a, b, 1e-6);
        kit_free(k);
    }
}

TEST(activations_forward_and_backward)
{
    on_each_table(activations);
}

static void copies(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t sizes[] = {0, 1, 33, 700};
    for (size_t i = 0; i < 16; i++) {
        size_t rows = sizes[i / 4], width = sizes[i % 4], to = width + i % 3, from = width + i % 5;
        float *x = kit_numbers(k, rows * from), *out = kit_numbers(k, rows * to);
        float *want = kit_copy(k, rows * to, out);
        CHECK_ROW("%zu rows of %zu", rows, width);
        ops->copy_rows(rows, width, out, to, x, from, s);
        ref->copy_rows(rows, width, want, to, x, from, NULL);
        kit_near("rows", rows * to, out, want, 0);
        kit_free(k);
    }
}

TEST(rows_are_copied_between_strides)
{
    on_each_table(copies);
}

static void one_dropout(const struct dt_ops *ops, struct dt_stream *s, struct kit *k, size_t n,
                        uint32_t gone_below)
{
    struct dt_dropout d = {.start = 12345, .gone_below = gone_below, .scale = 1.25f};
    float *x = kit_numbers(k, n), *out = kit_numbers(k, n), *want = kit_copy(k, n, out);
    CHECK_ROW("%zu elements, gone below %u", n, gone_below);
    ops->dropout(&d, n, out, true, x, s);
    ref->dropout(&d, n, want, true, x, NULL);
    kit_near("added", n, out, want, 1e-6);
    ops->dropout(&d, n, out, false, x, s);
    ref->dropout(&d, n, want, false, x, NULL);
    kit_near("assigned", n, out, want, 0);
    ops->dropout(&d, n, x, false, x, s);
    kit_near("in place", n, x, want, 0);
}

/* Columns of some rows go as they do where the rows are whole. */
static void one_part(const struct dt_ops *ops, struct dt_stream *s, struct kit *k, size_t rows,
                     size_t width, size_t from, size_t pitch)
{
    struct dt_dropout d = {.start = 12345, .gone_below = 1u << 30, .scale = 1.25f};
    struct dt_dropout own = {d.start + from, d.gone_below, d.scale, width, pitch};
    float *x = kit_numbers(k, rows * pitch), *whole = kit_copy(k, rows * pitch, x);
    float *part = kit_numbers(k, rows * width), *want = kit_copy(k, rows * width, part);
    CHECK_ROW("%zu rows, %zu of %zu from %zu on", rows, width, pitch, from);
    for (size_t i = 0; i < rows * width; i++)
        part[i] = x[i / width * pitch + from + i % width];
    ref->dropout(&d, rows * pitch, whole, false, x, NULL);
    for (size_t i = 0; i < rows * width; i++)
        want[i] = whole[i / width * pitch + from + i % width];
    ops->dropout(&own, rows * width, part, false, part, s);
    kit_near("in place", rows * width, part, want, 0);
}

static void dropouts(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t sizes[] = {0, 1, 7, 33, 1000, 70001};
    static const uint32_t gone_below[] = {0, 1u << 30, UINT32_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (size_t p = 0; p < sizeof gone_below / sizeof gone_below[0]; p++)
            one_dropout(ops, s, k, sizes[i], gone_below[p]);
        kit_free(k);
    }
    one_part(ops, s, k, 5, 3, 4, 12);
    one_part(ops, s, k, 700, 100, 0, 200); /* parts of a job begin amid a row */
    one_part(ops, s, k, 1, 7, 7, 14);
    kit_free(k);
}

TEST(dropout_takes_the_same_elements_on_each_table)
{
    on_each_table(dropouts);
}

/* Three groups of columns in rows of [N, 3 W + 2], of which the middle one has magnitudes. */
static void one_magnitude(const struct dt_ops *ops, struct dt_stream *s, struct kit *k, size_t n,
                          size_t w, bool dropped)
{
    size_t stride = 3 * w + 2, all = n * stride;
    float *magnitudes = kit_numbers(k, w), *rnorms = kit_numbers(k, w), *bias = kit_numbers(k, w);
    struct dt_magnitude m = {n, w, stride, magnitudes, bias, rnorms};
    float *out = kit_numbers(k, all), *want = kit_copy(k, all, out), *dout = kit_numbers(k, all);
    float *base = kit_numbers(k, all), *sum = kit_numbers(k, all);
    float *base2 = kit_copy(k, all, base), *sum2 = kit_copy(k, all, sum);
    float *dm = kit_numbers(k, w), *dm2 = kit_copy(k, w, dm);
    CHECK_ROW("%zu rows of %zu%s", n, w, dropped ? ", dropped from" : "");
    rnorms[w / 2] = 0;
    ops->magnitude_forward(&m, out + w, dropped ? base + w : NULL, sum + w, s);
    ref->magnitude_forward(&m, want + w, dropped ? base + w : NULL, sum + w, NULL);
    kit_near("out", all, out, want, 1e-6);
    ops->magnitude_backward(&m, sum + w, dropped ? base + w : NULL, dm, base + w, sum + w, dout + w,
                            s);
    ref->magnitude_backward(&m, sum2 + w, dropped ? base2 + w : NULL, dm2, base2 + w, sum2 + w,
                            dout + w, NULL);
    kit_near("dsum", all, sum, sum2, 1e-6);
    kit_near("dbase", all, base, base2, 1e-6);
    kit_near("dmagnitudes", w, dm, dm2, 2e-6);
}

static void one_length(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                       const size_t sizes[3], enum dt_weight_layout layout)
{
    size_t in = sizes[0], out = sizes[1], r = sizes[2];
    float *weight = kit_numbers(k, in * out), *a = kit_numbers(k, r * in);
    float *b = kit_numbers(k, out * r), *got = kit_numbers(k, out), *want = kit_numbers(k, out);
    struct dt_linear l = {.in = in, .out = out, .layout = layout, .weight = weight};
    CHECK_ROW("[%zu, %zu] of rank %zu, layout %d", in, out, r, layout);
    for (size_t i = 0; i < in; i++) /* an output that is made of nothing */
        weight[layout == DT_WEIGHT_IN_OUT ? i * out : i] = 0;
    memset(b, 0, r * sizeof *b);
    ops->magnitude_norms(&l, r, 0.7f, a, b, got, s);
    ref->magnitude_norms(&l, r, 0.7f, a, b, want, NULL);
    CHECK(got[0] == 0 && want[0] == 0);
    kit_near("1 / norm", out, got, want, 1e-6);
}

static void magnitudes(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t sizes[][3] = {{1, 1, 1}, {5, 33, 3}, {64, 16, 8}, {131, 50, 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        one_length(ops, s, k, sizes[i], DT_WEIGHT_IN_OUT);
        one_length(ops, s, k, sizes[i], DT_WEIGHT_OUT_IN);
        for (int dropped = 0; dropped < 2; dropped++) {
            one_magnitude(ops, s, k, sizes[i][0], sizes[i][1], dropped);
            one_magnitude(ops, s, k, sizes[i][1], 5 * sizes[i][0], dropped);
        }
        kit_free(k);
    }
}

TEST(magnitudes_multiply_their_columns_alone)
{
    on_each_table(magnitudes);
}

static void edges(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    const float x[] = {0, -0.0f, INFINITY, NAN, 1e30f, -1e30f, -1e10f, 88, -88, 100, -100, 20, -20};
    enum { N = sizeof x / sizeof x[0] };
    float ones[N], a[N], b[N], c[N], d[N];
    (void)k;
    for (int i = 0; i < N; i++)
        ones[i] = 1;
    ops->gelu_forward(N, a, x, s);
    ref->gelu_forward(N, b, x, NULL);
    ops->gelu_backward(N, c, x, ones, s);
    ref->gelu_backward(N, d, x, ones, NULL);
    for (int i = 0; i < N; i++) {
        CHECK_ROW("gelu of %g: %g, wanted %g; slope %g, wanted %g", (double)x[i], (double)a[i],
                  (double)b[i], (double)c[i], (double)d[i]);
        CHECK(isnan(b[i]) ? isnan(a[i])
                          : a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-6f * fabsf(b[i]) + 1e-30f);
        CHECK(isnan(x[i]) ? isnan(c[i]) : isnan(d[i]) || fabsf(c[i] - d[i]) < 1e-6f);
    }
    const struct dt_gate packed = {1, N, 0};
    ops->swiglu_forward(&packed, a, x, ones, s);
    ref->swiglu_forward(&packed, b, x, ones, NULL);
    for (int i = 0; i < N; i++) {
        CHECK_ROW("silu of %g: %g, wanted %g", (double)x[i], (double)a[i], (double)b[i]);
        CHECK(isnan(b[i]) ? isnan(a[i])
                          : a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-6f * fabsf(b[i]) + 1e-30f);
    }
}

TEST(infinities_and_nan_stay_what_they_are)
{
    on_each_table(edges);
}

/* Gate and up as parts of one row, beside the plain loops over packed ones; their gradients take
 * their places. NaNs behind them stay. */
static void one_gate_apart(const struct dt_ops *ops, struct dt_stream *s, struct kit *k,
                           const struct dt_gate *g, bool gelu)
{
    const struct dt_gate packed = {g->rows, g->width, 0};
    size_t n = g->rows * g->width;
    float *gate = kit_numbers(k, n), *up = kit_numbers(k, n), *dout = kit_numbers(k, n);
    float *out = kit_alloc(k, n * 4), *want = kit_alloc(k, n * 4), *dup = kit_alloc(k, n * 4);
    float *both = kit_alloc(k, g->rows * g->stride * 4);
    for (size_t i = 0; i < g->rows * g->stride; i++) {
        size_t row = i / g->stride, at = i % g->stride;
        const float *half = at < g->width ? gate : up;
        both[i] = at < 2 * g->width ? half[row * g->width + at % g->width] : NAN;
    }
    (gelu ? ops->geglu_forward : ops->swiglu_forward)(g, out, both, both + g->width, s);
    (gelu ? ref->geglu_forward : ref->swiglu_forward)(&packed, want, gate, up, NULL);
    kit_near("out", n, out, want, 3e-7);
    (gelu ? ops->geglu_backward : ops->swiglu_backward)(g, both, both + g->width, both,
                                                        both + g->width, dout, s);
    (gelu ? ref->geglu_backward : ref->swiglu_backward)(&packed, want, dup, gate, up, dout, NULL);
    for (size_t row = 0; row < g->rows; row++) {
        const float *is = both + row * g->stride;
        kit_near("dgate", g->width, is, want + row * g->width, 1e-6);
        kit_near("dup", g->width, is + g->width, dup + row * g->width, 1e-6);
        CHECK(g->stride == 2 * g->width || isnan(is[2 * g->width]));
    }
}

static void gates_apart(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const struct dt_gate gates[] = {{0, 8, 16}, {1, 8, 16}, {5, 24, 48}, {9, 7, 17}};
    for (size_t i = 0; i < 2 * (sizeof gates / sizeof gates[0]); i++) {
        const struct dt_gate *g = &gates[i / 2];
        CHECK_ROW("%zu rows, %zu of %zu, %s", g->rows, g->width, g->stride,
                  i % 2 ? "gelu" : "silu");
        one_gate_apart(ops, s, k, g, i % 2);
        kit_free(k);
    }
}

TEST(a_gate_and_what_it_lets_through_may_be_halves_of_a_row)
{
    on_each_table(gates_apart);
}

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

/* A word of another rank is zeros here, and has its gradient there. */
static void words_elsewhere(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const float token[] = {1, 2, 3, 4}, position[] = {10, 20, 30, 40};
    static const float dout[] = {1, 2, 3, 4, 5, 6};
    static const int32_t ids[] = {1, -1, -1};
    static const float want[] = {3, 4, 0, 0, 0, 0}, placed[] = {13, 24, 30, 40, 10, 20};
    static const float words[] = {0, 0, 1, 2}, places[] = {6, 8, 3, 4};
    const struct dt_embedding e = {3, 2, 2, 2, ids, 0, NULL};
    const struct dt_ops *tables[] = {ops, ref};
    (void)k;
    for (int i = 0; i < 2; i++) {
        float out[6], dtoken[4] = {0}, dposition[4] = {0};
        tables[i]->embedding_forward(&e, out, token, NULL, s);
        CHECK_BYTES(out, sizeof out, want, sizeof want);
        tables[i]->embedding_forward(&e, out, token, position, s);
        CHECK_BYTES(out, sizeof out, placed, sizeof placed);
        tables[i]->embedding_backward(&e, dtoken, dposition, dout, s);
        CHECK_BYTES(dtoken, sizeof dtoken, words, sizeof words);
        CHECK_BYTES(dposition, sizeof dposition, places, sizeof places);
    }
}

TEST(a_word_of_another_rank_is_zeros)
{
    on_each_table(words_elsewhere);
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

/* Every 16-bit pattern, and floats around each of them. */
static void conversions(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16, DT_F64};
    enum { N = 3 << 16 };
    float *all = kit_alloc(k, N * sizeof *all);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t bits = (i / 3 << 16) + (i % 3 == 0   ? 0
                                         : i % 3 == 1 ? 0x8000
                                                      : kit_random(k) & 0xffff);
        memcpy(&all[i], &bits, 4);
    }
    for (int from = 0; from < 4; from++) {
        void *x = kit_alloc(k, N * 8);
        ref->cast(N, x, types[from], all, DT_F32, NULL);
        for (int to = 0; to < 4; to++) {
            size_t bytes = N * dt_dtype_size(types[to]);
            void *a = kit_alloc(k, bytes), *b = kit_alloc(k, bytes);
            CHECK_ROW("from type %d to %d", types[from], types[to]);
            ops->cast(N, a, types[to], x, types[from], s);
            ref->cast(N, b, types[to], x, types[from], NULL);
            CHECK_BYTES(a, bytes, b, bytes);
        }
    }
    for (int type = 1; type < 3; type++) {
        float *a = kit_copy(k, N, all), *b = kit_copy(k, N, all);
        ops->round_to(N, a, types[type], s);
        ref->round_to(N, b, types[type], NULL);
        CHECK_BYTES(a, N * sizeof *a, b, N * sizeof *b);
    }
}

TEST(casts_agree_on_every_pattern)
{
    on_each_table(conversions);
}

static void expansions(const struct dt_ops *ops, struct dt_stream *s, struct kit *k)
{
    static const size_t counts[] = {1, 2, 63, 64, 65, 191, 4096, 70001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts * 3; i++) {
        size_t n = counts[i / 3];
        struct dt_err err = {0};
        struct dt_nf4_writer w;
        void *packed = kit_alloc(k, dt_nf4_parts_of(NULL, n).words * sizeof(uint32_t));
        CHECK_OK(dt_nf4_open(&w, packed, n, &err), err);
        CHECK_OK(dt_nf4_write(&w, kit_numbers(k, n), n, &err), err);
        dt_nf4_finish(&w);
        dt_nf4_close(&w);
        struct dt_nf4 q = {n, packed, (enum dt_dtype)(i % 3)};
        float *is = kit_alloc(k, n * sizeof *is), *wanted = kit_alloc(k, n * sizeof *is);
        ops->nf4_expand(&q, is, s);
        ref->nf4_expand(&q, wanted, NULL);
        CHECK_ROW("%zu numbers, rounded to type %d", n, q.type);
        CHECK_BYTES(is, n * sizeof *is, wanted, n * sizeof *is);
        if (q.type != DT_F32)
            continue;
        dt_nf4_read(packed, n, 0, n, wanted);
        CHECK_BYTES(is, n * sizeof *is, wanted, n * sizeof *is);
    }
}

TEST(numbers_come_out_of_nf4_to_the_last_bit)
{
    on_each_table(expansions);
}
