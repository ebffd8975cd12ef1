/* SPDX-License-Identifier: Apache-2.0 */
/* Attention: heads, windows, documents, stretches of keys, dropout. */
#include "tests/runtime/ops_tables.h"

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
