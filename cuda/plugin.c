/* SPDX-License-Identifier: Apache-2.0 */
/* The one symbol of libdt_cuda.so. */
#include "cuda/device/choose.h"
#include "cuda/device/device.h"

extern const struct dt_cuda_plugin dt_plugin;
DT_PLUGIN_EXPORT const struct dt_cuda_plugin dt_plugin = {
    .head = {.abi = DT_CUDA_PLUGIN_ABI, .size = sizeof dt_plugin},
    .devices = dt_cuda_devices,
    .open = dt_cuda_device_open,
    .memory = dt_cuda_device_memory,
    .check_nccl = dt_cuda_check_nccl,
    .identify = dt_cuda_device_identify,
};
