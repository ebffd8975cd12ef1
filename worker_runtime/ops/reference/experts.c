/* SPDX-License-Identifier: Apache-2.0 */
/* Which experts a row goes through, its way there and back, and how much each counts. */
#include "worker_runtime/ops/reference/reference.h"

#include <math.h>
#include <string.h>

/* Returns log sum exp. */
static float softmax(size_t n, float *out, const float *x)
{
    float most = x[0], sum = 0;
    for (size_t i = 1; i < n; i++)
        most = fmaxf(most, x[i]);
    for (size_t i = 0; i < n; i++)
        sum += out[i] = expf(x[i] - most);
    for (size_t i = 0; i < n; i++)
        out[i] /= sum;
    return most + logf(sum);
}

static bool is_among(const int32_t *experts, size_t count, size_t expert)
{
    for (size_t j = 0; j < count; j++)
        if ((size_t)experts[j] == expert)
            return true;
    return false;
}

/* The largest of those that are not among the COUNT experts, and of equals the first. NaN is larger
 * than nothing: a row of them takes the first ones. */
static size_t next_largest(size_t n, const float *probs, const int32_t *experts, size_t count)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (!is_among(experts, count, i) && (best == n || probs[i] > probs[best]))
            best = i;
    return best;
}

/* Of the probabilities of a row's picks; 1 where they are taken as they are. */
static float sum_of(const struct dt_routes *r, const float *probs, const int32_t *experts)
{
    float sum = 0;
    for (size_t j = 0; r->to_one && j < r->picks; j++)
        sum += probs[experts[j]];
    return r->to_one ? sum : 1;
}

void dt_ref_route(const struct dt_routes *r, float *probs, int32_t *experts, float *weights,
                  const dt_elem *logits, struct dt_stream *s)
{
    (void)s;
    for (size_t n = 0; n < r->rows; n++) {
        float *p = probs + n * r->experts, *w = weights + n * r->picks;
        int32_t *own = experts + n * r->picks;
        float logsum = softmax(r->experts, p, (const float *)logits + n * r->experts);
        if (r->logsums)
            r->logsums[n] = logsum;
        for (size_t j = 0; j < r->picks; j++)
            own[j] = (int32_t)next_largest(r->experts, p, own, j);
        float sum = sum_of(r, p, own);
        for (size_t j = 0; j < r->picks; j++)
            w[j] = p[own[j]] / sum;
    }
}

/* What a row's log sum exp adds to the gradient of each logit, for a probability of 1. */
static float own_slope(const struct dt_routes *r, size_t n)
{
    return r->logsums ? r->z_slope * r->logsums[n] : 0;
}

/* With g the gradient of each probability, p (g - the sum of all p g). Where weights are made to
 * sum to 1, w = p / P, a weight's gradient is that of its probability by (dw - the sum of all w dw)
 * / P. */
void dt_ref_route_backward(const struct dt_routes *r, dt_elem *dlogits, const float *probs,
                           const int32_t *experts, const float *dweights, const float *dprobs,
                           struct dt_stream *s)
{
    (void)s;
    for (size_t n = 0; n < r->rows; n++) {
        const float *p = probs + n * r->experts, *dw = dweights + n * r->picks;
        const int32_t *own = experts + n * r->picks;
        float *out = (float *)dlogits + n * r->experts, sum = sum_of(r, p, own), mean = 0, all = 0;
        for (size_t i = 0; i < r->experts; i++)
            out[i] = dprobs ? dprobs[i] : 0;
        for (size_t j = 0; r->to_one && j < r->picks; j++)
            mean += p[own[j]] / sum * dw[j];
        for (size_t j = 0; j < r->picks; j++)
            out[own[j]] += (dw[j] - mean) / sum;
        for (size_t i = 0; i < r->experts; i++)
            all += p[i] * out[i];
        for (size_t i = 0; i < r->experts; i++)
            out[i] = p[i] * (out[i] - all + own_slope(r, n));
    }
}

void dt_ref_route_sort(const struct dt_routes *r, const struct dt_route_order *to,
                       const int32_t *experts, struct dt_stream *s)
{
    size_t all = r->rows * r->picks;
    int32_t *next =
        to->first + 1; /* a begin moves to its end, which is where the next one begins */
    (void)s;
    memset(to->first, 0, (r->experts + 1) * sizeof *to->first);
    for (size_t i = 0; i < all; i++)
        if ((size_t)experts[i] + 1 < r->experts)
            next[experts[i] + 1]++;
    for (size_t e = 1; e < r->experts; e++)
        next[e] += next[e - 1];
    for (size_t i = 0; i < all; i++) {
        int32_t place = next[experts[i]]++;
        to->picks[place] = (int32_t)i;
        to->places[i] = place;
    }
}

void dt_ref_route_spread(const struct dt_routes *r, const struct dt_route_order *o, size_t width,
                         dt_elem *out, const dt_elem *x, struct dt_stream *s)
{
    (void)s;
    for (size_t i = 0; i < r->rows * r->picks; i++)
        memcpy((float *)out + i * width, (const float *)x + (size_t)o->picks[i] / r->picks * width,
               width * sizeof(float));
}

void dt_ref_route_collect(const struct dt_routes *r, const struct dt_route_order *o, size_t width,
                          dt_elem *out_, bool add, const dt_elem *x, struct dt_stream *s)
{
    (void)s;
    for (size_t n = 0; n < r->rows; n++) {
        float *out = (float *)out_ + n * width;
        for (size_t c = 0; c < width; c++) {
            float sum = add ? out[c] : 0;
            for (size_t j = 0; j < r->picks; j++)
                sum += ((const float *)x)[(size_t)o->places[n * r->picks + j] * width + c];
            out[c] = sum;
        }
    }
}

void dt_ref_weigh_forward(size_t rows, size_t width, dt_elem *x, const float *weights,
                          const int32_t *of, struct dt_stream *s)
{
    (void)s;
    for (size_t n = 0; n < rows; n++)
        for (size_t c = 0; c < width; c++)
            ((float *)x)[n * width + c] *= weights[of ? (size_t)of[n] : n];
}

void dt_ref_weigh_backward(size_t rows, size_t width, dt_elem *x_, dt_elem *dout_, float *dweights,
                           const float *weights, const int32_t *of, struct dt_stream *s)
{
    (void)s;
    for (size_t n = 0; n < rows; n++) {
        size_t weight = of ? (size_t)of[n] : n;
        float *x = (float *)x_ + n * width, *dout = (float *)dout_ + n * width, sum = 0;
        for (size_t c = 0; c < width; c++) {
            sum += x[c] * dout[c];
            x[c] *= weights[weight];
            dout[c] *= weights[weight];
        }
        dweights[weight] = sum;
    }
}

void dt_ref_sigmoid_forward(size_t n, float *out, const dt_elem *x, struct dt_stream *s)
{
    (void)s;
    for (size_t i = 0; i < n; i++)
        out[i] = 1 / (1 + expf(-((const float *)x)[i]));
}

void dt_ref_sigmoid_backward(size_t n, dt_elem *dx, const float *out, const float *dout,
                             struct dt_stream *s)
{
    (void)s;
    for (size_t i = 0; i < n; i++)
        ((float *)dx)[i] = dout[i] * out[i] * (1 - out[i]);
}
