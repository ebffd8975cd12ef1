/* SPDX-License-Identifier: Apache-2.0 */
/* What this host's memory has room for beside the training itself. Most of what a run takes is not
 * there before its first step: memory counts when it is touched. */
#include "base/cgroup.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/train/inside.h"
#include "worker_runtime/train/touched.h"

#include <string.h>

/* What this rank will take of the host's memory. */
static int64_t wanted(const struct dt_trainer *t)
{
    struct dt_estimate_place at = {.world = t->ranks,
                                   .local = dt_context_local_world(t->context),
                                   .on_gpu = strcmp(t->device->name, "cpu") != 0};
    struct dt_estimate e;
    if (dt_estimate(t->config, &at, t->config->zero.stage, &e, NULL) < 0)
        return 0;
    return (int64_t)(at.on_gpu ? e.snapshot : e.total);
}

int64_t dt_trainer_memory_left(const struct dt_trainer *t)
{
    int local = dt_context_local_world(t->context);
    struct dt_cgroup memory;
    dt_cgroup_find(&memory, "memory", "");
    int64_t touched = dt_touched_bytes((int64_t)dt_vault_mapped(t->keeper.vault), local);
    int64_t left = dt_cgroup_memory_left(&memory), more = wanted(t) - touched;
    if (left < 0 || more <= 0)
        return left;
    return left > more * local ? left - more * local : 0;
}
