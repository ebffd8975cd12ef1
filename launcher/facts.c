/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/facts.h"

#include "agent/bind/gpus.h"
#include "base/clock.h"
#include "base/plugin.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

const char *dt_facts_env(const struct dt_facts *f, const char *name)
{
    size_t n = strlen(name);
    for (char *const *e = f->env; e && *e; e++)
        if (strncmp(*e, name, n) == 0 && (*e)[n] == '=')
            return *e + n + 1;
    return NULL;
}

/* A machine may have more processors than a cpu_set_t holds: the kernel then wants a larger one. */
static int count_allowed(int fallback)
{
    for (int most = 1024; most <= 1 << 18; most *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)most);
        size_t size = CPU_ALLOC_SIZE((size_t)most);
        if (!set)
            break;
        int n = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (n > 0)
            return n;
    }
    return fallback;
}

static int count_gpus(void)
{
    return dt_gpus_count(getenv("CUDA_VISIBLE_DEVICES"));
}

static bool find_nccl_profiler(char path[PATH_MAX])
{
    static const char name[] = "worker_runtime/telemetry/nccl_profiler/libnccl-profiler-dtrun.so";
    char found[PATH_MAX];
    return dt_plugin_find(name, found) && realpath(found, path);
}

void dt_facts_read(struct dt_facts *f, const char *program, char *const *env)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    *f = (struct dt_facts){.cpus = online > 0 ? (int)online : 1,
                           .count_gpus = count_gpus,
                           .find_nccl_profiler = find_nccl_profiler,
                           .env = env,
                           .program = program};
    f->allowed_cpus = count_allowed(f->cpus);
    dt_user_name(f->user);
    const char *index = dt_facts_env(f, "JOB_COMPLETION_INDEX");
    if (!index || !dt_pod_read_job(index, f->pod_job))
        f->pod_job[0] = '\0';
    if (getrandom(f->random, sizeof f->random, GRND_NONBLOCK) != (ssize_t)sizeof f->random) {
        /* Early in the boot of a machine. The name of a job has to be its own, not secret. */
        int64_t seed[2] = {dt_clock_wall_us(), getpid()};
        memcpy(f->random, seed, sizeof f->random);
    }
}
