/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of ops for torch_ops.py, which calls them by way of ctypes. */
#include <string.h>

#include "worker_runtime/device/device.h"
#include "worker_runtime/ops/ops.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT struct dt_device *ops_open(int threads, struct dt_err *err);
EXPORT const struct dt_ops *ops_table(const struct dt_device *d, const char *name);
EXPORT struct dt_stream *ops_stream(const struct dt_device *d);

struct dt_device *ops_open(int threads, struct dt_err *err)
{
    return dt_device_open(&(struct dt_device_wish){.kind = "cpu", .threads = threads}, err);
}

/* "reference", or the device's own. */
const struct dt_ops *ops_table(const struct dt_device *d, const char *name)
{
    return strcmp(name, "reference") == 0 ? &dt_ops_reference : d->ops;
}

struct dt_stream *ops_stream(const struct dt_device *d)
{
    return d->stream;
}
