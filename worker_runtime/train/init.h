/* SPDX-License-Identifier: Apache-2.0 */
/* First weights. Each number follows from the seed, its tensor and its place in it alone, so every
 * world and every stage begins with the same model. Pure. */
#ifndef DT_WORKER_RUNTIME_TRAIN_INIT_H
#define DT_WORKER_RUNTIME_TRAIN_INIT_H

#include "worker_runtime/model/shape.h"

/* Elements FIRST to FIRST + COUNT - 1 of tensor number TENSOR. */
void dt_init_tensor(const struct dt_tensor *t, size_t tensor, uint64_t seed, size_t first,
                    size_t count, float *out);

#endif
