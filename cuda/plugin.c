/* SPDX-License-Identifier: Apache-2.0 */
/* The one symbol of libdt_cuda.so. */
#include "cuda/choose.h"
#include "cuda/device.h"

#include <nccl.h>
#include <stdio.h>

DT_API const struct dt_cuda_plugin *dt_cuda_plugin(void);

const struct dt_cuda_plugin *dt_cuda_plugin(void)
{
    static char version[64];
    static const struct dt_cuda_plugin plugin = {
        .abi = DT_CUDA_PLUGIN_ABI,
        .size = sizeof plugin,
        .version = version,
        .devices = dt_cuda_devices,
        .open = dt_cuda_device_open,
        .memory = dt_cuda_device_memory,
        .check_nccl = dt_cuda_check_nccl,
    };
    snprintf(version, sizeof version, "CUDA %d.%d, NCCL %d.%d.%d", CUDART_VERSION / 1000,
             CUDART_VERSION % 1000 / 10, NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
    return &plugin;
}
