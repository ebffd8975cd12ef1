/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/convert.h"

#include <stdint.h>
#include <string.h>

#include "worker_runtime/ops/half.h"

bool dt_convert_is_float(enum dt_dtype type)
{
    return type == DT_F32 || type == DT_BF16 || type == DT_F16 || type == DT_F64;
}

void dt_convert_from_f32(enum dt_dtype type, const float *in, void *out, size_t count)
{
    uint16_t *half = out;
    double *wide = out;
    if (type == DT_F32)
        memcpy(out, in, count * sizeof *in);
    else if (type == DT_BF16)
        for (size_t i = 0; i < count; i++)
            half[i] = dt_float_to_bf16(in[i]);
    else if (type == DT_F16)
        for (size_t i = 0; i < count; i++)
            half[i] = dt_float_to_f16(in[i]);
    else if (type == DT_F64)
        for (size_t i = 0; i < count; i++)
            wide[i] = (double)in[i];
}

void dt_convert_to_f32(enum dt_dtype type, const void *in, float *out, size_t count)
{
    const uint16_t *half = in;
    const double *wide = in;
    if (type == DT_F32)
        memcpy(out, in, count * sizeof *out);
    else if (type == DT_BF16)
        for (size_t i = 0; i < count; i++)
            out[i] = dt_bf16_to_float(half[i]);
    else if (type == DT_F16)
        for (size_t i = 0; i < count; i++)
            out[i] = dt_f16_to_float(half[i]);
    else if (type == DT_F64)
        for (size_t i = 0; i < count; i++)
            out[i] = (float)wide[i];
}
