/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA tells causes apart that a person would, but by numbers, and one of them only by a version
 * of 0. */
#include "cuda/device/choose.h"

#include "cuda/device/device.h"

#include <stdlib.h>

static void say_old_driver(int driver, struct dt_err *err)
{
    int built = 0;
    cudaRuntimeGetVersion(&built);
    dt_err_set(err, DT_E_RUNTIME,
               "the NVIDIA driver here is one for CUDA %d.%d, and this plugin is built with CUDA "
               "%d.%d; update the driver, or build the plugin with an older CUDA",
               driver / 1000, driver % 1000 / 10, built / 1000, built % 1000 / 10);
}

/* Hidden and not there are the same to CUDA. */
static void say_no_device(struct dt_err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible)
        dt_err_set(err, DT_E_RUNTIME,
                   "CUDA_VISIBLE_DEVICES=\"%.80s\" leaves no GPU to see; unset it, or name GPUs of "
                   "nvidia-smi -L",
                   visible);
    else
        dt_err_set(err, DT_E_RUNTIME,
                   "there is an NVIDIA driver but no GPU; nvidia-smi -L shows what it sees, and a "
                   "container is given GPUs when it is started (docker run --gpus all)");
}

int dt_cuda_devices(struct dt_err *err)
{
    int count = 0, driver = 0; /* on failure they are left as they are */
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        dt_err_set(err, DT_E_RUNTIME,
                   "there is no NVIDIA driver (libcuda.so.1); install it, or start the container "
                   "with GPUs (docker run --gpus all)");
        return 0;
    }
    cudaError_t e = cudaGetDeviceCount(&count);
    cudaGetLastError(); /* so that no later call is blamed */
    if (e == cudaSuccess && count > 0)
        return count;
    if (e == cudaErrorInsufficientDriver)
        say_old_driver(driver, err);
    else if (e == cudaSuccess || e == cudaErrorNoDevice)
        say_no_device(err);
    else
        dt_cuda_fail(e, "counting the GPUs", err);
    return 0;
}

int dt_cuda_choose(const struct dt_device_wish *w, struct dt_err *err)
{
    int count = dt_cuda_devices(err);
    if (count > 0 && w->local_rank < count)
        return w->local_rank;
    if (count > 0)
        dt_err_set(err, DT_E_RUNTIME,
                   "this host has %d workers and %d GPU%s to see, so there is none for worker %d; "
                   "start %d (--nproc-per-node), make more of them visible (CUDA_VISIBLE_DEVICES), "
                   "or set train.device to \"cpu\"",
                   w->local_world, count, count == 1 ? "" : "s", w->local_rank, count);
    return -1;
}
