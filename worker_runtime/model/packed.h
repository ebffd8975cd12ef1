/* SPDX-License-Identifier: Apache-2.0 */
/* A frozen model whose weights in the linear layers of blocks are kept in NF4 (ops/nf4.h): its
 * tensors, as a dt_zero keeps them. There the elements are words of 32 bits, into which all else is
 * put as the device computes with it. Pure. */
#ifndef DT_WORKER_RUNTIME_MODEL_PACKED_H
#define DT_WORKER_RUNTIME_MODEL_PACKED_H

#include "worker_runtime/model/shape.h"

/* Whether T of the model S is kept in NF4. */
bool dt_packed_is_nf4(const struct dt_shape *s, const struct dt_tensor *t);
/* The numbers of T, whatever it is kept in. */
size_t dt_packed_numbers(const struct dt_tensor *t);
/* Whether a matrix is packed turned, columns first, so that it is [out, in] as in torch's Linear:
 * so bitsandbytes has it of a GPT-2 too. */
bool dt_packed_turns(const struct dt_shape *s);

/* As dt_shape_tensors(), but .count and .offset are in words. ELEM: what the device computes with.
 * Free the result. */
struct dt_tensor *dt_packed_tensors(const struct dt_shape *s, enum dt_dtype elem,
                                    struct dt_err *err);

#endif
