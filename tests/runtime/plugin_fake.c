/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins for test_plugin.c, one for each WRONG; none of them knows anything of CUDA. */
#include "worker_runtime/device/cuda_plugin.h"

#include "base/err.h"

#if defined WRONG_LIBRARY
int dt_vanished(void);

/* What this needs is in a library that is not there any more. */
DT_API int dt_needs_vanished(void);
int dt_needs_vanished(void)
{
    return dt_vanished();
}
#elif defined VANISHED
DT_API int dt_vanished(void);
int dt_vanished(void)
{
    return 0;
}
#elif defined WRONG_SYMBOL
DT_API int dt_something_else(void);
int dt_something_else(void)
{
    return 0;
}
#endif

#if !defined WRONG_SYMBOL && !defined VANISHED

#ifndef WRONG_ABI
#define WRONG_ABI 0
#endif
#ifndef WRONG_SIZE
#define WRONG_SIZE 0
#endif
#ifndef DEVICES
#define DEVICES 2
#endif

/* dt_err_set() is not here: a plugin brings its own. */
static void fail(struct dt_err *err, const char *text)
{
    if (!err)
        return;
    err->code = DT_E_RUNTIME;
    size_t n = 0;
    for (; text[n]; n++)
        err->text[n] = text[n];
    err->text[n] = '\0';
}

static int devices(struct dt_err *err)
{
    if (DEVICES == 0)
        fail(err, "the driver is on holiday");
    return DEVICES;
}

static void close_nothing(struct dt_device *d)
{
    (void)d;
}

static struct dt_device *open_fake(const struct dt_device_wish *w, struct dt_err *err)
{
    static const struct dt_device_ops table = {.close = close_nothing};
    static struct dt_device device = {
        .name = "fake", .description = "GPU of straw", .table = &table};
    if (w->local_rank < DEVICES)
        return &device;
    fail(err, "GPU 2 is not one of 2");
    return NULL;
}

/* The second has the least free. */
static int memory_of_straw(int ordinal, struct dt_gpu_memory *out, struct dt_err *err)
{
    static const struct dt_gpu_memory all[] = {{"straw 0", 100, 90, 5}, {"straw 1", 100, 70, 5}};
    (void)err;
    *out = all[ordinal];
    return 0;
}

extern const struct dt_cuda_plugin dt_plugin;
DT_PLUGIN_EXPORT const struct dt_cuda_plugin dt_plugin = {
    .head = {.abi = DT_CUDA_PLUGIN_ABI + WRONG_ABI, .size = sizeof dt_plugin - WRONG_SIZE},
    .devices = devices,
    .open = open_fake,
    .memory = memory_of_straw,
};
#endif
