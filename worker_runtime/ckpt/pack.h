/* SPDX-License-Identifier: Apache-2.0 */
/* Saved weights on their way into NF4: a part of a tensor at a time, so that nobody has the numbers
 * of a whole model, and of a Llama not even those of a whole tensor. */
#ifndef DT_WORKER_RUNTIME_CKPT_PACK_H
#define DT_WORKER_RUNTIME_CKPT_PACK_H

#include "worker_runtime/ckpt/bitsandbytes.h"
#include "worker_runtime/ckpt/checkpoint.h"

/* M's tensor number TENSOR, which is kept in NF4 (model/packed.h), into PACKED (ops/nf4.h). The
 * numbers are rounded to TYPE first: that is the model that a run in TYPE begins from. One that
 * bitsandbytes has packed is taken as it is. */
int dt_ckpt_pack(const struct dt_ckpt_weights *w, const struct dt_ckpt_model *m, size_t tensor,
                 enum dt_dtype type, void *packed, struct dt_err *err);

/* COUNT numbers from FIRST on of M's tensor number TENSOR that is so packed, as the tensor has
 * them: rounded to TYPE, and not turned. */
void dt_ckpt_unpack(const struct dt_ckpt_model *m, size_t tensor, const void *packed,
                    enum dt_dtype type, uint64_t first, size_t count, float *out);

/* weights.c: as dt_ckpt_weights_read() without adapters, of a tensor that is stored as floats. */
int dt_ckpt_weights_read_stored(const struct dt_ckpt_weights *w, size_t tensor, uint64_t first,
                                size_t count, float *out, struct dt_err *err);
/* NULL: it is stored as floats. */
const struct dt_bnb_weight *dt_ckpt_weights_quantized(const struct dt_ckpt_weights *w,
                                                      size_t tensor);

/* X becomes what is left of it when kept as TYPE. */
void dt_ckpt_round(enum dt_dtype type, float *x, size_t n);

#endif
