/* SPDX-License-Identifier: Apache-2.0 */
/* The layers around attention, as plain loops. A forward op maps inputs to outputs; its backward op
 * is given d(loss)/d(output), "dout", and finds d(loss)/d(input) by the chain rule. What feeds
 * several places gets the sum of what each of them says, hence "+=". Sums run in double, so that
 * what is compared with these has the larger error.
 *
 * Shapes: N rows, C width, I in, O out; all row-major, so x[n,c] is x[n * C + c]. */
#include "worker_runtime/ops/by_chance.h"
#include "worker_runtime/ops/reference/reference.h"

#include <assert.h>
#include <math.h>

/* out[N,C] = token[id(n), C] + position[first + place(n), C] */
void dt_ref_embedding_forward(const struct dt_embedding *e, dt_elem *out_, const dt_elem *token_,
                              const dt_elem *position_, struct dt_stream *s)
{
    float *out = out_;
    const float *token = token_, *position = position_;
    size_t width = e->width;
    (void)s;
    for (size_t n = 0; n < e->rows; n++) {
        const float *word = e->ids[n] < 0 ? NULL : token + (size_t)e->ids[n] * width;
        size_t at = (e->first + dt_embedding_place(e, n)) * width;
        for (size_t c = 0; c < width; c++)
            out[n * width + c] = (word ? word[c] : 0) + (position ? position[at + c] : 0);
    }
}

/* Each row's gradient goes to the word and to the position that made it. */
void dt_ref_embedding_backward(const struct dt_embedding *e, dt_elem *dtoken_, dt_elem *dposition_,
                               const dt_elem *dout_, struct dt_stream *s)
{
    float *dtoken = dtoken_, *dposition = dposition_;
    const float *dout = dout_;
    size_t width = e->width;
    (void)s;
    for (size_t n = 0; n < e->rows; n++) {
        size_t at = (e->first + dt_embedding_place(e, n)) * width;
        for (size_t c = 0; c < width; c++) {
            if (e->ids[n] >= 0)
                dtoken[(size_t)e->ids[n] * width + c] += dout[n * width + c];
            if (dposition)
                dposition[at + c] += dout[n * width + c];
        }
    }
}

/* LayerNorm: mean = sum x / C; rstd = 1 / sqrt(sum (x - mean)^2 / C + eps).
 * RMSNorm has no mean to take away. */
static void find_moments(const struct dt_norm *n, size_t row, const float *x)
{
    double mean = 0, square = 0;
    for (size_t c = 0; n->mean && c < n->width; c++)
        mean += x[c];
    mean /= (double)n->width;
    for (size_t c = 0; c < n->width; c++)
        square += (x[c] - mean) * (x[c] - mean);
    if (n->mean)
        n->mean[row] = (float)mean;
    n->rstd[row] = (float)(1 / sqrt(square / (double)n->width + (double)n->eps));
}

/* sum = x + add; out = (sum - mean) * rstd * (weight + plus) + bias, [N,C] each. */
void dt_ref_norm_forward(const struct dt_norm *n, dt_elem *out_, dt_elem *sum_, const dt_elem *x_,
                         const dt_elem *add_, struct dt_stream *s)
{
    float *out = out_, *sum = sum_;
    const float *x = x_, *add = add_, *weight = n->weight, *bias = n->bias;
    size_t width = n->width;
    (void)s;
    for (size_t i = 0; sum && i < n->rows * width; i++)
        sum[i] = x[i] + (add ? add[i] : 0);
    for (size_t row = 0; row < n->rows; row++) {
        const float *in = (sum ? sum : x) + row * width;
        find_moments(n, row, in);
        float mean = n->mean ? n->mean[row] : 0;
        for (size_t c = 0; c < width; c++)
            out[row * width + c] =
                (in[c] - mean) * n->rstd[row] * (weight[c] + n->plus) + (bias ? bias[c] : 0);
    }
}

/* With h = (x - mean) * rstd and g = dout * (weight + plus), the gradient of h:
 *   dx = rstd * (g - average(g) - h * average(g * h))
 * The averages are there because mean and rstd depend on every x of the row; RMSNorm has no mean,
 * and so not the first of them. dweight[C] = sum over rows of dout * h; dbias[C] = that of dout. */
void dt_ref_norm_backward(const struct dt_norm *n, dt_elem *dx_, dt_elem *dweight_, dt_elem *dbias_,
                          const dt_elem *x_, const dt_elem *dout_, struct dt_stream *s)
{
    float *dx = dx_, *dweight = dweight_, *dbias = dbias_;
    const float *x = x_, *dout = dout_, *weight = n->weight;
    size_t width = n->width;
    (void)s;
    for (size_t row = 0; row < n->rows; row++, x += width, dout += width, dx += width) {
        double mean = n->mean ? (double)n->mean[row] : 0, rstd = (double)n->rstd[row];
        double average_g = 0, average_gh = 0;
        for (size_t c = 0; c < width; c++) {
            double g = (double)dout[c] * (weight[c] + n->plus);
            average_g += g / (double)width;
            average_gh += g * (x[c] - mean) * rstd / (double)width;
        }
        if (!n->mean)
            average_g = 0;
        for (size_t c = 0; c < width; c++) {
            double h = (x[c] - mean) * rstd, g = (double)dout[c] * (weight[c] + n->plus);
            dx[c] += (float)(rstd * (g - average_g - h * average_gh));
            if (dweight)
                dweight[c] += (float)(dout[c] * h);
            if (dweight && dbias)
                dbias[c] += dout[c];
        }
    }
}

static double head_rstd(const struct dt_head_norm *n, const float *x)
{
    double square = 0;
    for (size_t c = 0; c < n->head_dim; c++)
        square += (double)x[c] * x[c] / (double)n->head_dim;
    return 1 / sqrt(square + (double)n->eps);
}

/* out = h * (weight + plus), h = x * rstd */
void dt_ref_head_norm_forward(const struct dt_head_norm *n, dt_elem *out_, const dt_elem *x_,
                              struct dt_stream *s)
{
    (void)s;
    for (size_t i = 0; i < n->rows * n->heads; i++) {
        size_t at = i / n->heads * n->stride + i % n->heads * n->head_dim;
        const float *x = (const float *)x_ + at, *weight = n->weight;
        float *out = (float *)out_ + at;
        double rstd = head_rstd(n, x);
        for (size_t c = 0; c < n->head_dim; c++)
            out[c] = (float)(x[c] * rstd * (weight[c] + n->plus));
    }
}

/* dx = rstd * (g - h * average(g h)), g = dout * (weight + plus) */
void dt_ref_head_norm_backward(const struct dt_head_norm *n, dt_elem *dx_, dt_elem *dweight_,
                               const dt_elem *x_, const dt_elem *dout_, struct dt_stream *s)
{
    float *dweight = dweight_;
    (void)s;
    for (size_t i = 0; i < n->rows * n->heads; i++) {
        size_t at = i / n->heads * n->stride + i % n->heads * n->head_dim;
        const float *x = (const float *)x_ + at, *dout = (const float *)dout_ + at;
        const float *weight = n->weight;
        float *dx = (float *)dx_ + at;
        double rstd = head_rstd(n, x), average = 0;
        for (size_t c = 0; c < n->head_dim; c++) {
            if (dweight)
                dweight[c] += (float)(dout[c] * x[c] * rstd);
            average += (double)dout[c] * (weight[c] + n->plus) * x[c] * rstd / (double)n->head_dim;
        }
        for (size_t c = 0; c < n->head_dim; c++) {
            double g = (double)dout[c] * (weight[c] + n->plus);
            dx[c] = (float)(rstd * (g - x[c] * rstd * average));
        }
    }
}

/* Each pair (x[i], x[i + D/2]) of a head is a point in the plane, turned by an angle that grows
 * with the position, faster for small i: so the product of a query and a key depends on how far
 * they are apart. Turning back is the backward pass, as the inverse of a rotation is its transpose.
 * The angle is a float, because models were trained with one. */
void dt_ref_rope(const struct dt_rope *r, dt_elem *x_, bool backward, struct dt_stream *s)
{
    float *x = x_;
    size_t half = r->head_dim / 2;
    (void)s;
    for (size_t n = 0; n < r->rows; n++) {
        for (size_t i = 0; i < half; i++) {
            float angle = (float)(r->first + n % r->positions) * r->speeds[i];
            float cosine = (float)cos((double)angle) * r->scale;
            float sine = (float)sin((double)angle) * r->scale;
            if (backward)
                sine = -sine;
            for (size_t h = 0; h < r->heads; h++) {
                float *a = x + n * r->stride + h * r->head_dim + i, *b = a + half, was = *a;
                *a = was * cosine - *b * sine;
                *b = *b * cosine + was * sine;
            }
        }
    }
}

/* Where W[i,o] lies: GPT-2 stores [I,O], torch's Linear [O,I]. */
static size_t weight_at(const struct dt_linear *l, size_t i, size_t o)
{
    return l->layout == DT_WEIGHT_IN_OUT ? i * l->out + o : o * l->in + i;
}

/* out[n,o] = sum over i of x[n,i] * W[i,o] + bias[o] */
void dt_ref_linear_forward(const struct dt_linear *l, dt_elem *out_, const dt_elem *x_,
                           struct dt_stream *s)
{
    float *out = out_;
    const float *x = x_, *weight = l->weight, *bias = l->bias;
    size_t stride = dt_linear_stride(l);
    (void)s;
    for (size_t n = 0; n < l->rows; n++) {
        for (size_t o = 0; o < l->out; o++) {
            double sum = bias ? (double)bias[o] : 0;
            for (size_t i = 0; i < l->in; i++)
                sum += (double)x[n * l->in + i] * weight[weight_at(l, i, o)];
            out[n * stride + o] = (float)sum;
        }
    }
}

void dt_ref_linear_gelu_forward(const struct dt_linear *l, dt_elem *out, dt_elem *pre,
                                const dt_elem *x, struct dt_stream *s)
{
    assert(dt_linear_stride(l) == l->out);
    if (!pre)
        pre = out;
    dt_ref_linear_forward(l, pre, x, s);
    dt_ref_gelu_forward(l->rows * l->out, out, pre, s);
}

/* dx[n,i] = sum over o of dout[n,o] * W[i,o], added to what is there when so asked. */
static void linear_dx(const struct dt_linear *l, float *dx, bool add, const float *dout)
{
    const float *weight = l->weight;
    size_t stride = dt_linear_stride(l);
    for (size_t n = 0; n < l->rows; n++) {
        for (size_t i = 0; i < l->in; i++) {
            double sum = add ? (double)dx[n * l->in + i] : 0;
            for (size_t o = 0; o < l->out; o++)
                sum += (double)dout[n * stride + o] * weight[weight_at(l, i, o)];
            dx[n * l->in + i] = (float)sum;
        }
    }
}

/* dW[i,o] += sum over n of x[n,i] * dout[n,o] */
static void linear_dweight(const struct dt_linear *l, float *dweight, const float *x,
                           const float *dout)
{
    size_t stride = dt_linear_stride(l);
    for (size_t o = 0; o < l->out; o++) {
        for (size_t i = 0; i < l->in; i++) {
            double sum = 0;
            for (size_t n = 0; n < l->rows; n++)
                sum += (double)x[n * l->in + i] * dout[n * stride + o];
            dweight[weight_at(l, i, o)] += (float)sum;
        }
    }
}

/* dbias[o] += sum over n of dout[n,o] */
static void linear_dbias(const struct dt_linear *l, float *dbias, const float *dout)
{
    size_t stride = dt_linear_stride(l);
    for (size_t o = 0; o < l->out; o++) {
        double sum = 0;
        for (size_t n = 0; n < l->rows; n++)
            sum += dout[n * stride + o];
        dbias[o] += (float)sum;
    }
}

void dt_ref_linear_backward(const struct dt_linear *l, dt_elem *dx, bool add, dt_elem *dweight,
                            dt_elem *dbias, const dt_elem *x, const dt_elem *dout,
                            struct dt_stream *s)
{
    (void)s;
    if (dx)
        linear_dx(l, dx, add, dout);
    if (dweight)
        linear_dweight(l, dweight, x, dout);
    if (dbias)
        linear_dbias(l, dbias, dout);
}

/* gelu(x) = x/2 * (1 + tanh(u)), u = sqrt(2/pi) * (x + 0.044715 x^3) */
static const double gelu_scale = 0.7978845608028654, gelu_cube = 0.044715;

static double gelu(double x)
{
    return x / 2 * (1 + tanh(gelu_scale * (x + gelu_cube * x * x * x)));
}

/* (1 + tanh(u)) / 2 + x/2 * (1 - tanh(u)^2) * u', as tanh' = 1 - tanh^2 */
static double gelu_slope(double x)
{
    double t = tanh(gelu_scale * (x + gelu_cube * x * x * x));
    double du = gelu_scale * (1 + 3 * gelu_cube * x * x);
    /* 1 - t^2 is 0 long before du overflows. */
    double tail = t * t == 1 ? 0 : x / 2 * (1 - t * t) * du;
    return (1 + t) / 2 + tail;
}

void dt_ref_gelu_forward(size_t n, dt_elem *out_, const dt_elem *pre_, struct dt_stream *s)
{
    float *out = out_;
    const float *pre = pre_;
    (void)s;
    for (size_t i = 0; i < n; i++)
        out[i] = (float)gelu((double)pre[i]);
}

void dt_ref_gelu_backward(size_t n, dt_elem *dpre_, const dt_elem *pre_, const dt_elem *dout_,
                          struct dt_stream *s)
{
    float *dpre = dpre_;
    const float *pre = pre_, *dout = dout_;
    (void)s;
    for (size_t i = 0; i < n; i++)
        dpre[i] = (float)(dout[i] * gelu_slope((double)pre[i]));
}

void dt_ref_linear_gelu_backward(const struct dt_linear *l, dt_elem *dpre, dt_elem *dweight,
                                 dt_elem *dbias, const dt_elem *x, const dt_elem *pre,
                                 const dt_elem *dout, struct dt_stream *s)
{
    assert(dt_linear_stride(l) == l->out);
    dt_ref_linear_backward(l, dpre, false, dweight, dbias, x, dout, s);
    dt_ref_gelu_backward(l->rows * l->in, dpre, pre, dpre, s);
}

/* Of element I, counted without what is between rows. */
static size_t place_in_gate(const struct dt_gate *g, size_t i)
{
    return i / g->width * dt_gate_stride(g) + i % g->width;
}

/* silu(x) = x * sigmoid(x), sigmoid(x) = 1 / (1 + e^-x) */
void dt_ref_swiglu_forward(const struct dt_gate *g, dt_elem *out_, const dt_elem *gate_,
                           const dt_elem *up_, struct dt_stream *s)
{
    float *out = out_;
    const float *gate = gate_, *up = up_;
    (void)s;
    for (size_t i = 0; i < g->rows * g->width; i++) {
        size_t at = place_in_gate(g, i);
        out[i] = (float)((double)gate[at] / (1 + exp(-(double)gate[at])) * up[at]);
    }
}

/* silu'(x) = sigmoid + x * sigmoid * (1 - sigmoid), as sigmoid' = sigmoid * (1 - sigmoid) */
void dt_ref_swiglu_backward(const struct dt_gate *g, dt_elem *dgate_, dt_elem *dup_,
                            const dt_elem *gate_, const dt_elem *up_, const dt_elem *dout_,
                            struct dt_stream *s)
{
    float *dgate = dgate_, *dup = dup_;
    const float *gate = gate_, *up = up_, *dout = dout_;
    (void)s;
    for (size_t i = 0; i < g->rows * g->width; i++) {
        size_t at = place_in_gate(g, i);
        double x = (double)gate[at], u = (double)up[at], d = (double)dout[i];
        double sigmoid = 1 / (1 + exp(-x));
        dup[at] = (float)(d * x * sigmoid);
        dgate[at] = (float)(d * u * sigmoid * (1 + x * (1 - sigmoid)));
    }
}

void dt_ref_geglu_forward(const struct dt_gate *g, dt_elem *out_, const dt_elem *gate_,
                          const dt_elem *up_, struct dt_stream *s)
{
    float *out = out_;
    const float *gate = gate_, *up = up_;
    (void)s;
    for (size_t i = 0; i < g->rows * g->width; i++) {
        size_t at = place_in_gate(g, i);
        out[i] = (float)(gelu((double)gate[at]) * up[at]);
    }
}

void dt_ref_geglu_backward(const struct dt_gate *g, dt_elem *dgate_, dt_elem *dup_,
                           const dt_elem *gate_, const dt_elem *up_, const dt_elem *dout_,
                           struct dt_stream *s)
{
    float *dgate = dgate_, *dup = dup_;
    const float *gate = gate_, *up = up_, *dout = dout_;
    (void)s;
    for (size_t i = 0; i < g->rows * g->width; i++) {
        size_t at = place_in_gate(g, i);
        double x = (double)gate[at], u = (double)up[at], d = (double)dout[i];
        dup[at] = (float)(d * gelu(x));
        dgate[at] = (float)(d * u * gelu_slope(x));
    }
}

void dt_ref_add(size_t n, dt_elem *to_, const dt_elem *from_, struct dt_stream *s)
{
    float *to = to_;
    const float *from = from_;
    (void)s;
    for (size_t i = 0; i < n; i++)
        to[i] += from[i];
}

void dt_ref_copy_rows(size_t rows, size_t width, dt_elem *to_, size_t to_stride,
                      const dt_elem *from_, size_t from_stride, struct dt_stream *s)
{
    float *to = to_;
    const float *from = from_;
    (void)s;
    for (size_t n = 0; n < rows; n++)
        for (size_t i = 0; i < width; i++)
            to[n * to_stride + i] = from[n * from_stride + i];
}

/* What stays and what goes hangs on nothing but START and the element's place, so forward and
 * backward agree without a mask. */
void dt_ref_dropout(const struct dt_dropout *d, size_t n, dt_elem *out_, bool add,
                    const dt_elem *x_, struct dt_stream *s)
{
    float *out = out_;
    const float *x = x_;
    (void)s;
    for (size_t i = 0; i < n; i++) {
        uint64_t number = dt_chance_place(i, d->width, d->pitch);
        bool gone = dt_chance_bits(d->start, number) < d->gone_below;
        float left = gone ? 0 : x[i] * d->scale;
        out[i] = add ? out[i] + left : left;
    }
}
