/* SPDX-License-Identifier: Apache-2.0 */
/* The reference's gradients are those of its forward passes: along random directions, the slope of
 * a random sum of outputs, found by going a little way there and back, is what the backward op
 * says. And conversions between types, against what the formats define. */
#include "tests/runtime/ops_kit.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/half.h"
#include "worker_runtime/ops/ops.h"

static const struct dt_ops *const ref = &dt_ops_reference;

enum { INPUTS = 5 };

/* A forward pass from inputs to outputs, and its way back from the outputs' weights. */
struct function {
    size_t n[INPUTS]; /* of each input; 0: none */
    float *x[INPUTS], *dx[INPUTS];
    size_t n_out;
    float *out, *weight; /* [n_out] */
    void (*forward)(struct function *f);
    void (*backward)(struct function *f); /* += dx, or = where it was 0 */
    const void *how;
};

static double weighted_sum(struct function *f)
{
    double sum = 0;
    f->forward(f);
    for (size_t i = 0; i < f->n_out; i++)
        sum += (double)f->weight[i] * (double)f->out[i];
    return sum;
}

static void check_input(struct kit *k, struct function *f, int input)
{
    size_t n = f->n[input];
    float *x = f->x[input], *was = kit_copy(k, n, x), *way = kit_numbers(k, n);
    double step = 4e-3, slope = 0, size = 1;
    for (size_t i = 0; i < n; i++) {
        slope += (double)way[i] * (double)f->dx[input][i];
        size += fabs((double)way[i] * (double)f->dx[input][i]);
        x[i] = (float)(was[i] + step * way[i]);
    }
    double there = weighted_sum(f);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(was[i] - step * way[i]);
    double found = (there - weighted_sum(f)) / (2 * step);
    memcpy(x, was, n * sizeof *x);
    CHECK_ROW("input %d: the slope is %g, backward says %g (of %g)", input, found, slope, size);
    CHECK(fabs(found - slope) < 2e-3 * size);
}

static void check_function(struct kit *k, struct function *f)
{
    f->out = kit_alloc(k, f->n_out * sizeof(float));
    f->weight = kit_numbers(k, f->n_out);
    for (int i = 0; i < INPUTS; i++) {
        if (!f->x[i])
            f->x[i] = kit_numbers(k, f->n[i]);
        f->dx[i] = kit_alloc(k, f->n[i] * sizeof(float));
    }
    f->forward(f);
    f->backward(f);
    for (int i = 0; i < INPUTS; i++)
        for (int way = 0; f->n[i] > 0 && way < 3; way++)
            check_input(k, f, i);
    kit_free(k);
}

static void embedding_forward(struct function *f)
{
    ref->embedding_forward(f->how, f->out, f->x[0], f->x[1], NULL);
}

static void embedding_backward(struct function *f)
{
    ref->embedding_backward(f->how, f->dx[0], f->dx[1], f->weight, NULL);
}

TEST(gradients_of_embeddings)
{
    struct kit k = {.state = 1};
    int32_t ids[] = {0, 3, 3, 1, 4, 0};
    static const int32_t places[] = {0, 1, 0, 2, 1, 2};
    for (int placed = 0; placed < 2; placed++) {
        struct dt_embedding e = {6, 3, 4, 5, ids, 2, placed ? places : NULL};
        check_function(&k, &(struct function){.n = {20, 20},
                                              .n_out = 24,
                                              .how = &e,
                                              .forward = embedding_forward,
                                              .backward = embedding_backward});
    }
}

TEST(rows_with_places_are_at_these_positions)
{
    static const int32_t ids[] = {1, 0, 1}, places[] = {1, 0, 1};
    static const float token[] = {10, 20}, position[] = {1, 2, 3, 4};
    const struct dt_embedding e = {3, 3, 1, 2, ids, 1, places};
    float out[3], dtoken[2] = {0}, dposition[4] = {0};
    static const float dout[] = {1, 10, 100}, want[] = {23, 12, 23}, wanted[] = {0, 10, 101, 0};
    ref->embedding_forward(&e, out, token, position, NULL);
    CHECK_BYTES(out, sizeof out, want, sizeof want);
    ref->embedding_backward(&e, dtoken, dposition, dout, NULL);
    CHECK_BYTES(dposition, sizeof dposition, wanted, sizeof wanted);
}

/* Inputs: x, weight, bias, add. Out: out and sum, one after the other. */
static void norm_forward(struct function *f)
{
    struct dt_norm n = *(const struct dt_norm *)f->how;
    n.weight = f->x[1];
    n.bias = n.mean ? f->x[2] : NULL;
    ref->norm_forward(&n, f->out, f->out + n.rows * n.width, f->x[0], f->x[3], NULL);
}

static void norm_backward(struct function *f)
{
    struct dt_norm n = *(const struct dt_norm *)f->how;
    size_t size = n.rows * n.width;
    n.weight = f->x[1];
    n.bias = n.mean ? f->x[2] : NULL;
    memcpy(f->dx[0], f->weight + size, size * sizeof(float)); /* of the sum, as it goes on */
    ref->norm_backward(&n, f->dx[0], f->dx[1], n.mean ? f->dx[2] : NULL, f->out + size, f->weight,
                       NULL);
    memcpy(f->dx[3], f->dx[0], size * sizeof(float));
}

TEST(gradients_of_both_norms)
{
    enum { ROWS = 4, WIDTH = 9, N = ROWS * WIDTH };
    struct kit k = {.state = 2};
    float mean[ROWS], rstd[ROWS];
    for (int how = 0; how < 4; how++) {
        bool layer = how & 1;
        struct dt_norm n = {.rows = ROWS, .width = WIDTH, .eps = 1e-5f, .rstd = rstd};
        n.mean = layer ? mean : NULL;
        n.plus = how & 2 ? 1 : 0;
        CHECK_ROW("%s, plus %g", layer ? "LayerNorm" : "RMSNorm", (double)n.plus);
        check_function(&k, &(struct function){.n = {N, WIDTH, layer ? WIDTH : 0, N},
                                              .n_out = 2 * N,
                                              .how = &n,
                                              .forward = norm_forward,
                                              .backward = norm_backward});
    }
}

static void head_norm_forward(struct function *f)
{
    struct dt_head_norm n = *(const struct dt_head_norm *)f->how;
    n.weight = f->x[1];
    ref->head_norm_forward(&n, f->out, f->x[0], NULL);
}

static void head_norm_backward(struct function *f)
{
    struct dt_head_norm n = *(const struct dt_head_norm *)f->how;
    n.weight = f->x[1];
    ref->head_norm_backward(&n, f->dx[0], f->dx[1], f->x[0], f->weight, NULL);
}

TEST(gradients_of_norms_of_heads)
{
    enum { ROWS = 3, HEADS = 2, DIM = 5, STRIDE = HEADS * DIM };
    struct kit k = {.state = 5};
    for (int plus = 0; plus < 2; plus++) {
        struct dt_head_norm n = {.rows = ROWS,
                                 .heads = HEADS,
                                 .head_dim = DIM,
                                 .stride = STRIDE,
                                 .eps = 1e-5f,
                                 .plus = (float)plus};
        check_function(&k, &(struct function){.n = {ROWS * STRIDE, DIM},
                                              .n_out = ROWS * STRIDE,
                                              .how = &n,
                                              .forward = head_norm_forward,
                                              .backward = head_norm_backward});
    }
}

/* Models are saved with weights that are 1 less. */
TEST(a_weight_counts_as_so_much_more)
{
    static const float less[] = {-0.5f, 0, 0.25f}, weight[] = {0.5f, 1, 1.25f};
    static const float x[] = {1, -2, 0.5f};
    float rstd, out[3], want[3];
    struct dt_norm a = {.rows = 1, .width = 3, .plus = 1, .weight = less, .rstd = &rstd}, b = a;
    struct dt_head_norm c = {1, 1, 3, 3, 0, 1, less};
    b.weight = weight;
    b.plus = 0;
    ref->norm_forward(&a, out, NULL, x, NULL, NULL);
    ref->norm_forward(&b, want, NULL, x, NULL, NULL);
    CHECK_BYTES(out, sizeof out, want, sizeof want);
    ref->head_norm_forward(&c, out, x, NULL);
    kit_near("of a head", 3, out, want, 1e-6);
}

static void rope_forward(struct function *f)
{
    memcpy(f->out, f->x[0], f->n_out * sizeof(float));
    ref->rope(f->how, f->out, false, NULL);
}

static void rope_backward(struct function *f)
{
    memcpy(f->dx[0], f->weight, f->n_out * sizeof(float));
    ref->rope(f->how, f->dx[0], true, NULL);
}

/* Those of a part of a sequence are those of its rows in the whole. */
TEST(positions_count_from_the_first_one)
{
    enum { T = 7, FROM = 3, D = 4, BYTES = (T - FROM) * D * 4 };
    struct kit k = {.state = 12};
    int32_t ids[T] = {0, 3, 3, 1, 4, 0, 2};
    float *token = kit_numbers(&k, 5 * D), *place = kit_numbers(&k, T * D);
    float whole[T * D], part[T * D];
    ref->embedding_forward(&(struct dt_embedding){T, T, D, 5, ids, 0, NULL}, whole, token, place,
                           NULL);
    ref->embedding_forward(&(struct dt_embedding){T - FROM, T - FROM, D, 5, ids + FROM, FROM, NULL},
                           part, token, place, NULL);
    CHECK_BYTES(part, BYTES, whole + FROM * D, BYTES);
    for (int backward = 0; backward < 2; backward++) {
        memcpy(part, whole + FROM * D, BYTES);
        struct dt_rope all = {T, T, 1, D, D, kit_speeds(&k, D), 1, 0}, some = all;
        some.rows = some.positions = T - FROM;
        some.first = FROM;
        ref->rope(&all, whole, backward, NULL);
        ref->rope(&some, part, backward, NULL);
        CHECK_BYTES(part, BYTES, whole + FROM * D, BYTES);
    }
    kit_free(&k);
}

TEST(gradients_of_rotary_positions)
{
    struct kit k = {.state = 3};
    struct dt_rope r = {10, 5, 2, 6, 13, kit_speeds(&k, 6), 1.3f, 4};
    check_function(&k, &(struct function){.n = {130},
                                          .n_out = 130,
                                          .how = &r,
                                          .forward = rope_forward,
                                          .backward = rope_backward});
}

static struct dt_linear linear_of(const struct function *f)
{
    struct dt_linear l = *(const struct dt_linear *)f->how;
    l.weight = f->x[1];
    l.bias = f->n[2] ? f->x[2] : NULL;
    return l;
}

static void linear_forward(struct function *f)
{
    struct dt_linear l = linear_of(f);
    ref->linear_forward(&l, f->out, f->x[0], NULL);
}

static void linear_backward(struct function *f)
{
    struct dt_linear l = linear_of(f);
    ref->linear_backward(&l, f->dx[0], false, f->dx[1], l.bias ? f->dx[2] : NULL, f->x[0],
                         f->weight, NULL);
}

/* One at a time: the same bits as together, and the others are not touched. */
TEST(each_gradient_of_a_linear_layer_alone)
{
    enum { ROWS = 5, IN = 7, OUT = 6 };
    struct kit k = {.state = 13};
    struct dt_linear l = {.rows = ROWS, .in = IN, .out = OUT, .layout = DT_WEIGHT_OUT_IN};
    float *x = kit_numbers(&k, ROWS * IN), *dout = kit_numbers(&k, ROWS * OUT);
    float dx[2][ROWS * IN] = {0}, dweight[2][IN * OUT] = {0}, dbias[2][OUT] = {0};
    l.weight = kit_numbers(&k, IN * OUT);
    ref->linear_backward(&l, dx[0], true, dweight[0], dbias[0], x, dout, NULL);
    ref->linear_backward(&l, dx[1], true, NULL, NULL, NULL, dout, NULL);
    ref->linear_backward(&l, NULL, false, dweight[1], NULL, x, dout, NULL);
    ref->linear_backward(&l, NULL, false, NULL, dbias[1], NULL, dout, NULL);
    CHECK_BYTES(dx[0], sizeof dx[0], dx[1], sizeof dx[1]);
    CHECK_BYTES(dweight[0], sizeof dweight[0], dweight[1], sizeof dweight[1]);
    CHECK_BYTES(dbias[0], sizeof dbias[0], dbias[1], sizeof dbias[1]);
    kit_free(&k);
}

TEST(gradients_of_linear_layers)
{
    struct kit k = {.state = 4};
    for (int how = 0; how < 4; how++) {
        struct dt_linear l = {.rows = 5, .in = 7, .out = 6};
        l.layout = how & 1 ? DT_WEIGHT_IN_OUT : DT_WEIGHT_OUT_IN;
        CHECK_ROW("layout %d, bias %d", how & 1, how & 2);
        check_function(&k, &(struct function){.n = {35, 42, how & 2 ? 6 : 0},
                                              .n_out = 30,
                                              .how = &l,
                                              .forward = linear_forward,
                                              .backward = linear_backward});
    }
}

static void attention_forward(struct function *f)
{
    struct dt_attention a = *(const struct dt_attention *)f->how;
    a.q = f->x[0];
    a.k = f->x[1];
    a.v = f->x[2];
    ref->attention_forward(&a, f->out, NULL);
}

static void attention_backward(struct function *f)
{
    struct dt_attention a = *(const struct dt_attention *)f->how;
    a.q = f->x[0];
    a.k = f->x[1];
    a.v = f->x[2];
    ref->attention_backward(&a, f->dx[0], f->dx[1], f->dx[2], f->out, f->weight, NULL);
}

/* A third of the weights goes, those of some heads of many. */
static void drop_weights(struct dt_attention *a)
{
    a->dropout = (struct dt_dropout){.start = 31, .gone_below = UINT32_MAX / 3, .scale = 1.5f};
    a->all_heads = a->heads + 3;
    a->first_head = 2;
}

TEST(gradients_of_attention)
{
    struct kit k = {.state = 5};
    float logsum[2 * 4 * 7];
    for (size_t kv = 1; kv <= 4; kv *= 2) {
        struct dt_attention a = {.batch = 2,
                                 .queries = 7,
                                 .keys = 7,
                                 .heads = 4,
                                 .kv_heads = kv,
                                 .head_dim = 5,
                                 .q_stride = 20,
                                 .k_stride = kv * 5,
                                 .v_stride = kv * 5,
                                 .out_stride = 20,
                                 .logsum = logsum};
        CHECK_ROW("%zu key/value heads", kv);
        check_function(&k, &(struct function){.n = {14 * 20, 14 * kv * 5, 14 * kv * 5},
                                              .n_out = 14 * 20,
                                              .how = &a,
                                              .forward = attention_forward,
                                              .backward = attention_backward});
    }
}

/* Queries are the last five of nine positions, of which a document has the first two, another the
 * next four. */
TEST(gradients_of_attention_that_is_scaled_and_capped)
{
    struct kit k = {.state = 9};
    float logsum[2 * 4 * 7];
    for (int how = 1; how < 8; how++) {
        struct dt_attention a = {.batch = 2,
                                 .queries = 7,
                                 .keys = 7,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 5,
                                 .scale = how & 1 ? 0.7f : 0,
                                 .cap = how & 2 ? 1.5f : 0,
                                 .q_stride = 20,
                                 .k_stride = 10,
                                 .v_stride = 10,
                                 .out_stride = 20,
                                 .logsum = logsum};
        if (how & 4)
            drop_weights(&a);
        CHECK_ROW("scale %g, cap %g, dropout %d", (double)a.scale, (double)a.cap, how & 4);
        check_function(&k, &(struct function){.n = {14 * 20, 14 * 10, 14 * 10},
                                              .n_out = 14 * 20,
                                              .how = &a,
                                              .forward = attention_forward,
                                              .backward = attention_backward});
    }
}

/* One key alone: the logsum is its score. */
TEST(a_score_is_scaled_and_then_capped)
{
    static const float q[] = {3, 4}, kv[] = {2, 1};
    float out[2], logsum;
    struct dt_attention a = {.batch = 1,
                             .queries = 1,
                             .keys = 1,
                             .heads = 1,
                             .kv_heads = 1,
                             .head_dim = 2,
                             .q = q,
                             .k = kv,
                             .v = kv,
                             .logsum = &logsum};
    ref->attention_forward(&a, out, NULL);
    kit_near("plain", 1, &logsum, &(float){7.0710678f}, 1e-6); /* 10 / sqrt(2) */
    a.scale = 0.5f;
    ref->attention_forward(&a, out, NULL);
    kit_near("scaled", 1, &logsum, &(float){5}, 1e-6);
    a.cap = 4;
    ref->attention_forward(&a, out, NULL);
    kit_near("capped", 1, &logsum, &(float){3.3931346f}, 1e-6); /* 4 tanh(5 / 4) */
    CHECK_BYTES(out, sizeof out, kv, sizeof kv);
}

TEST(gradients_of_attention_over_parts_of_sequences)
{
    struct kit k = {.state = 8};
    float logsum[2 * 4 * 5];
    int32_t documents[] = {0, 0, 2, 2, 2, 2, 6, 6, 6, 0, 0, 0, 0, 4, 4, 4, 4, 4};
    for (int how = 0; how < 8; how++) {
        struct dt_attention a = {.batch = 2,
                                 .queries = 5,
                                 .keys = 9,
                                 .first = 4,
                                 .window = how & 1 ? 2 : 0,
                                 .documents = how & 2 ? documents : NULL,
                                 .heads = 4,
                                 .kv_heads = 2,
                                 .head_dim = 5,
                                 .q_stride = 20,
                                 .k_stride = 10,
                                 .v_stride = 10,
                                 .out_stride = 20,
                                 .logsum = logsum};
        if (how & 4)
            drop_weights(&a);
        CHECK_ROW("window %zu, documents %d, dropout %d", a.window, a.documents != NULL, how & 4);
        check_function(&k, &(struct function){.n = {10 * 20, 18 * 10, 18 * 10},
                                              .n_out = 10 * 20,
                                              .how = &a,
                                              .forward = attention_forward,
                                              .backward = attention_backward});
    }
}

enum { LENGTH = 9, DIM = 4, PART = 3 };

/* One head of LENGTH positions. */
static struct dt_attention whole_attention(struct kit *k)
{
    return (struct dt_attention){.batch = 1,
                                 .queries = LENGTH,
                                 .keys = LENGTH,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .head_dim = DIM,
                                 .q_stride = DIM,
                                 .k_stride = DIM,
                                 .v_stride = DIM,
                                 .out_stride = DIM,
                                 .q = kit_numbers(k, LENGTH * DIM),
                                 .k = kit_numbers(k, LENGTH * DIM),
                                 .v = kit_numbers(k, LENGTH * DIM),
                                 .logsum = kit_alloc(k, LENGTH * sizeof(float))};
}

/* A, of ROWS queries and keys from FROM on. */
static struct dt_attention cut_attention(struct kit *k, const struct dt_attention *a, size_t from,
                                         size_t rows)
{
    struct dt_attention c = *a;
    c.queries = c.keys = rows;
    c.documents = NULL;
    c.q = (const float *)a->q + from * DIM;
    c.k = (const float *)a->k + from * DIM;
    c.v = (const float *)a->v + from * DIM;
    c.logsum = kit_alloc(k, rows * sizeof(float));
    return c;
}

TEST(a_document_is_attended_to_as_if_it_were_alone)
{
    struct kit k = {.state = 9};
    int32_t documents[LENGTH] = {0, 0, 2, 2, 2, 2, 2, 7, 7};
    size_t begins[] = {0, 2, 7, LENGTH};
    struct dt_attention a = whole_attention(&k);
    a.documents = documents;
    float out[LENGTH * DIM], dq[LENGTH * DIM], dk[LENGTH * DIM], dv[LENGTH * DIM];
    float *dout = kit_numbers(&k, LENGTH * DIM), alone[4][LENGTH * DIM];
    ref->attention_forward(&a, out, NULL);
    ref->attention_backward(&a, dq, dk, dv, out, dout, NULL);
    for (size_t i = 0; i < 3; i++) {
        size_t at = begins[i] * DIM, rows = begins[i + 1] - begins[i], bytes = rows * DIM * 4;
        struct dt_attention c = cut_attention(&k, &a, begins[i], rows);
        ref->attention_forward(&c, alone[0], NULL);
        ref->attention_backward(&c, alone[1], alone[2], alone[3], alone[0], dout + at, NULL);
        CHECK_ROW("document %zu", i);
        CHECK_BYTES(out + at, bytes, alone[0], bytes);
        CHECK_BYTES(dq + at, bytes, alone[1], bytes);
        CHECK_BYTES(dk + at, bytes, alone[2], bytes);
        CHECK_BYTES(dv + at, bytes, alone[3], bytes);
        CHECK_BYTES(a.logsum + begins[i], rows * 4, c.logsum, rows * 4);
    }
    kit_free(&k);
}

/* Gradients of keys and values are the sums over parts of the queries. */
TEST(parts_of_the_queries_are_attended_to_as_in_the_whole)
{
    struct kit k = {.state = 10};
    struct dt_attention a = whole_attention(&k);
    float out[LENGTH * DIM], dq[LENGTH * DIM], dk[LENGTH * DIM], dv[LENGTH * DIM];
    float some[3][LENGTH * DIM], dk_sum[LENGTH * DIM] = {0}, dv_sum[LENGTH * DIM] = {0};
    float *dout = kit_numbers(&k, LENGTH * DIM);
    ref->attention_forward(&a, out, NULL);
    ref->attention_backward(&a, dq, dk, dv, out, dout, NULL);
    for (size_t first = 0; first < LENGTH; first += PART) {
        struct dt_attention c = a;
        c.first = first;
        c.queries = PART;
        c.q = (const float *)a.q + first * DIM;
        c.logsum = kit_alloc(&k, PART * sizeof(float));
        ref->attention_forward(&c, some[0], NULL);
        CHECK_ROW("from %zu", first);
        CHECK_BYTES(out + first * DIM, PART * DIM * 4, some[0], PART * DIM * 4);
        ref->attention_backward(&c, some[0], some[1], some[2], out + first * DIM,
                                dout + first * DIM, NULL);
        CHECK_BYTES(dq + first * DIM, PART * DIM * 4, some[0], PART * DIM * 4);
        for (size_t i = 0; i < LENGTH * DIM; i++) {
            dk_sum[i] += some[1][i];
            dv_sum[i] += some[2][i];
        }
    }
    kit_near("dk", LENGTH * DIM, dk_sum, dk, 1e-6);
    kit_near("dv", LENGTH * DIM, dv_sum, dv, 1e-6);
    kit_free(&k);
}

/* A window of one is the query's own key; one as long as the sequence is none; between them each
 * query reads as if its own document began where the window does. */
TEST(a_window_ends_behind_the_last_keys)
{
    struct kit k = {.state = 11};
    struct dt_attention a = whole_attention(&k);
    float out[LENGTH * DIM], want[LENGTH * DIM];
    a.window = 1;
    ref->attention_forward(&a, out, NULL);
    kit_near("a window of one", LENGTH * DIM, out, a.v, 1e-6);
    for (int32_t window = 1; window <= LENGTH; window++) {
        int32_t begins[LENGTH];
        for (int32_t t = 0; t < LENGTH; t++)
            begins[t] = t >= window ? t + 1 - window : 0;
        a.window = (size_t)window;
        a.documents = NULL;
        ref->attention_forward(&a, out, NULL);
        a.window = 0;
        a.documents = window < LENGTH ? begins : NULL;
        ref->attention_forward(&a, want, NULL);
        CHECK_ROW("a window of %d", (int)window);
        CHECK_BYTES(out, sizeof out, want, sizeof want);
    }
    kit_free(&k);
}

static void gelu_forward(struct function *f)
{
    ref->gelu_forward(f->n_out, f->out, f->x[0], NULL);
}

static void gelu_backward(struct function *f)
{
    ref->gelu_backward(f->n_out, f->dx[0], f->x[0], f->weight, NULL);
}

static void swiglu_forward(struct function *f)
{
    ref->swiglu_forward(&(struct dt_gate){1, f->n_out, 0}, f->out, f->x[0], f->x[1], NULL);
}

static void swiglu_backward(struct function *f)
{
    ref->swiglu_backward(&(struct dt_gate){1, f->n_out, 0}, f->dx[0], f->dx[1], f->x[0], f->x[1],
                         f->weight, NULL);
}

static void geglu_forward(struct function *f)
{
    ref->geglu_forward(&(struct dt_gate){1, f->n_out, 0}, f->out, f->x[0], f->x[1], NULL);
}

static void geglu_backward(struct function *f)
{
    ref->geglu_backward(&(struct dt_gate){1, f->n_out, 0}, f->dx[0], f->dx[1], f->x[0], f->x[1],
                        f->weight, NULL);
}

TEST(gradients_of_activations)
{
    struct kit k = {.state = 6};
    check_function(&k,
                   &(struct function){
                       .n = {40}, .n_out = 40, .forward = gelu_forward, .backward = gelu_backward});
    check_function(&k, &(struct function){.n = {40, 40},
                                          .n_out = 40,
                                          .forward = swiglu_forward,
                                          .backward = swiglu_backward});
    check_function(
        &k, &(struct function){
                .n = {40, 40}, .n_out = 40, .forward = geglu_forward, .backward = geglu_backward});
}

/* Out are the losses. */
static void loss_forward(struct function *f)
{
    ref->cross_entropy(f->how, f->out, f->x[0], false, NULL);
}

static void loss_backward(struct function *f)
{
    struct dt_cross_entropy c = *(const struct dt_cross_entropy *)f->how;
    c.scale = 0.5f;
    for (size_t i = 0; i < c.rows; i++)
        f->weight[i] = c.weights ? c.scale * c.weights[i] : c.scale;
    float *losses = f->out;
    memcpy(f->dx[0], f->x[0], f->n[0] * sizeof(float));
    ref->cross_entropy(&c, losses, f->dx[0], true, NULL);
}

TEST(gradients_of_cross_entropy)
{
    struct kit k = {.state = 7};
    int32_t targets[] = {0, 8, -1, 3};
    static const float weights[] = {-1.5f, 0, 2, 0.25f};
    for (int how = 0; how < 4; how++) {
        struct dt_cross_entropy c = {4, 9, 11, targets, 1, how % 2 ? 1.2f : 0, NULL};
        c.weights = how / 2 ? weights : NULL;
        CHECK_ROW("cap %g%s", (double)c.cap, c.weights ? ", weighed" : "");
        check_function(&k, &(struct function){.n = {44},
                                              .n_out = 4,
                                              .how = &c,
                                              .forward = loss_forward,
                                              .backward = loss_backward});
    }
}

/* The numbers of a format, by its definition. */
static double value_of(unsigned bits, int fraction_bits, int bias)
{
    int exponent_bits = 15 - fraction_bits, top = (1 << exponent_bits) - 1;
    int exponent = (int)(bits >> fraction_bits) & top;
    int fraction = (int)bits & ((1 << fraction_bits) - 1);
    double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == top)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - fraction_bits);
    return sign * ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
}

/* Each number comes back as itself; half-way to the next goes to the even one, and a little less or
 * more to the nearer one, from doubles too. */
TEST(sixteen_bits_are_rounded_to_the_nearest)
{
    static const struct {
        enum dt_dtype type;
        int fraction_bits, bias;
    } rows[] = {{DT_BF16, 7, 127}, {DT_F16, 10, 15}};
    for (int r = 0; r < 2; r++) {
        unsigned infinity = (0x7fffu >> rows[r].fraction_bits) << rows[r].fraction_bits;
        unsigned wrong = 0;
        for (unsigned bits = 0; bits < infinity; bits++) {
            double low = value_of(bits, rows[r].fraction_bits, rows[r].bias);
            double high = value_of(bits + 1, rows[r].fraction_bits, rows[r].bias);
            if (bits + 1 == infinity)
                high = 2 * low - value_of(bits - 1, rows[r].fraction_bits, rows[r].bias);
            double middle = (low + high) / 2,
                   x[] = {low, middle, middle * (1 - 0x1p-40), middle * (1 + 0x1p-40), -middle};
            unsigned want[] = {bits, bits + (bits & 1), bits, bits + 1, bits + (bits & 1) + 0x8000};
            for (int i = 0; i < 5; i++) {
                float f = (float)x[i], back;
                uint16_t from_double, from_float;
                ref->cast(1, &from_double, rows[r].type, &x[i], DT_F64, NULL);
                ref->cast(1, &from_float, rows[r].type, &f, DT_F32, NULL);
                ref->cast(1, &back, DT_F32, &from_double, rows[r].type, NULL);
                double wanted = value_of(want[i], rows[r].fraction_bits, rows[r].bias);
                wrong += from_double != want[i] || ((double)f == x[i] && from_float != want[i]) ||
                         (double)back != wanted;
            }
        }
        CHECK_ROW("type %d", rows[r].type);
        CHECK_EQ(wrong, 0);
        CHECK(isnan(dt_f16_to_float(dt_float_to_f16(NAN))));
        CHECK(isnan(dt_bf16_to_float(dt_float_to_bf16(NAN))));
    }
}

/* A quarter goes, the others grow, so the mean stays; and a call that begins K elements later finds
 * the same. */
TEST(dropout_keeps_the_mean_and_hangs_on_the_place_alone)
{
    enum { N = 100000, K = 777 };
    struct kit k = {.state = 3};
    struct dt_dropout d = {.start = 99, .gone_below = 1u << 30, .scale = 4.0f / 3};
    float *x = kit_alloc(&k, N * sizeof *x), *out = kit_alloc(&k, N * sizeof *out);
    float *later = kit_alloc(&k, (N - K) * sizeof *later);
    double sum = 0;
    size_t gone = 0;
    for (size_t i = 0; i < N; i++)
        x[i] = 1;
    ref->dropout(&d, N, out, false, x, NULL);
    for (size_t i = 0; i < N; i++) {
        sum += (double)out[i];
        gone += out[i] == 0;
    }
    CHECK_ROW("mean %g, %zu gone", sum / N, gone);
    CHECK(fabs(sum / N - 1) < 0.01 && gone > N / 4 - 1000 && gone < N / 4 + 1000);
    d.start += K;
    ref->dropout(&d, N - K, later, false, x + K, NULL);
    CHECK_BYTES(later, (N - K) * sizeof *later, out + K, (N - K) * sizeof *out);
    kit_free(&k);
}

/* Of HEADS heads from FIRST on of four: all weights of a query are alike, and what of each is left
 * stands in OUT at its key. */
static void show_weights(struct kit *k, size_t first, size_t heads, float *out)
{
    enum { B = 2, T = 40 };
    float *zero = kit_alloc(k, B * T * heads * T * sizeof *zero);
    float *v = kit_alloc(k, B * T * T * sizeof *v);
    struct dt_attention a = {.batch = B,
                             .queries = T,
                             .keys = T,
                             .heads = heads,
                             .kv_heads = 1,
                             .head_dim = T,
                             .q_stride = heads * T,
                             .k_stride = T,
                             .v_stride = T,
                             .out_stride = heads * T,
                             .q = zero,
                             .k = zero,
                             .v = v,
                             .logsum = kit_alloc(k, B * heads * T * sizeof(float)),
                             .dropout = {.start = 5, .gone_below = 1u << 30, .scale = 4.0f / 3},
                             .all_heads = 4,
                             .first_head = first};
    for (size_t s = 0; s < B * T; s++)
        v[s * T + s % T] = 1;
    ref->attention_forward(&a, out, NULL);
}

/* A quarter goes, by the number of sample, head, query and key; a rank with some of the heads finds
 * the same as one with all. */
TEST(weights_of_attention_go_by_their_numbers)
{
    enum { B = 2, T = 40, H = 4, HALF = 2 };
    struct kit k = {.state = 3};
    float *all = kit_alloc(&k, B * T * H * T * sizeof *all);
    float *half = kit_alloc(&k, B * T * HALF * T * sizeof *half);
    size_t gone = 0, seen = 0;
    show_weights(&k, 0, H, all);
    show_weights(&k, HALF, HALF, half);
    for (size_t b = 0; b < B; b++)
        for (size_t h = 0; h < H; h++)
            for (size_t t = 0; t < T; t++)
                for (size_t s = 0; s <= t; s++) {
                    uint32_t bits = dt_chance_bits(5, ((b * H + h) * T + t) * T + s);
                    float want = bits < 1u << 30 ? 0 : 4.0f / 3 / (float)(t + 1);
                    float is = all[((b * T + t) * H + h) * T + s];
                    gone += is == 0;
                    seen++;
                    CHECK_ROW("sample %zu, head %zu, query %zu, key %zu: %g", b, h, t, s,
                              (double)is);
                    CHECK(fabsf(is - want) <= 1e-6f);
                    CHECK(h < HALF || is == half[((b * T + t) * HALF + h - HALF) * T + s]);
                }
    CHECK_ROW("%zu of %zu gone", gone, seen);
    CHECK(gone > seen * 23 / 100 && gone < seen * 27 / 100);
    kit_free(&k);
}

TEST(devices_that_are_not_there_are_told_of)
{
    struct dt_err err;
    CHECK(dt_device_open(&(struct dt_device_wish){.kind = "cuda", .threads = 1}, &err) == NULL);
    CHECK(strstr(err.text, "no CUDA plugin") != NULL);
    CHECK(dt_device_open(&(struct dt_device_wish){.kind = "tpu", .threads = 1}, &err) == NULL);
    CHECK_STR(err.text, "\"tpu\" is not a device; give auto, cpu or cuda");
    struct dt_device *d =
        dt_device_open(&(struct dt_device_wish){.kind = "auto", .threads = 2}, &err);
    CHECK(d != NULL);
    CHECK_STR(d->name, "cpu");
    float *x = dt_device_alloc(d, 100 * sizeof *x, "a test", &err), y[2] = {1, 2};
    CHECK(x != NULL && x[99] == 0 && (uintptr_t)x % 64 == 0);
    d->table->from_host(d, x, y, sizeof y);
    d->table->to_host(d, y + 1, x, sizeof *y);
    CHECK(y[1] == 1);
    d->table->clear(d, x, sizeof y);
    CHECK(x[1] == 0);
    CHECK_OK(dt_device_sync(d, &err), err);
    dt_device_free(d, x);
    dt_device_close(d);
}
