/* SPDX-License-Identifier: Apache-2.0 */
/* What libdt_cuda.so gives: the seam between a runtime that links nothing of CUDA and a library
 * that knows nothing but CUDA, NCCL and the tables it fills. It exports one symbol,
 * dt_plugin (base/plugin.h), which is a struct dt_cuda_plugin. */
#ifndef DT_WORKER_RUNTIME_DEVICE_CUDA_PLUGIN_H
#define DT_WORKER_RUNTIME_DEVICE_CUDA_PLUGIN_H

#include "base/plugin.h"
#include "worker_runtime/device/device.h"

#include <stdbool.h>

/* Rises with any change of what crosses the seam: this file, device.h, ops/ops.h, coll/backend.h.
 */
#define DT_CUDA_PLUGIN_ABI 18
#define DT_CUDA_PLUGIN_FILE "libdt_cuda.so"

/* One line of `dtrun-train --check-nccl`. */
enum dt_check_level { DT_CHECK_FINE, DT_CHECK_ADVICE, DT_CHECK_PROBLEM };
typedef void (*dt_check_line_fn)(void *arg, enum dt_check_level level, const char *line);

/* A GPU as other tools name it. */
struct dt_gpu_identity {
    char name[64]; /* "NVIDIA H100 80GB HBM3" */
    char uuid[48]; /* "GPU-8a6b0d1c-...", as nvidia-smi -L has it */
    char pci[20];  /* "0000:17:00.0" */
};

struct dt_cuda_plugin {
    struct dt_plugin_head head;
    /* Devices this process may use; 0 and *err (may be NULL) saying why there are none: no driver,
     * a driver that is too old, no device, CUDA_VISIBLE_DEVICES hides all. */
    int (*devices)(struct dt_err *err);
    struct dt_device *(*open)(const struct dt_device_wish *w, struct dt_err *err);
    /* That of device ORDINAL. It refuses what open() does, but for want of memory, and opens
     * nothing. 0, or -1 and *err. */
    int (*memory)(int ordinal, struct dt_gpu_memory *out, struct dt_err *err);
    /* What NCCL finds here: versions, the way between devices, NICs and InfiniBand, variables that
     * are set and what they do. How many problems there are. */
    int (*check_nccl)(dt_check_line_fn say, void *arg);
    /* That of device ORDINAL; opens nothing. 0, or -1 and *err. */
    int (*identify)(int ordinal, struct dt_gpu_identity *out, struct dt_err *err);
};

/* Looks in $DTRUN_CUDA_PLUGIN (a full path, and then nowhere else), beside the library or program
 * this code is in, in the library folder that belongs to that, in the configured one, and on the
 * loader's path; never in the current folder. Once per process: later calls give the same. NULL and
 * *err: one sentence that says what is missing. */
const struct dt_cuda_plugin *dt_cuda_plugin_load(struct dt_err *err);
/* False: nothing of that name is there at all, as where only CPUs are trained on. Loads nothing;
 * until dt_cuda_plugin_load() was called the loader's path is not looked at. */
bool dt_cuda_plugin_installed(void);
/* Whether loading can be of use: there is a driver and it has a GPU for this process, or
 * $DTRUN_CUDA_PLUGIN names a plugin. CUDA's libraries take some 200 MB of each process before they
 * notice that there is none. False and *err: a sentence that says so. */
bool dt_cuda_plugin_is_worth_loading(struct dt_err *err);

#endif
