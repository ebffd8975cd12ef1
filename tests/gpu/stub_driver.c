/* SPDX-License-Identifier: Apache-2.0 */
/* As much of a driver (libcuda.so.1) as cuDNN asks for while it makes a plan: kernels are loaded
 * into nothing, and there is no device. What is not here cuDNN does without, or fails. */
#include <stddef.h>

typedef int result;

#define API __attribute__((visibility("default")))

API result cuInit(unsigned flags);
API result cuDriverGetVersion(int *version);
API result cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c,
                             void *d, void *e, unsigned f);
API result cuLibraryUnload(void *library);
API result cuLibraryGetKernel(void **kernel, void *library, const char *name);
API result cuKernelGetFunction(void **function, void *kernel);
API result cuKernelSetAttribute(int attribute, int value, void *kernel, int device);
API result cuFuncSetAttribute(void *function, int attribute, int value);

static char something;

/* Those that it looks up, and does not call without a device. */
#define REFUSED(name)                                                                              \
    API result name(void);                                                                         \
    result name(void)                                                                              \
    {                                                                                              \
        return 100; /* no device */                                                                \
    }
REFUSED(cuCtxGetCurrent)
REFUSED(cuCtxGetLimit)
REFUSED(cuCtxPopCurrent)
REFUSED(cuCtxPushCurrent)
REFUSED(cuDeviceGet)
REFUSED(cuDeviceGetCount)
REFUSED(cuGetErrorName)
REFUSED(cuGetErrorString)
REFUSED(cuKernelGetAttribute)
REFUSED(cuLaunchCooperativeKernel)
REFUSED(cuLaunchKernel)
REFUSED(cuLaunchKernelEx)
REFUSED(cuLibraryLoadFromFile)
REFUSED(cuLinkAddData)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate)
REFUSED(cuLinkDestroy)
REFUSED(cuOccupancyMaxPotentialClusterSize)
REFUSED(cuStreamGetCtx)

result cuInit(unsigned flags)
{
    (void)flags;
    return 100; /* no device */
}

result cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

result cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d,
                         void *e, unsigned f)
{
    (void)code, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f;
    *library = &something;
    return 0;
}

result cuLibraryUnload(void *library)
{
    (void)library;
    return 0;
}

result cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library, (void)name;
    *kernel = &something;
    return 0;
}

result cuKernelGetFunction(void **function, void *kernel)
{
    (void)kernel;
    *function = &something;
    return 0;
}

result cuKernelSetAttribute(int attribute, int value, void *kernel, int device)
{
    (void)attribute, (void)value, (void)kernel, (void)device;
    return 0;
}

result cuFuncSetAttribute(void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return 0;
}
