/* SPDX-License-Identifier: Apache-2.0 */
/* What CUDA's errors mean to a person who has to do something about them. */
#include "cuda/device/device.h"

static const struct {
    cudaError_t error;
    const char *advice;
} known[] = {
    {cudaErrorMemoryAllocation, "the GPU is full; nvidia-smi shows who uses it"},
    {cudaErrorInsufficientDriver, "update the NVIDIA driver, or install the CUDA plugin of a dtrun "
                                  "built with an older CUDA"},
    {cudaErrorNoDevice, "nvidia-smi -L shows what the driver sees; a container is given GPUs when "
                        "it is started"},
    {cudaErrorDevicesUnavailable, "another process has this GPU for itself, or the compute mode "
                                  "(nvidia-smi -q -d COMPUTE) lets nobody in"},
    {cudaErrorNoKernelImageForDevice, "the plugin has code for compute capability 8.0 and newer; "
                                      "build it with -Dgpu_targets for another"},
    {cudaErrorUnsupportedPtxVersion, "update the NVIDIA driver"},
    {cudaErrorIllegalAddress, "that is a bug of dtrun; with CUDA_LAUNCH_BLOCKING=1 the op it names "
                              "is the one, else an earlier one may be"},
    {cudaErrorLaunchFailure, "that is a bug of dtrun or a broken GPU; dmesg has an Xid line"},
    {cudaErrorECCUncorrectable, "the memory of this GPU is damaged: take the node out of the job, "
                                "reset or replace the GPU"},
    {cudaErrorNvlinkUncorrectable, "a link between GPUs is broken: take the node out of the job"},
    {cudaErrorSystemNotReady, "on a machine with NVSwitch, nvidia-fabricmanager must be running, "
                              "of the driver's version"},
    {cudaErrorSystemDriverMismatch, "libcuda.so and the kernel's module are of different versions: "
                                    "restart the machine, or the container, after an update"},
    {cudaErrorUnknown, "the driver is in a bad state: look at nvidia-smi and dmesg; loading the "
                       "nvidia_uvm module, or a restart of the machine, often helps"},
};

int dt_cuda_fail(cudaError_t e, const char *what, struct dt_err *err)
{
    const char *advice = NULL;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == e)
            advice = known[i].advice;
    return dt_err_set(err, e == cudaErrorMemoryAllocation ? DT_E_MEMORY : DT_E_RUNTIME,
                      "%s: CUDA says \"%.120s\" (%s)%s%s", what, cudaGetErrorString(e),
                      cudaGetErrorName(e), advice ? "; " : "", advice ? advice : "");
}
