/* SPDX-License-Identifier: Apache-2.0 */
/* DoRA's magnitudes: a layer's weights and its adapter's give each output a direction, and a
 * trained number its length. */
#include "worker_runtime/ops/reference/reference.h"

#include <math.h>

static double weight_of(const struct dt_linear *l, size_t i, size_t o)
{
    const float *weight = l->weight;
    return (double)weight[l->layout == DT_WEIGHT_IN_OUT ? i * l->out + o : o * l->in + i];
}

void dt_ref_magnitude_norms(const struct dt_linear *l, size_t r, float scale, const dt_elem *a_,
                            const dt_elem *b_, float *rnorms, struct dt_stream *s)
{
    const float *a = a_, *b = b_;
    (void)s;
    for (size_t o = 0; o < l->out; o++) {
        double square = 0;
        for (size_t i = 0; i < l->in; i++) {
            double low = 0;
            for (size_t k = 0; k < r; k++)
                low += (double)b[o * r + k] * (double)a[k * l->in + i];
            double w = weight_of(l, i, o) + (double)scale * low;
            square += w * w;
        }
        rnorms[o] = square <= 0 ? 0 : (float)(1 / sqrt(square));
    }
}

static float gain(const struct dt_magnitude *m, size_t column)
{
    return ((const float *)m->magnitudes)[column] * m->rnorms[column];
}

void dt_ref_magnitude_forward(const struct dt_magnitude *m, dt_elem *out_, const dt_elem *base_,
                              const dt_elem *sum_, struct dt_stream *s)
{
    float *out = out_;
    const float *base = base_, *sum = sum_, *bias = m->bias;
    (void)s;
    for (size_t row = 0; row < m->rows; row++)
        for (size_t c = 0; c < m->width; c++) {
            size_t at = row * m->stride + c;
            float product = base ? base[at] : out[at] - (bias ? bias[c] : 0), g = gain(m, c);
            out[at] += (g - 1) * product + g * sum[at];
        }
}

void dt_ref_magnitude_backward(const struct dt_magnitude *m, dt_elem *dsum_, dt_elem *dbase_,
                               dt_elem *dmagnitudes_, const dt_elem *base_, const dt_elem *sum_,
                               const dt_elem *dout_, struct dt_stream *s)
{
    float *dsum = dsum_, *dbase = dbase_, *dmagnitudes = dmagnitudes_;
    const float *base = base_, *sum = sum_, *dout = dout_;
    (void)s;
    for (size_t c = 0; c < m->width; c++) {
        double all = 0;
        float g = gain(m, c);
        for (size_t row = 0; row < m->rows; row++) {
            size_t at = row * m->stride + c;
            all += (double)dout[at] * ((double)base[at] + (double)sum[at]);
            dsum[at] = g * dout[at];
            if (dbase)
                dbase[at] = (g - 1) * dout[at];
        }
        dmagnitudes[c] += (float)(all * (double)m->rnorms[c]);
    }
}
