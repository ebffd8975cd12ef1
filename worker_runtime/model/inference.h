/* SPDX-License-Identifier: Apache-2.0 */
/* A transformer that reads one text and tells, behind each part of it, what may come next. Keys and
 * values of all that it has read stay, so that one more token costs one row of each product. */
#ifndef DT_WORKER_RUNTIME_MODEL_INFERENCE_H
#define DT_WORKER_RUNTIME_MODEL_INFERENCE_H

#include "worker_runtime/device/device.h"
#include "worker_runtime/model/shape.h"

#include <signal.h>

struct dt_inference;

/* For a text of at most CAPACITY tokens, which is at most the shape's positions. UNITS: where each
 * unit of dt_shape_units() begins, in DEVICE's memory and of the type it computes with. DEVICE and
 * the parameters outlive it. */
struct dt_inference *dt_inference_create(const struct dt_shape *shape, const char *const *units,
                                         size_t capacity, struct dt_device *device,
                                         struct dt_err *err);
void dt_inference_destroy(struct dt_inference *i); /* NULL is fine */
/* From here on *STOP, which outlives it, is looked at between two layers: not 0 gives up what is
 * being read, with DT_E_CANCELED. A long text takes minutes. */
void dt_inference_heed(struct dt_inference *i, const volatile sig_atomic_t *stop);

/* Reads COUNT tokens, one at least, behind those before. LOGITS, in host memory, gets one number
 * for each word of the vocabulary: of the token that follows. */
int dt_inference_read(struct dt_inference *i, const int32_t *ids, size_t count, float *logits,
                      struct dt_err *err);
size_t dt_inference_length(const struct dt_inference *i); /* tokens read so far */

#endif
