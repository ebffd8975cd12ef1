/* SPDX-License-Identifier: Apache-2.0 */
/* What this host's memory has room for beside the training itself. Most of what a run takes is not
 * there before its first step: memory counts when it is touched. */
#include "base/cgroup.h"
#include "base/fs.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/train/inside.h"

#include <stdlib.h>
#include <string.h>

#define STATUS_MOST ((size_t)64 << 10)

static int64_t value_of(const char *status, const char *key)
{
    const char *line = strstr(status, key);
    return line ? strtoll(line + strlen(key), NULL, 10) * 1024 : 0;
}

/* Bytes that this rank has touched: its own, and its share of what LOCAL ranks share. */
static int64_t touched(int local)
{
    struct dt_buf text = {0};
    int64_t bytes = 0;
    if (dt_fs_read("/proc/self/status", STATUS_MOST, &text, NULL) == 0)
        bytes = value_of(dt_buf_cstr(&text), "\nRssAnon:") +
                value_of(dt_buf_cstr(&text), "\nRssShmem:") / local;
    dt_buf_finish(&text);
    return bytes;
}

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
    int64_t left = dt_cgroup_memory_left(&memory), more = wanted(t) - touched(local);
    if (left < 0 || more <= 0)
        return left;
    return left > more * local ? left - more * local : 0;
}
