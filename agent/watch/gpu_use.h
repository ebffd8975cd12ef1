/* SPDX-License-Identifier: Apache-2.0 */
/* How much of its GPUs a node uses. May block for as long as the driver does. */
#ifndef DT_AGENT_WATCH_GPU_USE_H
#define DT_AGENT_WATCH_GPU_USE_H

#include "agent/bind/gpus.h"
#include "base/nvml.h"
#include "rendezvous/protocol/telemetry.h"

/* The GPUS of this node by way of N, which is open: their number, use and memory, in OUT. A part of
 * a card does not tell how busy it is. */
void dt_gpu_use_read(const struct dt_nvml *n, const struct dt_gpus *gpus, struct dt_telemetry *out);

#endif
