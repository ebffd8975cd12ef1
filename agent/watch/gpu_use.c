/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/gpu_use.h"

#include <string.h>

#define PARTS_MAX 64u /* of one card */
#define MIB (1ull << 20)

static bool find_part(const struct dt_nvml *n, dt_nvml_device card, const char *uuid,
                      dt_nvml_device *out)
{
    unsigned count = 0;
    char name[sizeof((struct dt_gpu *)0)->uuid];
    if (!n->parts || !n->part || n->parts(card, &count) != DT_NVML_OK)
        return false;
    for (unsigned i = 0; i < count && i < PARTS_MAX; i++)
        if (n->part(card, i, out) == DT_NVML_OK && n->uuid(*out, name, sizeof name) == DT_NVML_OK &&
            strcmp(name, uuid) == 0)
            return true;
    return false;
}

static bool find(const struct dt_nvml *n, const struct dt_gpu *g, dt_nvml_device *out)
{
    dt_nvml_device card;
    if (n->device((unsigned)g->number, &card) != DT_NVML_OK)
        return false;
    *out = card;
    return !g->mig || find_part(n, card, g->uuid, out);
}

/* A driver that is ill may tell anything. */
static int64_t add_mib(int64_t sum, uint64_t bytes)
{
    int64_t mib = (int64_t)(bytes / MIB);
    return mib < DT_MIB_MOST - sum ? sum + mib : DT_MIB_MOST;
}

void dt_gpu_use_read(const struct dt_nvml *n, const struct dt_gpus *gpus, struct dt_telemetry *out)
{
    int busy = 0, telling = 0;
    for (size_t i = 0; i < gpus->count; i++) {
        dt_nvml_device d;
        struct dt_nvml_memory memory;
        struct dt_nvml_utilization use;
        if (!find(n, &gpus->at[i], &d))
            continue;
        out->gpus++;
        if (n->memory && n->memory(d, &memory) == DT_NVML_OK) {
            out->gpu_mem_mib = add_mib(out->gpu_mem_mib, memory.used);
            out->gpu_mem_total_mib = add_mib(out->gpu_mem_total_mib, memory.total);
        }
        if (n->utilization && n->utilization(d, &use) == DT_NVML_OK && use.gpu <= 100) {
            busy += (int)use.gpu;
            telling++;
        }
    }
    if (out->gpus > 0)
        out->gpu_busy = telling > 0 ? busy / telling : -1;
}
