/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DT_CUDA_DEVICE_ATTENTION_H
#define DT_CUDA_DEVICE_ATTENTION_H

#include "cuda/device/device.h"

/* Gives C's stream cuDNN's attention where W wishes for it and it can be had; where it cannot, one
 * line says why, and our kernels stay. */
void dt_cuda_open_attention(struct dt_cuda *c, const struct dt_device_wish *w);

#endif
