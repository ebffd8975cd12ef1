/* SPDX-License-Identifier: Apache-2.0 */
/* Attention by blocks: BLOCK queries at a time meet a chunk of up to KEYS keys, in small matrix
 * products whose scores stay in the cache. A block looks at no chunk that none of its queries
 * reads. Where there are more than KEYS keys the softmax goes on from chunk to chunk: what was
 * summed up under the largest score so far is scaled down when a larger one comes. A chunk is
 * turned on its side once for all the blocks that meet it, or the BLAS would do so for each.
 *
 * Keys that join others go on from what these left: out is that of keys whose scores sum to 1 under
 * a largest one that is their logsum.
 *
 * Backwards the weights come again from the logsum that the forward pass kept. A part is one
 * key/value head of one sequence with all its queries, so each gradient is added up by one thread,
 * in one order. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/cpu/blas.h"
#include "worker_runtime/ops/cpu/cpu.h"
#include "worker_runtime/ops/cpu/math.h"

enum { BLOCK = 32, KEYS = 256, QUERIES = 256, WIDEST = 256 };
_Static_assert(KEYS % 16 == 0, "rows of scores are whole vectors");

struct job {
    const struct dt_attention *a;
    struct dt_stream *s;
    float scale;
    float *out, *dq, *dk, *dv;
    const float *fout, *dout;
};

/* What each thread works in. */
struct scratch {
    float scores[BLOCK * KEYS];
    float dscores[BLOCK * KEYS];
    float keys[WIDEST * KEYS], values[WIDEST * KEYS]; /* on their side: [head_dim, KEYS] */
    float largest[QUERIES], sum[QUERIES];
};
_Static_assert(sizeof(struct scratch) <= DT_SCRATCH_BYTES, "scratch is too small");

static float scale_of(const struct dt_attention *a)
{
    return a->scale > 0 ? a->scale : 1 / sqrtf((float)a->head_dim);
}

static struct scratch *my_scratch(const struct job *j)
{
    return (struct scratch *)j->s->scratch[dt_pool_self()];
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Of a chunk of KEYS keys from FROM on, those that the query at POSITION of sequence B reads; none:
 * from 0 to 0. */
static struct dt_range visible(const struct dt_attention *a, size_t b, size_t position, size_t from,
                               size_t keys)
{
    size_t begins = dt_attention_begins(a, b, position);
    if (position < from || begins >= from + keys)
        return (struct dt_range){0, 0};
    return (struct dt_range){begins > from ? begins - from : 0, least(position + 1 - from, keys)};
}

/* The right side of a product [rows, dim] x [dim, keys]: a chunk of keys or values. */
struct side {
    const float *at;
    size_t stride;
    bool transpose;
};

/* Turns x[rows, dim] on its side, 16 rows at a time; what is too wide for TO stays as it is. */
static struct side turn(size_t rows, size_t dim, float *to, const float *x, size_t stride)
{
    if (dim > WIDEST)
        return (struct side){x, stride, true};
    for (size_t from = 0; from < rows; from += 16) {
        size_t n = rows - from < 16 ? rows - from : 16;
        for (size_t d = 0; d < dim; d++)
            for (size_t i = 0; i < n; i++)
                to[d * KEYS + from + i] = x[(from + i) * stride + d];
    }
    return (struct side){to, KEYS, false};
}

/* c[BLOCK, KEYS] = alpha * x[rows, dim] times the chunk */
static void meet(size_t rows, size_t keys, size_t dim, float alpha, const float *x, size_t stride,
                 const struct side *chunk, float *c)
{
    dt_blas_gemm(&(struct dt_gemm){.transpose_b = chunk->transpose,
                                   .m = rows,
                                   .n = keys,
                                   .k = dim,
                                   .alpha = alpha,
                                   .a = x,
                                   .lda = stride,
                                   .b = chunk->at,
                                   .ldb = chunk->stride,
                                   .c = c,
                                   .ldc = KEYS});
}

/* Where there is a cap, scores become capped ones. */
static void cap_scores(const struct dt_attention *a, size_t rows, size_t keys, float *scores)
{
    float cap = a->cap;
    for (size_t row = 0; cap > 0 && row < rows; row++) {
        float *x = scores + row * KEYS;
#pragma omp simd
        for (size_t i = 0; i < keys; i++)
            x[i] = dt_capped(x[i], cap);
    }
}

/* Rows of scores are walked in whole vectors: a few keys too many cost less than single ones. */
static size_t whole(size_t n)
{
    return (n + 15) & ~(size_t)15;
}

/* What is beside the visible keys weighs nothing. */
static void hide(struct dt_range visible, float *x)
{
    for (size_t i = 0; i < visible.from; i++)
        x[i] = -INFINITY;
    for (size_t i = visible.to; i < whole(visible.to); i++)
        x[i] = -INFINITY;
}

/* x becomes exp(x - largest), 0 past the visible N; answers the sum. */
static float exp_row(size_t n, size_t keys, float *x, float largest)
{
    size_t most = whole(n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < most; i++) {
        x[i] = dt_expf(x[i] - largest);
        sum += x[i];
    }
    if (keys > most)
        memset(x + most, 0, (keys - most) * sizeof *x);
    return sum;
}

static void scale_row(size_t n, float *x, float by)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        x[i] *= by;
}

/* A block of queries, and a chunk of keys of which some read some. */
struct meeting {
    size_t b;
    struct dt_range t; /* the queries */
    size_t from, keys; /* the keys */
    bool again;        /* the block has met an earlier chunk, or joins */
};

/* Behind the last of the keys here that queries before the one at position BEFORE may read. */
static size_t keys_end(const struct dt_attention *a, size_t before)
{
    return least(before, dt_attention_keys_to(a));
}

/* False: none of the queries T reads any of the KEYS keys from FROM on. */
static bool find_meeting(const struct dt_attention *a, size_t b, struct dt_range t, size_t from,
                         struct meeting *m)
{
    size_t end = keys_end(a, a->first + t.to),
           begins = dt_attention_begins(a, b, a->first + t.from);
    if (end <= from || begins >= least(from + KEYS, end))
        return false;
    bool again = a->joins || (begins < from && a->keys_from < from);
    *m = (struct meeting){b, t, from, least(end - from, KEYS), again};
    return true;
}

/* A row that reads nothing of a chunk: its weights are 0. */
static void forget_row(const struct meeting *m, float *x, float *largest, float *sum)
{
    memset(x, 0, m->keys * sizeof *x);
    if (!m->again) {
        *largest = -INFINITY;
        *sum = 0;
    }
}

/* Scores become weights, and what is in out follows. LARGEST and SUM are of the queries' rows so
 * far. */
static void soften(const struct dt_attention *a, float *scores, const struct meeting *m,
                   float *largest, float *sum, float *out)
{
    for (size_t row = 0; row < m->t.to - m->t.from; row++) {
        float *x = scores + row * KEYS;
        struct dt_range n = visible(a, m->b, a->first + m->t.from + row, m->from, m->keys);
        if (n.to == 0) {
            forget_row(m, x, &largest[row], &sum[row]);
            continue;
        }
        hide(n, x);
        float before = m->again ? largest[row] : -INFINITY, now = dt_largest(n.to, x);
        now = before > now ? before : now;
        float fresh = exp_row(n.to, m->keys, x, now);
        if (m->again) {
            float shrink = dt_expf(before - now);
            fresh += sum[row] * shrink;
            scale_row(a->head_dim, out + row * a->out_stride, shrink);
        }
        largest[row] = now;
        sum[row] = fresh;
    }
}

/* Where one head of one sequence lies in each array; keys and values from position 0 on, be that
 * here or not. */
struct head {
    size_t h; /* its number */
    const float *q, *k, *v, *out, *dout;
    float *logsum, *fout, *dq, *dk, *dv;
};

static struct head find_head(const struct job *j, size_t b, size_t h)
{
    const struct dt_attention *a = j->a;
    size_t query = b * a->queries, key = b * dt_attention_keys_here(a);
    size_t kv = h / (a->heads / a->kv_heads) * a->head_dim;
    size_t q = query * a->q_stride + h * a->head_dim;
    size_t out = query * a->out_stride + h * a->head_dim;
    size_t k = key * a->k_stride + kv, v = key * a->v_stride + kv;
    struct head at = {.h = h,
                      .q = (const float *)a->q + q,
                      .k = (const float *)a->k - a->keys_from * a->k_stride + k,
                      .v = (const float *)a->v - a->keys_from * a->v_stride + v,
                      .logsum = a->logsum + (b * a->heads + h) * a->queries};
    if (j->dq) {
        at.out = j->fout + out;
        at.dout = j->dout + out;
        at.dq = j->dq + q;
        at.dk = j->dk - a->keys_from * a->k_stride + k;
        at.dv = j->dv - a->keys_from * a->v_stride + v;
    } else {
        at.fout = j->out + out;
    }
    return at;
}

/* What dropout leaves of N numbers in X, the first of which is number AT of all. */
static void drop_row(const struct dt_dropout *d, uint64_t at, size_t n, float *x)
{
    const uint64_t start = d->start + at;
    const uint32_t gone_below = d->gone_below;
    const float scale = d->scale;
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        x[i] = dt_chance_bits(start, i) < gone_below ? 0 : x[i] * scale;
}

/* The same of a block's weights, or of their gradients, of head H. */
static void drop(const struct dt_attention *a, size_t h, const struct meeting *m, float *x)
{
    if (a->dropout.gone_below == 0)
        return;
    for (size_t row = 0; row < m->t.to - m->t.from; row++, x += KEYS) {
        size_t position = a->first + m->t.from + row;
        struct dt_range n = visible(a, m->b, position, m->from, m->keys);
        uint64_t weight = dt_attention_weight(a, m->b, h, position);
        drop_row(&a->dropout, weight + m->from + n.from, n.to - n.from, x + n.from);
    }
}

/* A chunk of keys, and the queries T.. of sequence B, of which some may read it. */
static void forward_chunk(const struct job *j, size_t b, const struct head *at, struct scratch *w,
                          struct dt_range t, size_t from)
{
    const struct dt_attention *a = j->a;
    size_t dim = a->head_dim, end = keys_end(a, a->first + t.to);
    struct side k =
        turn(least(end - from, KEYS), dim, w->keys, at->k + from * a->k_stride, a->k_stride);
    struct meeting m;
    for (size_t begin = t.from; begin < t.to; begin += BLOCK) {
        struct dt_range block = {begin, least(begin + BLOCK, t.to)};
        size_t rows = block.to - block.from, row = block.from - t.from;
        if (!find_meeting(a, b, block, from, &m))
            continue;
        float *out = at->fout + block.from * a->out_stride;
        meet(rows, m.keys, dim, j->scale, at->q + block.from * a->q_stride, a->q_stride, &k,
             w->scores);
        cap_scores(a, rows, m.keys, w->scores);
        soften(a, w->scores, &m, w->largest + row, w->sum + row, out);
        drop(a, at->h, &m, w->scores);
        dt_blas_gemm(&(struct dt_gemm){.m = rows,
                                       .n = dim,
                                       .k = m.keys,
                                       .alpha = 1,
                                       .a = w->scores,
                                       .lda = KEYS,
                                       .b = at->v + from * a->v_stride,
                                       .ldb = a->v_stride,
                                       .beta = m.again ? 1 : 0,
                                       .c = out,
                                       .ldc = a->out_stride});
    }
}

/* What queries have met before; nothing, unless they join. */
static void begin_rows(const struct dt_attention *a, const struct head *at, struct scratch *w,
                       struct dt_range t)
{
    for (size_t row = 0; row < t.to - t.from; row++) {
        float before = a->joins ? at->logsum[t.from + row] : -INFINITY;
        w->largest[row] = before;
        w->sum[row] = before > -INFINITY ? 1 : 0;
    }
}

/* A query that has met nothing, and so was not written by any chunk, gets 0. */
static void end_rows(const struct dt_attention *a, const struct head *at, const struct scratch *w,
                     struct dt_range t)
{
    for (size_t row = 0; row < t.to - t.from; row++) {
        float *out = at->fout + (t.from + row) * a->out_stride;
        at->logsum[t.from + row] = w->largest[row] + logf(w->sum[row]);
        if (w->sum[row] > 0)
            scale_row(a->head_dim, out, 1 / w->sum[row]);
        else
            memset(out, 0, a->head_dim * sizeof *out);
    }
}

/* A part is up to QUERIES queries of one head. */
static void forward(void *arg, size_t part)
{
    const struct job *j = arg;
    const struct dt_attention *a = j->a;
    struct scratch *w = my_scratch(j);
    size_t b = part / a->heads % a->batch, h = part % a->heads;
    struct dt_range t = dt_part(a->queries, QUERIES, part / a->heads / a->batch);
    struct head at = find_head(j, b, h);
    size_t begins = dt_attention_begins(a, b, a->first + t.from), from = a->keys_from;
    if (begins > from)
        from += (begins - from) / KEYS * KEYS;
    begin_rows(a, &at, w, t);
    for (; from < keys_end(a, a->first + t.to); from += KEYS)
        forward_chunk(j, b, &at, w, t, from);
    end_rows(a, &at, w, t);
}

/* Parts are taken from the last: those with the longest rows of keys first. */
void DT_CPU(attention_forward)(const struct dt_attention *a, dt_elem *out, struct dt_stream *s)
{
    struct job j = {.a = a, .s = s, .out = out, .scale = scale_of(a)};
    assert(a->first + a->queries <= a->keys);
    dt_pool_run(s->pool, a->batch * a->heads * dt_parts(a->queries, QUERIES), forward, &j);
}

static float dot(size_t n, const float *x, const float *y)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* A row's scores to weights p; dp to dscores = p (dp - average). */
static void weigh_row(size_t n, float *p, float *dp, float logsum, float average)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        p[i] = dt_expf(p[i] - logsum);
        dp[i] = p[i] * (dp[i] - average);
    }
}

/* The same of scores that were capped: what changes them moves the capped ones by less. */
static void weigh_capped_row(size_t n, float *p, float *dp, float logsum, float average, float cap)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        float slope = dt_cap_slope(p[i], cap);
        p[i] = dt_expf(p[i] - logsum);
        dp[i] = p[i] * (dp[i] - average) * slope;
    }
}

/* Scores to weights, and dp to dscores, of a block. */
static void unsoften(const struct dt_attention *a, const struct head *at, struct scratch *w,
                     const struct meeting *m)
{
    for (size_t row = 0; row < m->t.to - m->t.from; row++) {
        float *p = w->scores + row * KEYS, *dp = w->dscores + row * KEYS;
        size_t query = m->t.from + row, place = query * a->out_stride;
        float logsum = at->logsum[query];
        float average = dot(a->head_dim, at->out + place, at->dout + place);
        struct dt_range n = visible(a, m->b, a->first + query, m->from, m->keys);
        size_t most = whole(n.to);
        if (a->cap > 0)
            weigh_capped_row(most, p, dp, logsum, average, a->cap);
        else
            weigh_row(most, p, dp, logsum, average);
        for (size_t i = 0; i < n.from; i++)
            p[i] = dp[i] = 0;
        for (size_t i = n.to; i < m->keys; i++)
            p[i] = dp[i] = 0;
    }
}

/* dk or dv[keys, dim] += alpha * weights[rows, keys]' x[rows, dim] */
static void pull_back(size_t rows, size_t keys, size_t dim, float alpha, const float *weights,
                      const float *x, size_t x_stride, float *to, size_t stride)
{
    dt_blas_gemm(&(struct dt_gemm){.transpose_a = true,
                                   .m = keys,
                                   .n = dim,
                                   .k = rows,
                                   .alpha = alpha,
                                   .a = weights,
                                   .lda = KEYS,
                                   .b = x,
                                   .ldb = x_stride,
                                   .beta = 1,
                                   .c = to,
                                   .ldc = stride});
}

static void backward_block(const struct job *j, const struct head *at, struct scratch *w,
                           const struct side *k, const struct side *v, const struct meeting *m)
{
    const struct dt_attention *a = j->a;
    size_t rows = m->t.to - m->t.from, dim = a->head_dim, keys = m->keys, from = m->from;
    const float *q = at->q + m->t.from * a->q_stride, *dout = at->dout + m->t.from * a->out_stride;
    meet(rows, keys, dim, j->scale, q, a->q_stride, k, w->scores);
    cap_scores(a, rows, keys, w->scores);
    meet(rows, keys, dim, 1, dout, a->out_stride, v, w->dscores);
    drop(a, at->h, m, w->dscores);
    unsoften(a, at, w, m);
    drop(a, at->h, m, w->scores);
    pull_back(rows, keys, dim, 1, w->scores, dout, a->out_stride, at->dv + from * a->v_stride,
              a->v_stride);
    pull_back(rows, keys, dim, j->scale, w->dscores, q, a->q_stride, at->dk + from * a->k_stride,
              a->k_stride);
    dt_blas_gemm(&(struct dt_gemm){.m = rows,
                                   .n = dim,
                                   .k = keys,
                                   .alpha = j->scale,
                                   .a = w->dscores,
                                   .lda = KEYS,
                                   .b = at->k + from * a->k_stride,
                                   .ldb = a->k_stride,
                                   .beta = m->again ? 1 : 0,
                                   .c = at->dq + m->t.from * a->q_stride,
                                   .ldc = a->q_stride});
}

static void clear(size_t rows, size_t width, size_t stride, float *x)
{
    for (size_t n = 0; n < rows; n++)
        memset(x + n * stride, 0, width * sizeof *x);
}

/* The gradients of the keys here of the group that begins with head H, and of its queries where not
 * all keys are here, so that some may meet none. */
static void clear_all(const struct job *j, size_t b, size_t h)
{
    const struct dt_attention *a = j->a;
    size_t here = dt_attention_keys_here(a), dim = a->head_dim, group = a->heads / a->kv_heads;
    const struct head at = find_head(j, b, h);
    clear(here, dim, a->k_stride, at.dk + a->keys_from * a->k_stride);
    clear(here, dim, a->v_stride, at.dv + a->keys_from * a->v_stride);
    if (here < a->keys)
        clear(a->queries, group * dim, a->q_stride, at.dq);
}

/* A chunk of keys, and all queries of one head. */
static void backward_chunk(const struct job *j, size_t b, size_t h, struct scratch *w,
                           const struct side *k, const struct side *v, size_t from)
{
    const struct dt_attention *a = j->a;
    struct head at = find_head(j, b, h);
    size_t earlier = from > a->first ? (from - a->first) / BLOCK * BLOCK : 0;
    struct meeting m;
    for (size_t t = earlier; t < a->queries; t += BLOCK)
        if (find_meeting(a, b, (struct dt_range){t, least(t + BLOCK, a->queries)}, from, &m))
            backward_block(j, &at, w, k, v, &m);
}

static void backward(void *arg, size_t part)
{
    const struct job *j = arg;
    const struct dt_attention *a = j->a;
    struct scratch *w = my_scratch(j);
    size_t b = part / a->kv_heads, group = a->heads / a->kv_heads, h = part % a->kv_heads * group;
    struct head at = find_head(j, b, h);
    size_t end = keys_end(a, a->first + a->queries); /* nobody reads keys from there on */
    if (!a->joins)
        clear_all(j, b, h);
    for (size_t from = a->keys_from; from < end; from += KEYS) {
        size_t keys = least(end - from, KEYS);
        struct side k = turn(keys, a->head_dim, w->keys, at.k + from * a->k_stride, a->k_stride);
        struct side v = turn(keys, a->head_dim, w->values, at.v + from * a->v_stride, a->v_stride);
        for (size_t i = 0; i < group; i++)
            backward_chunk(j, b, h + i, w, &k, &v, from);
    }
}

void DT_CPU(attention_backward)(const struct dt_attention *a, dt_elem *dq, dt_elem *dk, dt_elem *dv,
                                const dt_elem *out, const dt_elem *dout, struct dt_stream *s)
{
    struct job j = {.a = a, .s = s, .dq = dq, .dk = dk, .dv = dv, .fout = out, .dout = dout};
    j.scale = scale_of(a);
    assert(a->first + a->queries <= a->keys);
    dt_pool_run(s->pool, a->batch * a->kv_heads, backward, &j);
}
