/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

/* Returns whether all that is not optional is there. */
static bool find_calls(struct dt_nvml *n)
{
    const struct {
        const char *name;
        void *at; /* of a function pointer, which POSIX lets dlsym() fill as a void * */
        bool optional;
    } calls[] = {
        {"nvmlInit_v2", &n->init, false},
        {"nvmlShutdown", &n->shutdown, false},
        {"nvmlDeviceGetCount_v2", &n->count, false},
        {"nvmlDeviceGetHandleByIndex_v2", &n->device, false},
        {"nvmlDeviceGetPciInfo_v3", &n->pci, false},
        {"nvmlDeviceGetUUID", &n->uuid, false},
        {"nvmlDeviceGetMaxMigDeviceCount", &n->parts, true},
        {"nvmlDeviceGetMigDeviceHandleByIndex", &n->part, true},
        {"nvmlDeviceGetName", &n->name, true},
        {"nvmlDeviceGetMemoryInfo", &n->memory, true},
        {"nvmlDeviceGetUtilizationRates", &n->utilization, true},
        {"nvmlDeviceGetTotalEccErrors", &n->ecc_errors, true},
        {"nvmlDeviceGetRemappedRows", &n->remapped_rows, true},
        {"nvmlDeviceGetCurrentClocksThrottleReasons", &n->throttle, true},
        {"nvmlDeviceGetPersistenceMode", &n->persistence, true},
        {"nvmlDeviceGetNvLinkState", &n->nvlink, true},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        void *call = dlsym(n->library, calls[i].name);
        if (!call && !calls[i].optional)
            return false;
        memcpy(calls[i].at, &call, sizeof call);
    }
    return true;
}

enum dt_nvml_opened dt_nvml_open(struct dt_nvml *n, int *status)
{
    *n = (struct dt_nvml){.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
    if (!n->library)
        return DT_NVML_ABSENT;
    if (!find_calls(n))
        return DT_NVML_TOO_OLD;
    int answer = n->init();
    if (status)
        *status = answer;
    return answer == DT_NVML_OK ? DT_NVML_OPEN : DT_NVML_NO_START;
}

void dt_nvml_close(struct dt_nvml *n, enum dt_nvml_opened how)
{
    if (how == DT_NVML_OPEN)
        n->shutdown();
    if (n->library)
        dlclose(n->library);
    *n = (struct dt_nvml){0};
}
