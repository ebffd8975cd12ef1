/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention, one query at a time and without keeping the matrix of its weights.
 *
 * For query t of one head, D = head_dim, and the keys s that it reads:
 *   score[s] = q[t] . k[s] / sqrt(D), or by another scale; capped, cap * tanh of it / cap
 *   p[s]     = exp(score[s]) / sum over these s' of exp(score[s'])
 *   out[t]   = sum over s of p[s] * v[s]
 * Kept for the way back is one number a query: logsum = log(sum of exp(score)), for with it any
 * weight is found again as p[s] = exp(score[s] - logsum).
 *
 * With dropout out[t] is the sum of m[s] p[s] v[s]: m is 0 where the weight goes, and else what
 * makes up for those.
 *
 * Of keys in several calls, what a call gives is what its keys alone would have, times
 * exp(its logsum - that of all), and so is the sum of what all give.
 *
 * Several query heads may read one key/value head; then its gradients are sums over them. */
#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/reference/reference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* The rows of one query and of what it reads: q of (b, t, h), k and v of (b, 0, its kv head), be
 * key 0 here or not. */
struct query {
    const float *q, *k, *v;
    size_t row;        /* of the query in q and out */
    size_t key_row;    /* of the first key that is here */
    size_t logsum;     /* where the query's logsum is */
    size_t kv_head;    /* h / (heads / kv_heads) */
    size_t begin, end; /* the keys it reads */
    uint64_t weight;   /* dt_attention_weight() */
    double scale;
};

static struct query find_query(const struct dt_attention *a, size_t b, size_t h, size_t t)
{
    struct query q = {.row = b * a->queries + t, .key_row = b * dt_attention_keys_here(a)};
    size_t begin = dt_attention_begins(a, b, a->first + t), end = a->first + t + 1;
    size_t to = dt_attention_keys_to(a), from = a->keys_from;
    q.logsum = (b * a->heads + h) * a->queries + t;
    q.kv_head = h / (a->heads / a->kv_heads);
    q.begin = begin > from ? begin : from;
    q.end = end < to ? end : to; /* below begin, where it reads none that are here */
    q.weight = dt_attention_weight(a, b, h, a->first + t);
    q.q = (const float *)a->q + q.row * a->q_stride + h * a->head_dim;
    q.k = (const float *)a->k - from * a->k_stride;
    q.v = (const float *)a->v - from * a->v_stride;
    q.k += q.key_row * a->k_stride + q.kv_head * a->head_dim;
    q.v += q.key_row * a->v_stride + q.kv_head * a->head_dim;
    q.scale = a->scale > 0 ? (double)a->scale : 1 / sqrt((double)a->head_dim);
    return q;
}

static double dot(size_t n, const float *x, const float *y)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * y[i];
    return sum;
}

static double score(const struct dt_attention *a, const struct query *q, size_t s)
{
    double x = dot(a->head_dim, q->q, q->k + s * a->k_stride) * q->scale, cap = (double)a->cap;
    return cap > 0 ? cap * tanh(x / cap) : x;
}

/* Of the keys here and those that gave BEFORE. The largest score is taken out before exp(), which
 * else could overflow. */
static double find_logsum(const struct dt_attention *a, const struct query *q, double before)
{
    double largest = before, sum = 0;
    for (size_t s = q->begin; s < q->end; s++)
        largest = fmax(largest, score(a, q, s));
    if (isinf(largest)) /* there are none */
        return largest;
    for (size_t s = q->begin; s < q->end; s++)
        sum += exp(score(a, q, s) - largest);
    return largest + log(sum + exp(before - largest));
}

/* By which dropout multiplies the weight of key S. */
static double left_of(const struct dt_attention *a, const struct query *q, size_t s)
{
    const struct dt_dropout *d = &a->dropout;
    if (d->gone_below == 0)
        return 1;
    bool gone = dt_chance_bits(d->start, q->weight + s) < d->gone_below;
    return gone ? 0 : (double)d->scale;
}

static void forward(const struct dt_attention *a, float *out, size_t b, size_t h, size_t t)
{
    struct query q = find_query(a, b, h, t);
    double before = a->joins ? (double)a->logsum[q.logsum] : -INFINITY;
    double logsum = find_logsum(a, &q, before), stays = isinf(before) ? 0 : exp(before - logsum);
    a->logsum[q.logsum] = (float)logsum;
    out += q.row * a->out_stride + h * a->head_dim;
    for (size_t d = 0; d < a->head_dim; d++)
        out[d] = stays > 0 ? (float)(stays * out[d]) : 0;
    for (size_t s = q.begin; s < q.end; s++) {
        double p = exp(score(a, &q, s) - logsum) * left_of(a, &q, s);
        for (size_t d = 0; d < a->head_dim; d++)
            out[d] += (float)(p * q.v[s * a->v_stride + d]);
    }
}

void dt_ref_attention_forward(const struct dt_attention *a, dt_elem *out, struct dt_stream *stream)
{
    (void)stream;
    assert(a->first + a->queries <= a->keys);
    for (size_t b = 0; b < a->batch; b++)
        for (size_t h = 0; h < a->heads; h++)
            for (size_t t = 0; t < a->queries; t++)
                forward(a, out, b, h, t);
}

static void clear(size_t rows, size_t width, size_t stride, float *x)
{
    for (size_t n = 0; n < rows; n++)
        memset(x + n * stride, 0, width * sizeof *x);
}

static void clear_all(const struct dt_attention *a, float *dq, float *dk, float *dv)
{
    size_t keys = a->batch * dt_attention_keys_here(a), width = a->kv_heads * a->head_dim;
    clear(a->batch * a->queries, a->heads * a->head_dim, a->q_stride, dq);
    clear(keys, width, a->k_stride, dk);
    clear(keys, width, a->v_stride, dv);
}

/* dp[s] = m[s] dout . v[s]. Through the softmax, dscore[s] = p[s] * (dp[s] - sum over s' of p dp),
 * and that sum is dout . out, as out is the sum of m p v. Through a cap it becomes smaller by 1 -
 * (score / cap)^2, the slope of tanh. Then
 *   dq += dscore[s] k[s] / sqrt(D),  dk[s] += dscore[s] q / sqrt(D),  dv[s] += m[s] p[s] dout. */
static void backward(const struct dt_attention *a, const struct query *q, float *dq, float *dk,
                     float *dv, const float *out, const float *dout)
{
    double logsum = (double)a->logsum[q->logsum];
    double average = dot(a->head_dim, dout, out);
    for (size_t s = q->begin; s < q->end; s++) {
        const float *k = q->k + s * a->k_stride, *v = q->v + s * a->v_stride;
        double x = score(a, q, s), part = a->cap > 0 ? x / (double)a->cap : 0;
        double p = exp(x - logsum), left = left_of(a, q, s);
        double dp = left * dot(a->head_dim, dout, v);
        double dscore = p * (dp - average) * (1 - part * part) * q->scale;
        for (size_t d = 0; d < a->head_dim; d++) {
            dq[d] += (float)(dscore * k[d]);
            dk[s * a->k_stride + d] += (float)(dscore * q->q[d]);
            dv[s * a->v_stride + d] += (float)(left * p * dout[d]);
        }
    }
}

void dt_ref_attention_backward(const struct dt_attention *a, dt_elem *dq, dt_elem *dk, dt_elem *dv,
                               const dt_elem *out, const dt_elem *dout, struct dt_stream *stream)
{
    size_t width = a->head_dim;
    (void)stream;
    if (!a->joins)
        clear_all(a, dq, dk, dv);
    for (size_t b = 0; b < a->batch; b++) {
        for (size_t h = 0; h < a->heads; h++) {
            for (size_t t = 0; t < a->queries; t++) {
                struct query q = find_query(a, b, h, t);
                size_t at = q.row * a->out_stride + h * width, kv = q.kv_head * width;
                backward(a, &q, (float *)dq + q.row * a->q_stride + h * width,
                         (float *)dk - a->keys_from * a->k_stride + q.key_row * a->k_stride + kv,
                         (float *)dv - a->keys_from * a->v_stride + q.key_row * a->v_stride + kv,
                         (const float *)out + at, (const float *)dout + at);
            }
        }
    }
}
