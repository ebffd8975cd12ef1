/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/cudnn/compare.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

size_t dt_cudnn_array_bytes(const struct dt_cudnn_array *a)
{
    return a->rows ? ((a->rows - 1) * a->stride + a->width) * dt_dtype_size(a->type) : 0;
}

static double element(const void *x, enum dt_dtype type, size_t i)
{
    float number;
    uint32_t bits;
    if (type == DT_F32)
        return ((const float *)x)[i];
    bits = (uint32_t)((const uint16_t *)x)[i] << 16;
    memcpy(&number, &bits, sizeof number);
    return number;
}

double dt_cudnn_apart(const struct dt_cudnn_array *a, const void *ours, const void *theirs)
{
    double norm = 0, apart = 0;
    for (size_t row = 0; row < a->rows; row++)
        for (size_t i = row * a->stride; i < row * a->stride + a->width; i++) {
            double x = element(ours, a->type, i), y = element(theirs, a->type, i) - x;
            norm += x * x;
            apart += y * y;
        }
    return norm > 0 && isfinite(norm) ? sqrt(apart / norm) : -1;
}
