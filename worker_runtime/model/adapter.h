/* SPDX-License-Identifier: Apache-2.0 */
/* What an adapter (lora.h) adds to the linear layer that it stands beside, forward, and backward to
 * its own gradients and to that of the layer's input. For linear.c. */
#ifndef DT_WORKER_RUNTIME_MODEL_ADAPTER_H
#define DT_WORKER_RUNTIME_MODEL_ADAPTER_H

#include "worker_runtime/model/block.h"

/* Outputs of L that have an adapter. */
size_t dt_adapter_outputs(const struct dt_block *b, const struct dt_linear *l);
/* OUT, which the layer alone has made of X, becomes what both make. */
void dt_adapter_forward(const struct dt_block *b, const struct dt_linear *l, dt_elem *out,
                        const dt_elem *x);
/* DX gets the layer's part too, = or with ADD += . */
void dt_adapter_backward(const struct dt_block *b, const struct dt_linear *l, dt_elem *dx, bool add,
                         const dt_elem *x, const dt_elem *dout);

#endif
