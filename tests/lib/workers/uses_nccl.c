/* SPDX-License-Identifier: Apache-2.0 */
/* A worker whose NCCL, a fake one, loads the profiler plugin that its environment names.
 *
 *   uses_nccl N...   rank R enters as many collectives as the Rth N says, and stands still; with a !
 *                    behind the number it kills itself instead */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/profiled_nccl.h"

int main(int argc, char **argv)
{
    const char *rank = getenv("RANK"), *plugin = getenv("NCCL_PROFILER_PLUGIN");
    int r = rank ? atoi(rank) : 0, newest = PROFILED_NCCL_VERSIONS;
    if (r + 1 >= argc)
        return 2;
    struct profiled_nccl n;
    struct profiled_comm c = {.name = "default_pg", .hash = 7, .rank = r, .ranks = argc - 1};
    struct profiled_call call = {.function = "AllReduce", .datatype = "ncclFloat32", .count = 1024};
    struct dt_err err = {0};
    if (!plugin || profiled_nccl_open(&n, plugin, newest, &err) < 0) {
        printf("no plugin: %s\n", plugin ? err.text : "none is named");
        return 3;
    }
    profiled_comm_open(&n, &c);
    for (int i = atoi(argv[1 + r]); i > 0; i--)
        profiled_comm_collective(&c, &call);
    if (strchr(argv[1 + r], '!'))
        kill(getpid(), SIGKILL);
    for (;;)
        pause();
}
