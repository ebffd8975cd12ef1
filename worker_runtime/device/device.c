/* SPDX-License-Identifier: Apache-2.0 */
/* Which device a rank gets. */
#include "worker_runtime/device/device.h"

#include "worker_runtime/device/cpu.h"
#include "worker_runtime/device/cuda_plugin.h"

#include <string.h>

/* The plugin, where it has a GPU to work with. */
static const struct dt_cuda_plugin *usable_plugin(struct dt_err *err)
{
    const struct dt_cuda_plugin *p = dt_cuda_plugin_load(err);
    return p && p->devices(err) > 0 ? p : NULL;
}

/* The same for those who do without. */
static const struct dt_cuda_plugin *usable_plugin_if_any(struct dt_err *err)
{
    return dt_cuda_plugin_is_worth_loading(err) ? usable_plugin(err) : NULL;
}

static struct dt_device *open_cuda(const struct dt_device_wish *w, struct dt_err *err)
{
    const struct dt_cuda_plugin *p = usable_plugin(err);
    struct dt_device *d = p ? p->open(w, err) : NULL;
    if (!p)
        dt_err_wrap(err, "device \"cuda\"");
    return d;
}

/* A GPU that is there and cannot be opened is an error here, too: on the CPU this rank would keep
 * waiting those that have theirs. Who installed no plugin knows why there is no GPU, until other
 * ranks have one. */
static struct dt_device *open_auto(const struct dt_device_wish *w, struct dt_err *err)
{
    struct dt_err why = {0};
    const struct dt_cuda_plugin *p = usable_plugin_if_any(&why);
    if (p)
        return p->open(w, err);
    struct dt_device *d = dt_device_open_cpu(w->threads, err);
    if (d)
        dt_device_cpu_no_gpu(d, why.text, dt_cuda_plugin_installed());
    return d;
}

struct dt_device *dt_device_open(const struct dt_device_wish *w, struct dt_err *err)
{
    if (strcmp(w->kind, "cuda") == 0)
        return open_cuda(w, err);
    if (strcmp(w->kind, "auto") == 0)
        return open_auto(w, err);
    if (strcmp(w->kind, "cpu") == 0)
        return dt_device_open_cpu(w->threads, err);
    dt_err_set(err, DT_E_USAGE, "\"%s\" is not a device; give auto, cpu or cuda", w->kind);
    return NULL;
}

int dt_device_gpu_memory(int workers, struct dt_gpu_memory *out, struct dt_err *err)
{
    const struct dt_cuda_plugin *p = usable_plugin_if_any(err);
    int devices = p ? p->devices(err) : -1;
    for (int i = 0; i < devices && i < workers; i++) {
        struct dt_gpu_memory m = {0};
        if (p->memory(i, &m, err) < 0)
            return -1;
        if (i == 0 || m.free < out->free)
            *out = m;
    }
    return devices;
}

void dt_device_close(struct dt_device *d)
{
    if (d)
        d->table->close(d);
}
