/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a rank gets. */
#include "worker_runtime/device.h"

#include <string.h>

static struct dt_device *open_cuda(int local_rank, struct dt_err *err)
{
    (void)local_rank;
    dt_err_set(err, DT_E_USAGE,
               "device \"cuda\": this build of dtrun has no CUDA plugin; \"cpu\" and \"auto\" run "
               "without one");
    return NULL;
}

struct dt_device *dt_device_open(const char *kind, int threads, int local_rank, struct dt_err *err)
{
    if (strcmp(kind, "cuda") == 0)
        return open_cuda(local_rank, err);
    if (strcmp(kind, "auto") == 0 || strcmp(kind, "cpu") == 0)
        return dt_device_open_cpu(threads, err);
    dt_err_set(err, DT_E_USAGE, "\"%s\" is not a device; give auto, cpu or cuda", kind);
    return NULL;
}

void dt_device_close(struct dt_device *d)
{
    if (d)
        d->table->close(d);
}
