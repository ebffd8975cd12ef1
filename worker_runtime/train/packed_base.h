/* SPDX-License-Identifier: Apache-2.0 */
/* The frozen model on its way into memory where its large weights are kept in NF4: each is packed
 * as it is read, on every rank that keeps a part of it. */
#ifndef DT_WORKER_RUNTIME_TRAIN_PACKED_BASE_H
#define DT_WORKER_RUNTIME_TRAIN_PACKED_BASE_H

#include "worker_runtime/ckpt/checkpoint.h"

/* Fills BASE, made of dt_packed_tensors(), with the weights of the folder DIR, rounded to TYPE.
 * Collective. */
int dt_packed_base_load(struct dt_zero *base, const char *dir, const struct dt_ckpt_model *m,
                        enum dt_dtype type, struct dt_err *err);

#endif
