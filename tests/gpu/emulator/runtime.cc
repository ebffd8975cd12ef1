/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of the CUDA runtime that cuda/ makes, but for streams and events (stream.cc). Of the
 * device there are as many as DT_EMULATOR_DEVICES says (1), each with DT_EMULATOR_MEMORY bytes,
 * all of this process's together. Device DT_EMULATOR_WRONG_BYTE is broken: of a MiB or more that is
 * copied from there, the last byte has a wrong bit. Device DT_EMULATOR_UNKNOWN does not say what it
 * is. */
#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/stream.h"

#include <memory>
#include <stdio.h>
#include <stdlib.h>

using namespace dt_emulator;

static thread_local cudaError_t last = cudaSuccess;
static thread_local int chosen;

namespace dt_emulator
{

cudaError_t note(cudaError_t e)
{
    if (e != cudaSuccess)
        last = e;
    return e;
}

cudaError_t launch(const char *call, dim3 grid, dim3 block, size_t shared, cudaStream_t s,
                   std::function<void()> thread)
{
    size_t threads = size_t(block.x) * block.y * block.z;
    cudaError_t before = cudaGetLastError(); /* told, as by the real dt_launch() */
    bool fits = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffff && grid.y <= 65535 &&
                grid.z <= 65535;
    if (!fits || threads == 0 || threads > 1024 || block.z > 64)
        return cudaErrorInvalidConfiguration;
    if (shared > SHARED)
        return cudaErrorInvalidValue;
    if (device_of(s) != chosen)
        return cudaErrorInvalidResourceHandle;
    if (may_record(s) != cudaSuccess) {
        cudaGetLastError();
        return cudaErrorStreamCaptureInvalidated;
    }
    put(s, [=] {
        run_grid(call, grid, block, shared, thread);
        return true;
    });
    return before;
}

int chosen_device()
{
    return chosen;
}

} // namespace dt_emulator

static int devices()
{
    return int(number_from("DT_EMULATOR_DEVICES", 1));
}

extern "C" {

/* -- what there is ---------------------------------------------------------------------------- */

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = devices();
    return note(*n > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    if (devices() == 0)
        return note(cudaErrorNoDevice);
    if (device < 0 || device >= devices())
        return note(cudaErrorInvalidDevice);
    chosen = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = chosen;
    return note(devices() > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
    if (device < 0 || device >= devices())
        return note(cudaErrorInvalidDevice);
    if (number_from("DT_EMULATOR_UNKNOWN", SIZE_MAX) == size_t(device))
        return note(cudaErrorUnknown);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "mock GPU (tests/gpu/emulator)");
    p->totalGlobalMem = device_bytes();
    p->major = 9;
    p->minor = 0;
    p->multiProcessorCount = 8;
    p->warpSize = WARP;
    p->maxThreadsPerBlock = 1024;
    p->maxThreadsPerMultiProcessor = 2048;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 0x7fffffff;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->sharedMemPerBlock = 48 * 1024;
    p->sharedMemPerBlockOptin = SHARED;
    p->sharedMemPerMultiprocessor = 228 * 1024;
    p->regsPerBlock = 65536;
    p->asyncEngineCount = 2;
    p->unifiedAddressing = 1;
    p->pciBusID = device + 1;
    for (int i = 0; i < 16; i++)
        p->uuid.bytes[i] = char(0x10 * device + i);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device)
{
    cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceProperties(&p, device);
    if (e != cudaSuccess)
        return e;
    switch (what) {
    case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = int(p.sharedMemPerBlockOptin);
        return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = int(p.sharedMemPerMultiprocessor);
        return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = p.maxThreadsPerMultiProcessor;
        return cudaSuccess;
    case cudaDevAttrMaxThreadsPerBlock:
        *value = p.maxThreadsPerBlock;
        return cudaSuccess;
    case cudaDevAttrWarpSize:
        *value = p.warpSize;
        return cudaSuccess;
    default:
        fprintf(stderr, "emulator: cudaDeviceGetAttribute(%d) is not known\n", int(what));
        return note(cudaErrorInvalidValue);
    }
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device)
{
    if (device < 0 || device >= devices())
        return note(cudaErrorInvalidDevice);
    snprintf(text, size_t(size), "0000:%02X:00.0", device + 1);
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int a, int b)
{
    *can = a != b;
    return note(a < devices() && b < devices() ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = devices() > 0 ? CUDART_VERSION : 0;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *, cudaFuncAttribute, int)
{
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    wait_for_all();
    return cudaSuccess;
}

/* -- errors ----------------------------------------------------------------------------------- */

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
};

const char *cudaGetErrorName(cudaError_t e)
{
    for (const auto &each : errors)
        if (each.error == e)
            return each.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t e)
{
    for (const auto &each : errors)
        if (each.error == e)
            return each.text;
    return "unrecognized error code";
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = last;
    last = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last;
}

/* -- memory ----------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **at, size_t bytes)
{
    *at = nullptr;
    if (not_while_recording() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    if (bytes == 0)
        return cudaSuccess;
    *at = device_alloc(bytes);
    return note(*at ? cudaSuccess : cudaErrorMemoryAllocation);
}

/* Waits for all work, as CUDA's does. */
cudaError_t cudaFree(void *at)
{
    if (!at)
        return cudaSuccess;
    if (not_while_recording() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    wait_for_all();
    return note(device_free(at) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned)
{
    *at = pinned_alloc(bytes);
    return note(*at ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost(void **at, size_t bytes)
{
    return cudaHostAlloc(at, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *at)
{
    if (!at)
        return cudaSuccess;
    wait_for_all();
    return note(pinned_free(at) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *all)
{
    *all = device_bytes();
    *unused = *all - device_bytes_used();
    return note(devices() > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *a, const void *at)
{
    memset(a, 0, sizeof *a);
    memory_kind kind = kind_of(at);
    a->type = kind == memory_kind::DEVICE   ? cudaMemoryTypeDevice
              : kind == memory_kind::PINNED ? cudaMemoryTypeHost
                                            : cudaMemoryTypeUnregistered;
    a->device = chosen;
    a->devicePointer = kind == memory_kind::PAGEABLE ? nullptr : const_cast<void *>(at);
    a->hostPointer = kind == memory_kind::PINNED ? const_cast<void *>(at) : nullptr;
    return cudaSuccess;
}

/* Whether both ends are where KIND says, and within an allocation. */
static bool ends_fit(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    bool to_device = kind_of(to) == memory_kind::DEVICE;
    bool from_device = kind_of(from) == memory_kind::DEVICE;
    if (kind != cudaMemcpyDefault &&
        (to_device != (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) ||
         from_device != (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice)))
        return false;
    return (!to_device || device_holds(to, bytes)) && (!from_device || device_holds(from, bytes));
}

/* What comes from pageable memory is taken at the call, what goes there is waited for. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s)
{
    if (bytes == 0)
        return cudaSuccess;
    if (!ends_fit(to, from, bytes, kind))
        return note(cudaErrorInvalidValue);
    bool wrong = kind == cudaMemcpyDeviceToHost && bytes >= size_t(1) << 20 &&
                 number_from("DT_EMULATOR_WRONG_BYTE", SIZE_MAX) == size_t(device_of(s));
    bool pageable = kind_of(from) == memory_kind::PAGEABLE || kind_of(to) == memory_kind::PAGEABLE;
    if (pageable && not_while_recording() != cudaSuccess)
        return cudaErrorStreamCaptureUnsupported;
    std::shared_ptr<void> taken;
    if (kind_of(from) == memory_kind::PAGEABLE) {
        taken = std::shared_ptr<void>(malloc(bytes), free);
        memcpy(taken.get(), from, bytes);
        from = taken.get();
    }
    put(s, [to, from, bytes, wrong, taken] {
        device_work now;
        memcpy(to, from, bytes);
        if (wrong)
            static_cast<unsigned char *>(to)[bytes - 1] ^= 4;
        return true;
    });
    if (kind_of(to) == memory_kind::PAGEABLE)
        wait_for(s);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    cudaError_t e = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
    wait_for(nullptr);
    return e;
}

cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t s)
{
    if (bytes == 0)
        return cudaSuccess;
    if (!device_holds(at, bytes))
        return note(cudaErrorInvalidValue);
    put(s, [=] {
        device_work now;
        if (value == 0)
            device_clear(at, bytes);
        else
            memset(at, value, bytes);
        return true;
    });
    return cudaSuccess;
}

cudaError_t cudaMemset(void *at, int value, size_t bytes)
{
    cudaError_t e = cudaMemsetAsync(at, value, bytes, nullptr);
    wait_for(nullptr);
    return e;
}

} /* extern "C" */
