/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPU a worker gets. */
#ifndef DT_CUDA_DEVICE_CHOOSE_H
#define DT_CUDA_DEVICE_CHOOSE_H

#include "worker_runtime/device/device.h"

/* How many this process may use; 0 and *err saying why there are none. */
int dt_cuda_devices(struct dt_err *err);
/* Worker N of a host takes the Nth that it sees: its ordinal, or -1. */
int dt_cuda_choose(const struct dt_device_wish *w, struct dt_err *err);

#endif
