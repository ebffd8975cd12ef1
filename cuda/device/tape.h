/* SPDX-License-Identifier: Apache-2.0 */
/* Work of the compute stream as CUDA graphs: recorded when it is wanted for the second time, and
 * from then on launched as one. The first time nothing is recorded, for then cuBLASLt looks for its
 * plans and CUDA loads kernels, which no recording takes. */
#ifndef DT_CUDA_DEVICE_TAPE_H
#define DT_CUDA_DEVICE_TAPE_H

#include "worker_runtime/device/device.h"

extern const struct dt_tape_ops dt_cuda_tapes;

#endif
