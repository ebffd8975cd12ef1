/* SPDX-License-Identifier: Apache-2.0 */
/* MFU: how much of what its GPUs could do a training does for its model. What is computed twice to
 * save memory does not count. Pure. */
#ifndef DT_WORKER_RUNTIME_TRAIN_MFU_H
#define DT_WORKER_RUNTIME_TRAIN_MFU_H

#include "worker_runtime/model/shape.h"

/* FLOPs of a token in a step, of samples of so many POSITIONS: six for each weight that it is
 * multiplied with, and those of attention, of which the masked half counts too, as is usual. */
double dt_mfu_flops_per_token(const struct dt_shape *shape, size_t positions);

/* FLOPs a second of dense products of 16-bit numbers, by the GPU's name in a device's DESCRIPTION,
 * as its makers tell them. 0: a CPU, a GPU that is not known here, or other numbers than of 16
 * bits. */
double dt_mfu_peak(const char *description, enum dt_dtype elem);
/* Whether the words of NAME stand in DESCRIPTION as words, in whatever case: "A100" is not in
 * "A1000". */
bool dt_mfu_has_name(const char *description, const char *name);

#endif
