/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share a model share what is trained beside it: a stage of a pipeline has the adapters
 * of its blocks, and those who share a layer cut its adapter as the layer is cut. Of a layer cut by
 * its outputs each has all of A and some of B's rows, and of magnitudes; of one cut by its inputs,
 * some of A's columns and all of B. What such a rank has whole it has a part of the gradients of.
 * Pure. */
#ifndef DT_WORKER_RUNTIME_MODEL_LORA_CUT_H
#define DT_WORKER_RUNTIME_MODEL_LORA_CUT_H

#include "worker_runtime/model/lora.h"
#include "worker_runtime/model/stage.h"

/* COUNT tensors of dt_lora_tensors(): those of other stages lose all elements. */
void dt_lora_keep(const struct dt_lora *l, const struct dt_shape *s, const struct dt_stage *stage,
                  struct dt_tensor *tensors, size_t count);

/* The units of dt_lora_tensors() that belong to a chunk of S, written out. */
struct dt_chunk dt_lora_units(const struct dt_lora *l, const struct dt_shape *s,
                              const struct dt_chunk *c);

/* Part INDEX of PARTS of one of dt_lora_tensors(), as dt_shape_part() has a model's own. */
void dt_lora_part(const struct dt_lora *l, const struct dt_shape *s, const struct dt_tensor *t,
                  size_t parts, size_t index, struct dt_tensor_part *out);

#endif
