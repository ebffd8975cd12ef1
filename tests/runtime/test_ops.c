/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of words and of numbers: norms, rotary positions, copies, dropout, magnitudes. */
#include "tests/runtime/ops_tables.h"

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
