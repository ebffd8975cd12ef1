/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of a GPU, for each element type it computes with. */
#ifndef DT_CUDA_OPS_H
#define DT_CUDA_OPS_H

#include "worker_runtime/ops/ops.h"

extern const struct dt_ops dt_cuda_ops_f32;
extern const struct dt_ops dt_cuda_ops_bf16;

#endif
