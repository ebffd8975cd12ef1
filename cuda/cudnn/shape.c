/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cudnn/shape.h"

typedef struct dt_cudnn_tensor tensor;

bool dt_cudnn_takes(const struct dt_attention *a)
{
    size_t strides = a->q_stride | a->k_stride | a->v_stride | a->out_stride;
    return a->first == 0 && a->queries == a->keys && a->queries > 0 && a->batch > 0 &&
           a->queries <= INT32_MAX / 2 && a->kv_heads > 0 && a->heads % a->kv_heads == 0 &&
           a->head_dim % 8 == 0 && a->head_dim >= 8 && a->head_dim <= 128 && strides % 8 == 0 &&
           a->cap <= 0 && a->dropout.gone_below == 0;
}

struct dt_cudnn_shape dt_cudnn_shape_of(const struct dt_attention *a, bool backward,
                                        bool deterministic)
{
    return (struct dt_cudnn_shape){
        .batch = (int64_t)a->batch,
        .positions = (int64_t)a->queries,
        .heads = (int64_t)a->heads,
        .kv_heads = (int64_t)a->kv_heads,
        .head_dim = (int64_t)a->head_dim,
        .q_stride = (int64_t)a->q_stride,
        .k_stride = (int64_t)a->k_stride,
        .v_stride = (int64_t)a->v_stride,
        .out_stride = (int64_t)a->out_stride,
        .window = a->window < a->queries ? (int64_t)a->window : 0,
        .documents = a->documents != NULL,
        .backward = backward,
        .deterministic = deterministic,
    };
}

static size_t rounded(int64_t numbers)
{
    return ((size_t)numbers * sizeof(float) + 255) / 256 * 256;
}

size_t dt_cudnn_average_bytes(const struct dt_cudnn_shape *s)
{
    return s->backward ? rounded(s->batch * s->heads * s->positions) : 0;
}

/* With atomics dq is added up in floats; where bits have to repeat an engine does without. */
size_t dt_cudnn_dq_sum_bytes(const struct dt_cudnn_shape *s)
{
    return s->backward && !s->deterministic
               ? rounded(s->batch * s->heads * s->positions * s->head_dim)
               : 0;
}

/* -- what is given ---------------------------------------------------------------------------- */

/* [batch, heads, positions, head_dim] in rows of STRIDE that hold all heads. */
static tensor of_rows(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g,
                      enum dt_cudnn_role role, int64_t heads, int64_t stride)
{
    const int64_t size[] = {s->batch, heads, s->positions, s->head_dim};
    const int64_t strides[] = {s->positions * stride, s->head_dim, stride, 1};
    return dt_cudnn_given(g, role, DT_CUDNN_BF16, size, strides);
}

/* The same memory as [batch, heads, head_dim, positions]: what a second factor has to be. */
static tensor of_columns(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g,
                         enum dt_cudnn_role role, int64_t heads, int64_t stride)
{
    const int64_t size[] = {s->batch, heads, s->head_dim, s->positions};
    const int64_t strides[] = {s->positions * stride, s->head_dim, 1, stride};
    return dt_cudnn_given(g, role, DT_CUDNN_BF16, size, strides);
}

/* Floats [batch, heads, positions, width], packed. */
static tensor of_floats(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g,
                        enum dt_cudnn_role role, int64_t width)
{
    const int64_t size[] = {s->batch, s->heads, s->positions, width};
    const int64_t strides[] = {s->heads * s->positions * width, s->positions * width, width, 1};
    return dt_cudnn_given(g, role, DT_CUDNN_FLOAT, size, strides);
}

static tensor scores_between(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g)
{
    return dt_cudnn_between(g, DT_CUDNN_FLOAT, s->batch, s->heads, s->positions, s->positions);
}

static tensor rows_between(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g)
{
    return dt_cudnn_between(g, DT_CUDNN_FLOAT, s->batch, s->heads, s->positions, 1);
}

/* -- pieces of both ways ---------------------------------------------------------------------- */

static tensor scores(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g, tensor q, tensor k,
                     tensor scale)
{
    tensor products = scores_between(s, g);
    dt_cudnn_multiply(g, products, q, k);
    return dt_cudnn_each(g, DT_CUDNN_MULTIPLY, products, &scale);
}

/* Keys behind their query become MASKED. */
static tensor mask_later(struct dt_cudnn_graph *g, tensor x, tensor masked)
{
    tensor query = dt_cudnn_index(g, x, 2), key = dt_cudnn_index(g, x, 3);
    return dt_cudnn_select(g, x, masked, dt_cudnn_compare(g, DT_CUDNN_NOT_LESS, query, key));
}

/* So do those that the window has left. Told just so, it is a pattern that cuDNN knows. */
static tensor mask_left(struct dt_cudnn_graph *g, tensor x, tensor masked)
{
    tensor window = dt_cudnn_number(g, DT_CUDNN_WINDOW, DT_CUDNN_INT32);
    tensor query = dt_cudnn_index(g, x, 2), key = dt_cudnn_index(g, x, 3);
    tensor last = dt_cudnn_each(g, DT_CUDNN_ADD, key, &window);
    return dt_cudnn_select(g, x, masked, dt_cudnn_compare(g, DT_CUDNN_GREATER, last, query));
}

/* And those of documents before the query's. */
static tensor mask_others(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g, tensor x,
                          tensor masked)
{
    const int64_t size[] = {s->batch, 1, s->positions, 1};
    const int64_t strides[] = {s->positions, s->positions, 1, 1};
    tensor begins = dt_cudnn_given(g, DT_CUDNN_DOCUMENTS, DT_CUDNN_INT32, size, strides);
    tensor key = dt_cudnn_index(g, x, 3);
    return dt_cudnn_select(g, x, masked, dt_cudnn_compare(g, DT_CUDNN_NOT_LESS, key, begins));
}

static tensor mask(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g, tensor x,
                   tensor masked)
{
    x = mask_later(g, x, masked);
    if (s->window > 0)
        x = mask_left(g, x, masked);
    return s->documents ? mask_others(s, g, x, masked) : x;
}

/* -- forward ---------------------------------------------------------------------------------- */

/* Writes largest + log(sum of exp(score - largest)) to the stats, and gives the weights. */
static tensor soften(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g, tensor x)
{
    tensor largest = rows_between(s, g), sum = rows_between(s, g);
    dt_cudnn_reduce(g, DT_CUDNN_LARGEST, largest, x);
    tensor below = dt_cudnn_each(g, DT_CUDNN_SUBTRACT, x, &largest);
    tensor powers = dt_cudnn_each(g, DT_CUDNN_EXP, below, NULL);
    dt_cudnn_reduce(g, DT_CUDNN_SUM, sum, powers);
    tensor log = dt_cudnn_each(g, DT_CUDNN_LOG, sum, NULL);
    dt_cudnn_each_to(g, DT_CUDNN_ADD, of_floats(s, g, DT_CUDNN_STATS, 1), largest, &log);
    tensor weights =
        dt_cudnn_between(g, DT_CUDNN_BF16, s->batch, s->heads, s->positions, s->positions);
    dt_cudnn_each_to(g, DT_CUDNN_DIVIDE, weights, powers, &sum);
    return weights;
}

static void forward(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g)
{
    tensor q = of_rows(s, g, DT_CUDNN_Q, s->heads, s->q_stride);
    tensor k = of_columns(s, g, DT_CUDNN_K, s->kv_heads, s->k_stride);
    tensor v = of_rows(s, g, DT_CUDNN_V, s->kv_heads, s->v_stride);
    tensor out = of_rows(s, g, DT_CUDNN_OUT, s->heads, s->out_stride);
    tensor scale = dt_cudnn_number(g, DT_CUDNN_SCALE, DT_CUDNN_FLOAT);
    tensor masked = dt_cudnn_number(g, DT_CUDNN_MASKED, DT_CUDNN_FLOAT);
    tensor weights = soften(s, g, mask(s, g, scores(s, g, q, k, scale), masked));
    dt_cudnn_multiply(g, out, weights, v);
}

/* -- backward --------------------------------------------------------------------------------- */

/* The sum of dout * out over a head: what the derivatives of a row's weights are on average. */
static tensor average(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g, tensor dout)
{
    tensor out = of_rows(s, g, DT_CUDNN_OUT, s->heads, s->out_stride);
    tensor one = dt_cudnn_number(g, DT_CUDNN_ONE, DT_CUDNN_FLOAT), sum = rows_between(s, g);
    tensor average = of_floats(s, g, DT_CUDNN_AVERAGE, 1);
    dt_cudnn_reduce(g, DT_CUDNN_SUM, sum, dt_cudnn_each(g, DT_CUDNN_MULTIPLY, dout, &out));
    dt_cudnn_each_to(g, DT_CUDNN_MULTIPLY, average, sum, &one);
    return average;
}

/* X' Y into the keys' or values' gradient; those of the heads that share it are added up. */
static void gather(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g, tensor to, tensor x,
                   tensor y)
{
    tensor columns = dt_cudnn_transpose(g, x, DT_CUDNN_BF16);
    if (s->heads == s->kv_heads) {
        dt_cudnn_multiply(g, to, columns, y);
        return;
    }
    tensor all = dt_cudnn_between(g, DT_CUDNN_BF16, s->batch, s->heads, s->positions, s->head_dim);
    dt_cudnn_multiply(g, all, columns, y);
    dt_cudnn_reduce(g, DT_CUDNN_SUM, to, all);
}

static void find_dq(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g, tensor dscores,
                    tensor k)
{
    tensor dq = of_rows(s, g, DT_CUDNN_DQ, s->heads, s->q_stride);
    tensor rows = dt_cudnn_transpose(g, k, DT_CUDNN_BF16);
    if (s->deterministic) {
        dt_cudnn_multiply(g, dq, dscores, rows);
        return;
    }
    tensor sum = of_floats(s, g, DT_CUDNN_DQ_SUM, s->head_dim);
    dt_cudnn_multiply(g, sum, dscores, rows);
    dt_cudnn_each_to(g, DT_CUDNN_IDENTITY, dq, sum, NULL);
}

static void backward(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g)
{
    tensor q = of_rows(s, g, DT_CUDNN_Q, s->heads, s->q_stride);
    tensor k = of_columns(s, g, DT_CUDNN_K, s->kv_heads, s->k_stride);
    tensor v = of_columns(s, g, DT_CUDNN_V, s->kv_heads, s->v_stride);
    tensor dout = of_rows(s, g, DT_CUDNN_DOUT, s->heads, s->out_stride);
    tensor dk = of_rows(s, g, DT_CUDNN_DK, s->kv_heads, s->k_stride);
    tensor dv = of_rows(s, g, DT_CUDNN_DV, s->kv_heads, s->v_stride);
    tensor stats = of_floats(s, g, DT_CUDNN_STATS, 1);
    tensor scale = dt_cudnn_number(g, DT_CUDNN_SCALE, DT_CUDNN_FLOAT);
    tensor masked = dt_cudnn_number(g, DT_CUDNN_MASKED, DT_CUDNN_FLOAT);
    tensor averages = average(s, g, dout);
    tensor below = dt_cudnn_each(g, DT_CUDNN_SUBTRACT, scores(s, g, q, k, scale), &stats);
    tensor weights = dt_cudnn_each(g, DT_CUDNN_EXP, mask(s, g, below, masked), NULL);
    gather(s, g, dv, weights, dout);
    tensor dweights = scores_between(s, g);
    dt_cudnn_multiply(g, dweights, dout, v);
    tensor beyond = dt_cudnn_each(g, DT_CUDNN_SUBTRACT, dweights, &averages);
    tensor weighed = dt_cudnn_each(g, DT_CUDNN_MULTIPLY, beyond, &weights);
    tensor dscores = dt_cudnn_each(g, DT_CUDNN_MULTIPLY, weighed, &scale);
    gather(s, g, dk, dscores, q);
    find_dq(s, g, dscores, k);
}

void dt_cudnn_shape_tell(const struct dt_cudnn_shape *s, struct dt_cudnn_graph *g)
{
    if (s->backward)
        backward(s, g);
    else
        forward(s, g);
}
