/* SPDX-License-Identifier: Apache-2.0 */
/* Which GPU a worker takes, and what is said where there is none. CUDA is the few calls below. */
#include "cuda/device/choose.h"

#include "cuda/device/device.h"
#include "tests/lib/check.h"

static int driver, count;
static cudaError_t counting;

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = driver;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

/* As the real one: on failure the count is left as it is. */
cudaError_t cudaGetDeviceCount(int *n)
{
    if (counting == cudaSuccess)
        *n = count;
    return counting;
}

cudaError_t cudaGetLastError(void)
{
    return counting;
}

const char *cudaGetErrorName(cudaError_t e)
{
    return e == cudaErrorUnknown ? "cudaErrorUnknown" : "cudaErrorOther";
}

const char *cudaGetErrorString(cudaError_t e)
{
    return e == cudaErrorUnknown ? "unknown error" : "another error";
}

TEST(each_cause_of_no_gpu_is_a_sentence_of_its_own)
{
    /* clang-format off */
    static const struct { int driver; cudaError_t counting; const char *visible, *words; } rows[] = {
        {0,     cudaErrorInsufficientDriver,  NULL, "there is no NVIDIA driver (libcuda.so.1); install it"},
        {0,     cudaErrorInsufficientDriver,  "0",  "there is no NVIDIA driver (libcuda.so.1); install it"},
        {12040, cudaErrorInsufficientDriver,  NULL, "the NVIDIA driver here is one for CUDA 12.4, and this plugin is built with CUDA 13.0; update the driver"},
        {13000, cudaErrorNoDevice,            NULL, "there is an NVIDIA driver but no GPU; nvidia-smi -L"},
        {13000, cudaSuccess,                  NULL, "there is an NVIDIA driver but no GPU; nvidia-smi -L"},
        {13000, cudaErrorNoDevice,            "",   "CUDA_VISIBLE_DEVICES=\"\" leaves no GPU to see; unset it"},
        {13000, cudaErrorNoDevice,            "9",  "CUDA_VISIBLE_DEVICES=\"9\" leaves no GPU to see; unset it"},
        {13000, cudaErrorUnknown,             NULL, "counting the GPUs: CUDA says \"unknown error\" (cudaErrorUnknown); the driver is in a bad state"},
        {13000, cudaErrorSystemNotReady,      NULL, "nvidia-fabricmanager must be running"},
        {13000, cudaErrorSystemDriverMismatch, NULL, "restart the machine, or the container, after an update"},
        {13000, cudaErrorInvalidValue,        NULL, "counting the GPUs: CUDA says \"another error\" (cudaErrorOther)"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("driver %d, error %d, visible %s", rows[i].driver, (int)rows[i].counting,
                  rows[i].visible ? rows[i].visible : "not set");
        struct dt_err err = {0};
        driver = rows[i].driver;
        counting = rows[i].counting;
        count = 0;
        unsetenv("CUDA_VISIBLE_DEVICES");
        if (rows[i].visible)
            setenv("CUDA_VISIBLE_DEVICES", rows[i].visible, 1);
        CHECK_FAIL(dt_cuda_devices(&err) > 0 ? 0 : -1, err, rows[i].words);
        CHECK_EQ(dt_cuda_devices(NULL), 0);
        struct dt_device_wish w = {.kind = "cuda", .local_world = 1};
        CHECK_FAIL(dt_cuda_choose(&w, &err), err, rows[i].words);
    }
    unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(each_worker_of_a_host_takes_its_own)
{
    struct dt_err err = {0};
    struct dt_device_wish w = {.kind = "cuda", .local_world = 8};
    driver = 13000;
    counting = cudaSuccess;
    count = 8;
    for (w.local_rank = 0; w.local_rank < 8; w.local_rank++)
        CHECK_EQ(dt_cuda_choose(&w, &err), w.local_rank);
    CHECK_FAIL(dt_cuda_choose(&w, &err), err,
               "this host has 8 workers and 8 GPUs to see, so there is none for worker 8; start 8 "
               "(--nproc-per-node), make more of them visible (CUDA_VISIBLE_DEVICES), or set "
               "train.device to \"cpu\"");
}

/* As --virtual-local-rank has it: each worker is number 0 of the one GPU that it sees. */
TEST(workers_that_see_one_gpu_each_take_that)
{
    struct dt_err err = {0};
    struct dt_device_wish w = {.kind = "cuda", .local_world = 8};
    driver = 13000;
    counting = cudaSuccess;
    count = 1;
    CHECK_EQ(dt_cuda_choose(&w, &err), 0);
    w.local_rank = 1;
    CHECK_FAIL(dt_cuda_choose(&w, &err), err, "this host has 8 workers and 1 GPU to see");
}
