/* SPDX-License-Identifier: Apache-2.0 */
/* For tests whose ranks are processes with a GPU each. CUDA does not survive a fork: only ranks may
 * call it, and never the process that starts them. */
#ifndef DT_TESTS_GPU_RANKS_H
#define DT_TESTS_GPU_RANKS_H

#include "tests/runtime/ranks.h"
#include "worker_runtime/device/device.h"

struct gpu_ranks_answer {
    int gpus;
    struct dt_err err;
};

static inline void gpu_ranks_count(struct rank_self *me)
{
    struct gpu_ranks_answer *a = me->arg;
    struct dt_gpu_memory m;
    a->gpus = dt_device_gpu_memory(1, &m, &a->err);
}

/* To be called in BEFORE_ALL: how many GPUs there are, of a mock one MOCKS; without any the program
 * is skipped. */
static inline int gpu_ranks_or_skip(const char *mocks)
{
    setenv("DT_EMULATOR_DEVICES", mocks, 0);
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
    struct gpu_ranks_answer *a =
        mmap(NULL, sizeof *a, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(a != MAP_FAILED);
    ranks_run(1, gpu_ranks_count, a);
    if (a->gpus <= 0)
        SKIP("%s", *a->err.text ? a->err.text : "the plugin for GPUs does not load");
    return a->gpus;
}

#endif
