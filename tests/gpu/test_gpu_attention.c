/* SPDX-License-Identifier: Apache-2.0 */
/* Attention on a GPU against its twin. The shapes have one position, odd numbers of them, and
 * numbers about the tiles' 32, 64 and 128 rows; heads alone, shared by some and by all; the head
 * sizes that tensor cores take and others. Rows of bfloat16 that begin 16-byte aligned are what the
 * tensor cores' kernels want; with rows that do not, the same shapes go to the plain ones.
 *
 * q, k and v, and their gradients, are in one array each: side by side in each row, or one behind
 * the other with strides of their own. What lies between is not to change.
 *
 * Errors allowed: what floats lose in sums of some hundred; for bfloat16, half a unit of the last
 * place (2^-8 at most) for rounding the result, and as much for weights, which the tensor cores
 * take rounded. */
#include "tests/gpu/gpu_kit.h"
#include "tests/lib/sanitized.h"

struct shape {
    size_t batch, positions, heads, kv_heads, head_dim;
};

enum { ALIGNED = 8, UNALIGNED = 3 }; /* elements between rows */

struct layout {
    struct dt_attention a; /* sizes and strides */
    size_t k_at, v_at;     /* q is at 0 */
    size_t n, n_out, n_logsum;
};

static struct layout lay_out(const struct shape *s, size_t gap, bool together)
{
    size_t rows = s->batch * s->positions, q = s->heads * s->head_dim,
           kv = s->kv_heads * s->head_dim;
    struct layout l = {.a = {.batch = s->batch,
                             .queries = s->positions,
                             .keys = s->positions,
                             .heads = s->heads,
                             .kv_heads = s->kv_heads,
                             .head_dim = s->head_dim,
                             .out_stride = q + gap}};
    if (together) {
        l.a.q_stride = l.a.k_stride = l.a.v_stride = q + 2 * kv + gap;
        l.k_at = q;
        l.v_at = q + kv;
        l.n = rows * l.a.q_stride;
    } else {
        l.a.q_stride = q + gap;
        l.a.k_stride = kv + 2 * gap;
        l.a.v_stride = kv;
        l.k_at = rows * l.a.q_stride;
        l.v_at = l.k_at + rows * l.a.k_stride;
        l.n = l.v_at + rows * l.a.v_stride;
    }
    l.n_out = rows * l.a.out_stride;
    l.n_logsum = s->batch * s->heads * s->positions;
    return l;
}

/* QUERIES from position FIRST on, and keys and values of all positions, side by side in rows of
 * their own. */
static struct layout lay_out_part(const struct shape *s, size_t first, size_t queries)
{
    struct layout l = lay_out(s, ALIGNED, false);
    size_t kv = s->kv_heads * s->head_dim;
    l.a.first = first;
    l.a.queries = queries;
    l.a.k_stride = l.a.v_stride = 2 * kv + ALIGNED;
    l.k_at = s->batch * queries * l.a.q_stride;
    l.v_at = l.k_at + kv;
    l.n = l.k_at + s->batch * s->positions * l.a.k_stride;
    l.n_out = s->batch * queries * l.a.out_stride;
    l.n_logsum = s->batch * s->heads * queries;
    return l;
}

/* The sizes and strides of L with these arrays; ELEM: bytes of an element. */
static struct dt_attention with(const struct layout *l, const void *qkv, float *logsum, size_t elem)
{
    struct dt_attention a = l->a;
    a.q = qkv;
    a.k = (const uint8_t *)qkv + l->k_at * elem;
    a.v = (const uint8_t *)qkv + l->v_at * elem;
    a.logsum = logsum;
    return a;
}

static void backward(const struct dt_ops *ops, const struct layout *l, const struct dt_attention *a,
                     void *dqkv, const void *out, const void *dout, size_t elem,
                     struct dt_stream *s)
{
    uint8_t *at = dqkv;
    ops->attention_backward(a, at, at + l->k_at * elem, at + l->v_at * elem, out, dout, s);
}

/* MARKS what rows of WIDTH cover. */
static void mark(bool *marks, size_t rows, size_t width, size_t stride)
{
    for (size_t r = 0; r < rows; r++)
        memset(marks + r * stride, true, width);
}

/* What is not marked is as BEFORE. */
static void untouched(const char *what, size_t n, const float *is, const float *before,
                      const bool *marks)
{
    size_t changed = 0;
    for (size_t i = 0; i < n; i++)
        changed += !marks[i] && memcmp(&is[i], &before[i], sizeof *is) != 0;
    CHECK_ROW("between rows of %s", what);
    CHECK_EQ(changed, 0);
}

static void look_between_rows(struct gpu_kit *g, const struct layout *l, const float *out,
                              const float *out_before, const float *dqkv, const float *dqkv_before)
{
    size_t rows = l->a.batch * l->a.queries, keys = l->a.batch * l->a.keys;
    size_t q = l->a.heads * l->a.head_dim, kv = l->a.kv_heads * l->a.head_dim;
    bool *marks = kit_alloc(&g->k, l->n_out);
    mark(marks, rows, q, l->a.out_stride);
    untouched("out", l->n_out, out, out_before, marks);
    marks = kit_alloc(&g->k, l->n);
    mark(marks, rows, q, l->a.q_stride);
    mark(marks + l->k_at, keys, kv, l->a.k_stride);
    mark(marks + l->v_at, keys, kv, l->a.v_stride);
    untouched("dq, dk, dv", l->n, dqkv, dqkv_before, marks);
}

/* Of the arithmetic; gpu_near() adds the rounding of the result. */
static double allowed(const struct gpu_kit *g, double single)
{
    return g->elem == DT_BF16 ? 0x1p-8 + single : single;
}

enum array { NONE, QKV, OUT, DQKV, DOUT, ARRAYS };

/* On the device, one element behind an aligned address if this is the array to be ODD. */
static void *up(struct gpu_kit *g, size_t n, const float *x, enum array array, enum array odd)
{
    g->shift = array == odd;
    void *at = gpu_up(g, n, x);
    g->shift = 0;
    return at;
}

/* Of QKV, both ways; SINGLE and SINGLE_BACK are what floats may be off. */
static void compare_of(struct gpu_kit *g, const struct layout *l, const float *qkv, double single,
                       double single_back, enum array odd)
{
    float *dqkv = gpu_numbers(g, l->n);
    float *out = gpu_numbers(g, l->n_out), *dout = gpu_numbers(g, l->n_out);
    float *logsum = kit_alloc(&g->k, l->n_logsum * sizeof *logsum);
    const float *out_before = kit_copy(&g->k, l->n_out, out), *before = kit_copy(&g->k, l->n, dqkv);
    void *out_at = up(g, l->n_out, out, OUT, odd), *dqkv_at = up(g, l->n, dqkv, DQKV, odd);
    float *logsum_at = gpu_bytes(g, l->n_logsum * sizeof *logsum, NULL, 0);
    struct dt_attention here = with(l, qkv, logsum, sizeof *qkv);
    struct dt_attention there = with(l, up(g, l->n, qkv, QKV, odd), logsum_at, gpu_size(g));
    if (l->a.documents)
        there.documents = gpu_up_ids(g, l->a.batch * l->a.keys, l->a.documents);
    ref->attention_forward(&here, out, NULL);
    g->ops->attention_forward(&there, out_at, g->s);
    gpu_near(g, "out", l->n_out, out_at, out, allowed(g, single));
    gpu_near_float(g, "logsum", l->n_logsum, logsum_at, logsum, 2e-6);
    const float *is = gpu_down(g, l->n_out, out_at);
    /* The way back begins with the same out on both sides. */
    gpu_rounded(g, l->n_out, out);
    backward(ref, l, &here, dqkv, out, dout, sizeof *qkv, NULL);
    backward(g->ops, l, &there, dqkv_at, up(g, l->n_out, out, OUT, odd),
             up(g, l->n_out, dout, DOUT, odd), gpu_size(g), g->s);
    gpu_near(g, "dq, dk, dv", l->n, dqkv_at, dqkv, allowed(g, single_back));
    look_between_rows(g, l, is, out_before, gpu_down(g, l->n, dqkv_at), before);
    gpu_free(g);
}

static void compare(struct gpu_kit *g, const struct shape *s, size_t gap, bool together)
{
    CHECK_ROW("batch %zu positions %zu heads %zu/%zu dim %zu gap %zu together %d", s->batch,
              s->positions, s->heads, s->kv_heads, s->head_dim, gap, together);
    struct layout l = lay_out(s, gap, together);
    compare_of(g, &l, gpu_numbers(g, l.n), 5e-6, 1e-5, NONE);
}

static void around_the_tiles(struct gpu_kit *g)
{
    static const size_t positions[] = {1, 3, 16, 32, 33, 63, 64, 65, 127, 128, 129, 200, 257};
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        compare(g, &(struct shape){1, positions[i], 2, 1, 64}, ALIGNED, i % 2);
        compare(g, &(struct shape){1, positions[i], 1, 1, 128}, ALIGNED, i % 2 == 0);
    }
}

TEST(positions_around_the_tiles)
{
    gpu_each(around_the_tiles);
}

/* The heads of a group go back in one block, in one each, and in some each: by how many blocks
 * there are for the multiprocessors of the mock GPU, which has eight. */
static void shared_heads(struct gpu_kit *g)
{
    static const struct shape shapes[] = {
        {2, 33, 3, 3, 64}, {2, 70, 4, 2, 64},   {1, 40, 3, 1, 64},  {12, 33, 4, 2, 64},
        {1, 33, 6, 2, 64}, {1, 140, 2, 1, 128}, {2, 33, 4, 2, 128}, {3, 130, 12, 2, 64},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        compare(g, &shapes[i], ALIGNED, true);
        compare(g, &shapes[i], 0, false);
    }
}

TEST(heads_that_share_keys_and_values)
{
    gpu_each(shared_heads);
}

static void any_head_dim(struct gpu_kit *g)
{
    static const struct shape shapes[] = {{1, 1, 1, 1, 1},    {2, 37, 2, 1, 5},   {1, 65, 2, 2, 16},
                                          {1, 40, 3, 3, 65},  {1, 70, 2, 1, 80},  {1, 33, 2, 1, 96},
                                          {1, 70, 2, 1, 200}, {2, 33, 2, 2, 256}, {1, 65, 2, 1, 64},
                                          {1, 40, 2, 1, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        compare(g, &shapes[i], UNALIGNED, i % 2);
}

TEST(any_head_dim_and_rows_that_begin_anywhere)
{
    gpu_each(any_head_dim);
}

static void scaled_and_capped(struct gpu_kit *g)
{
    static const struct shape shapes[] = {
        {2, 37, 2, 1, 5}, {1, 40, 2, 1, 64}, {1, 33, 1, 1, 128}, {1, 20, 1, 1, 256}};
    for (size_t i = 0; i < 3 * sizeof shapes / sizeof shapes[0]; i++) {
        struct layout l = lay_out(&shapes[i / 3], ALIGNED, i % 2);
        l.a.scale = i % 3 == 1 ? 0 : 0.03f;
        l.a.cap = i % 3 == 0 ? 0 : 0.7f;
        CHECK_ROW("dim %zu, scale %g, cap %g", l.a.head_dim, (double)l.a.scale, (double)l.a.cap);
        compare_of(g, &l, gpu_numbers(g, l.n), 5e-6, 1e-5, NONE);
    }
}

TEST(scores_that_are_scaled_and_capped)
{
    gpu_each(scaled_and_capped);
}

static void one_odd_array(struct gpu_kit *g)
{
    static const struct shape shapes[] = {{1, 35, 2, 1, 64}, {1, 35, 1, 1, 128}};
    for (size_t i = 0; i < 2 * (ARRAYS - QKV); i++) {
        enum array odd = QKV + i / 2;
        CHECK_ROW("dim %zu, array %d", shapes[i % 2].head_dim, odd);
        struct layout l = lay_out(&shapes[i % 2], ALIGNED, true);
        compare_of(g, &l, gpu_numbers(g, l.n), 5e-6, 1e-5, odd);
    }
}

TEST(any_of_the_arrays_may_begin_at_an_odd_place)
{
    gpu_each(one_odd_array);
}

/* Scores of some hundreds: weights of 0 and 1, sums that would overflow without care. */
static void steep(struct gpu_kit *g)
{
    static const struct shape shape = {1, 100, 2, 1, 64};
    struct layout l = lay_out(&shape, ALIGNED, true);
    float *qkv = gpu_numbers(g, l.n), *out = gpu_numbers(g, l.n_out);
    float *logsum = kit_alloc(&g->k, l.n_logsum * sizeof *logsum);
    for (size_t i = 0; i < l.n; i++)
        qkv[i] *= i % l.a.q_stride < l.v_at ? 8 : 1;
    void *out_at = gpu_up(g, l.n_out, out);
    float *logsum_at = gpu_bytes(g, l.n_logsum * sizeof *logsum, NULL, 0);
    struct dt_attention here = with(&l, qkv, logsum, sizeof *qkv);
    struct dt_attention there = with(&l, gpu_up(g, l.n, qkv), logsum_at, gpu_size(g));
    ref->attention_forward(&here, out, NULL);
    g->ops->attention_forward(&there, out_at, g->s);
    gpu_near(g, "out", l.n_out, out_at, out, allowed(g, 1e-4)); /* a score's last place is 2^-16 */
    gpu_near_float(g, "logsum", l.n_logsum, logsum_at, logsum, 2e-6);
}

TEST(steep_scores)
{
    gpu_each(steep);
}

/* Keys of -1 and 1, and queries that are eight times one of them: their score with it is 8 sqrt(D),
 * while others are about as far from 0 as 8. So a weight that is 1 or 0 hangs on which keys a query
 * sees, and no tolerance hides one too many or too few. Of four queries one wants the next key,
 * which it must not see, one its own, one the key before, and one the first. */
static float *pointed(struct gpu_kit *g, const struct layout *l)
{
    const struct dt_attention *a = &l->a;
    size_t D = a->head_dim, group = a->heads / a->kv_heads;
    float *qkv = gpu_numbers(g, l->n), *k = qkv + l->k_at;
    for (size_t row = 0; row < a->batch * a->keys; row++)
        for (size_t i = 0; i < a->kv_heads * D; i++)
            k[row * a->k_stride + i] = kit_random(&g->k) & 1 ? 1 : -1;
    for (size_t row = 0; row < a->batch * a->queries; row++) {
        size_t t = a->first + row % a->queries, first = row / a->queries * a->keys;
        size_t wanted[] = {t + 1 < a->keys ? t + 1 : t, t, t > 0 ? t - 1 : t, 0};
        for (size_t h = 0; h < a->heads; h++)
            for (size_t d = 0; d < D; d++)
                qkv[row * a->q_stride + h * D + d] =
                    8 * k[(first + wanted[(t + h) % 4]) * a->k_stride + h / group * D + d];
    }
    return qkv;
}

static void one_key_each(struct gpu_kit *g)
{
    static const struct shape shapes[] = {
        {1, 257, 2, 1, 64},  {2, 130, 3, 3, 64}, {1, 200, 2, 1, 128},
        {1, 257, 1, 1, 128}, {2, 70, 2, 1, 40},  {1, 66, 1, 1, 200},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *s = &shapes[i];
        CHECK_ROW("batch %zu positions %zu dim %zu", s->batch, s->positions, s->head_dim);
        struct layout l = lay_out(s, ALIGNED, i % 2);
        compare_of(g, &l, pointed(g, &l), 1e-4, 1e-4, NONE);
    }
}

TEST(a_query_sees_its_own_key_and_the_first_but_not_the_next)
{
    gpu_each(one_key_each);
}

/* Where the document of each position begins; there is a new one every LENGTH positions or so. */
static int32_t *documents_of(struct gpu_kit *g, const struct shape *s, size_t length)
{
    int32_t *begins = kit_alloc(&g->k, s->batch * s->positions * sizeof *begins);
    for (size_t b = 0; length > 0 && b < s->batch; b++)
        for (size_t t = 0; t < s->positions; t++)
            begins[b * s->positions + t] = t == 0 ? 0
                                           : kit_random(&g->k) % length == 0
                                               ? (int32_t)t
                                               : begins[b * s->positions + t - 1];
    return begins;
}

/* A sanitizer, under which these take minutes on the mock GPU, sees half the rows of a table with
 * each shape, and the other half with the next. */
static bool left_to_others(size_t shape, size_t row)
{
    return SANITIZED && (shape + row / 2) % 2 == 1;
}

static void parts_of_the_past(struct gpu_kit *g)
{
    static const struct shape shapes[] = {
        {1, 200, 2, 1, 64}, {2, 70, 2, 2, 64}, {1, 200, 1, 1, 128}, {2, 70, 1, 1, 40}};
    static const struct {
        size_t window, documents;
    } pasts[] = {{1, 0}, {32, 0}, {65, 0}, {129, 0}, {0, 3}, {0, 50}, {20, 40}, {1000, 70}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (size_t k = 0; k < sizeof pasts / sizeof pasts[0]; k++) {
            if (left_to_others(i, k))
                continue;
            struct layout l = lay_out(&shapes[i], ALIGNED, k % 2);
            l.a.window = pasts[k].window;
            if (pasts[k].documents > 0)
                l.a.documents = documents_of(g, &shapes[i], pasts[k].documents);
            CHECK_ROW("positions %zu dim %zu, a window of %zu, documents of %zu",
                      shapes[i].positions, shapes[i].head_dim, pasts[k].window, pasts[k].documents);
            compare_of(g, &l, pointed(g, &l), 1e-4, 1e-4, NONE);
        }
    }
}

TEST(a_query_sees_its_window_and_its_document_only)
{
    gpu_each(parts_of_the_past);
}

/* As ranks have them that share samples: queries of some positions, keys of all. */
static void queries_of_some_positions(struct gpu_kit *g)
{
    static const struct shape shapes[] = {
        {1, 200, 2, 1, 64}, {2, 130, 3, 3, 64}, {1, 200, 2, 1, 128}, {2, 70, 2, 1, 40}};
    static const struct {
        size_t first, behind; /* in hundredths of the positions */
        size_t window, documents;
    } parts[] = {{0, 25, 0, 0},  {25, 50, 65, 0},   {75, 100, 0, 0}, {33, 71, 0, 40},
                 {50, 75, 1, 0}, {99, 100, 20, 40}, {60, 61, 0, 0},  {1, 99, 1000, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++) {
            if (left_to_others(i, k))
                continue;
            const struct shape *s = &shapes[i];
            size_t first = s->positions * parts[k].first / 100;
            size_t behind = s->positions * parts[k].behind / 100;
            struct layout l = lay_out_part(s, first, behind > first ? behind - first : 1);
            l.a.window = parts[k].window;
            if (parts[k].documents > 0)
                l.a.documents = documents_of(g, s, parts[k].documents);
            CHECK_ROW("dim %zu, queries %zu to %zu of %zu, a window of %zu, documents of %zu",
                      s->head_dim, first, behind, s->positions, parts[k].window,
                      parts[k].documents);
            compare_of(g, &l, pointed(g, &l), 1e-4, 1e-4, NONE);
        }
    }
}

TEST(queries_may_be_of_some_positions_alone)
{
    gpu_each(queries_of_some_positions);
}

/* Rows of all there is, q, k, v, out and the gradients, STRIDE apart in one array: what is in them
 * afterwards, and logsum. ROWS: before. NULL where there is no such memory. */
static uint8_t *after_both_ways(struct gpu_kit *g, const struct shape *s, size_t stride,
                                const uint8_t *rows)
{
    struct dt_err err = {0};
    size_t n = s->batch * s->positions, size = gpu_size(g), q = s->heads * s->head_dim;
    size_t kv = s->kv_heads * s->head_dim, qkv = q + 2 * kv, width = 2 * qkv + 2 * q;
    size_t stats = s->batch * s->heads * s->positions * sizeof(float);
    uint8_t *at = dt_device_alloc(g->device, n * stride * size, "a test", &err);
    if (!at)
        return NULL;
    for (size_t r = 0; r < n; r++)
        g->device->table->from_host(g->device, at + r * stride * size, rows + r * width * size,
                                    width * size);
    struct layout l = lay_out(s, 0, true);
    l.a.q_stride = l.a.k_stride = l.a.v_stride = l.a.out_stride = stride;
    struct dt_attention a = with(&l, at, gpu_bytes(g, stats, NULL, 0), size);
    uint8_t *out = at + qkv * size, *dout = out + q * size, *dqkv = dout + q * size;
    g->ops->attention_forward(&a, out, g->s);
    backward(g->ops, &l, &a, dqkv, out, dout, size, g->s);
    uint8_t *after = kit_alloc(&g->k, n * width * size + stats);
    for (size_t r = 0; r < n; r++)
        gpu_to_host(g, after + r * width * size, at + r * stride * size, width * size);
    gpu_to_host(g, after + n * width * size, a.logsum, stats);
    dt_device_free(g->device, at);
    return after;
}

/* The last row of the first sequence is where an index of 32 bits, signed or not, begins anew. */
static void far_rows(struct gpu_kit *g)
{
    static const struct shape shapes[] = {{2, 33, 2, 1, 64}, {2, 33, 2, 1, 128}, {2, 33, 2, 1, 24}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const struct shape *s = &shapes[i];
        CHECK_ROW("dim %zu", s->head_dim);
        size_t n = s->batch * s->positions, width = (4 * s->heads + 4 * s->kv_heads) * s->head_dim;
        size_t size = gpu_size(g), stats = s->batch * s->heads * s->positions * sizeof(float);
        const float *x = gpu_numbers(g, n * width);
        uint8_t *rows = kit_alloc(&g->k, n * width * size);
        gpu_to_host(g, rows, gpu_up(g, n * width, x), n * width * size);
        const uint8_t *near = after_both_ways(g, s, width, rows);
        const uint8_t *far = after_both_ways(g, s, (size_t)1 << 27, rows);
        CHECK(near != NULL);
        if (!far)
            printf("# no memory for rows that far apart\n");
        else
            CHECK_BYTES(far, n * width * size + stats, near, n * width * size + stats);
        gpu_free(g);
    }
}

TEST(rows_may_lie_further_apart_than_32_bits_can_count)
{
    const char *memory = getenv("DT_EMULATOR_MEMORY");
    char *kept = memory ? strdup(memory) : NULL;
    setenv("DT_EMULATOR_MEMORY", "68719476736",
           1); /* of a mock GPU; only what is touched is real */
    gpu_each(far_rows);
    if (kept)
        setenv("DT_EMULATOR_MEMORY", kept, 1);
    else
        unsetenv("DT_EMULATOR_MEMORY");
    free(kept);
}

/* SEED: of a mock GPU, the order that its threads take their turns in. */
static uint8_t *bytes_of_a_run(struct gpu_kit *g, const struct layout *l,
                               const struct dt_attention *a, const void *dout, const char *seed)
{
    size_t n_out = l->n_out * gpu_size(g), n = l->n * gpu_size(g), stats = l->n_logsum * 4;
    uint8_t *bytes = kit_alloc(&g->k, n_out + n + stats);
    void *out = gpu_bytes(g, n_out, NULL, 0), *dqkv = gpu_bytes(g, n, NULL, 0);
    setenv("DT_EMULATOR_SEED", seed, 1);
    g->ops->attention_forward(a, out, g->s);
    backward(g->ops, l, a, dqkv, out, dout, gpu_size(g), g->s);
    gpu_to_host(g, bytes, out, n_out);
    gpu_to_host(g, bytes + n_out, dqkv, n);
    gpu_to_host(g, bytes + n_out + n, a->logsum, stats);
    return bytes;
}

static void repeats(struct gpu_kit *g)
{
    static const struct shape shapes[] = {
        {2, 130, 4, 2, 64}, {1, 70, 3, 1, 128}, {1, 50, 2, 1, 24}};
    static const char *const seeds[] = {"0", "0", "1", "5"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct layout l = lay_out(&shapes[i], 0, true);
        size_t all = (l.n_out + l.n) * gpu_size(g) + l.n_logsum * 4;
        void *qkv = gpu_up(g, l.n, gpu_numbers(g, l.n));
        void *dout = gpu_up(g, l.n_out, gpu_numbers(g, l.n_out));
        float *logsum = gpu_bytes(g, l.n_logsum * 4, NULL, 0);
        struct dt_attention a = with(&l, qkv, logsum, gpu_size(g));
        uint8_t *first = NULL;
        for (size_t n = 0; n < sizeof seeds / sizeof seeds[0]; n++) {
            uint8_t *now = bytes_of_a_run(g, &l, &a, dout, seeds[n]);
            first = first ? first : now;
            CHECK_ROW("dim %zu, run %zu", l.a.head_dim, n);
            CHECK_BYTES(now, all, first, all);
        }
        gpu_free(g);
    }
}

TEST(the_same_again_has_the_same_bits)
{
    const char *seed = getenv("DT_EMULATOR_SEED");
    char *kept = seed ? strdup(seed) : NULL;
    gpu_each(repeats);
    if (kept)
        setenv("DT_EMULATOR_SEED", kept, 1);
    else
        unsetenv("DT_EMULATOR_SEED");
    free(kept);
}

static void nothing(struct gpu_kit *g)
{
    struct dt_err err = {0};
    struct dt_attention a = {.heads = 2, .kv_heads = 1, .head_dim = 64};
    void *at = gpu_bytes(g, 8, NULL, 0);
    a.q = a.k = a.v = at;
    a.logsum = at;
    g->ops->attention_forward(&a, at, g->s);
    g->ops->attention_backward(&a, at, at, at, at, at, g->s);
    CHECK_OK(dt_device_sync(g->device, &err), err);
}

TEST(no_rows_are_nothing_to_do)
{
    gpu_each(nothing);
}

BEFORE_ALL
{
    gpu_plugin_or_skip();
}
