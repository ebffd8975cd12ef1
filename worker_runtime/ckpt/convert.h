/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of files to those we compute with, and back: to the nearest, halves to even. */
#ifndef DT_WORKER_RUNTIME_CKPT_CONVERT_H
#define DT_WORKER_RUNTIME_CKPT_CONVERT_H

#include <dtrun/dtype.h>
#include <stdbool.h>

bool dt_convert_is_float(enum dt_dtype type); /* F32, BF16, F16, F64 */
void dt_convert_from_f32(enum dt_dtype type, const float *in, void *out, size_t count);
void dt_convert_to_f32(enum dt_dtype type, const void *in, float *out, size_t count);

#endif
