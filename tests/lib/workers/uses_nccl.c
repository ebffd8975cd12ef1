/* SPDX-License-Identifier: Apache-2.0 */
/* A worker whose NCCL, a fake one, loads the profiler plugin that its environment names.
 *
 *   uses_nccl N...   rank R enters as many collectives as the Rth N says, and stands still; with a !
 *                    behind the number it kills itself instead. GPUs end those that all enter */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/profiled_nccl.h"

static int least_of(int count, char **numbers)
{
    int least = atoi(*numbers);
    for (int i = 1; i < count; i++)
        least = atoi(numbers[i]) < least ? atoi(numbers[i]) : least;
    return least;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("RANK"), *plugin = getenv("NCCL_PROFILER_PLUGIN");
    int r = rank ? atoi(rank) : 0, newest = PROFILED_NCCL_VERSIONS;
    if (r + 1 >= argc)
        return 2;
    struct profiled_nccl n;
    struct profiled_comm c = {.name = "default_pg", .hash = 7, .rank = r, .ranks = argc - 1};
    struct profiled_call call = {
        .function = "AllReduce", .datatype = "ncclFloat32", .count = 1024, .channels = 2};
    struct dt_err err = {0};
    if (!plugin || profiled_nccl_open(&n, plugin, newest, &err) < 0) {
        printf("no plugin: %s\n", plugin ? err.text : "none is named");
        return 3;
    }
    profiled_comm_open(&n, &c);
    for (int i = 1; i <= atoi(argv[1 + r]); i++) {
        struct profiled_work work = profiled_comm_collective(&c, &call);
        if (i <= least_of(argc - 1, argv + 1))
            profiled_comm_gpu_ends(&c, &work, call.channels);
    }
    if (strchr(argv[1 + r], '!'))
        kill(getpid(), SIGKILL);
    for (;;)
        pause();
}
