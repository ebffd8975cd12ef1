/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup.h"
#include "worker_runtime/ckpt/checkpoint.h"
#include "worker_runtime/device/cuda_plugin.h"
#include "worker_runtime/job_env.h"
#include "worker_runtime/program/inside.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/train/suggest.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the ranks may have: a container's limit, where that is less than there is. */
static void look_at_memory(struct dt_estimate_place *at)
{
    struct dt_cgroup group;
    at->memory = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    dt_cgroup_find(&group, "memory", "");
    int64_t limit = dt_cgroup_memory_limit(&group);
    at->limited = limit > 0 && (uint64_t)limit < at->memory;
    if (at->limited)
        at->memory = (size_t)limit;
}

int program_estimate(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err)
{
    struct dt_estimate_place at = {.world =
                                       a->world > 0 ? a->world : program_number("WORLD_SIZE", 1)};
    at.local = a->local > 0 ? a->local : program_number("LOCAL_WORLD_SIZE", at.world);
    struct dt_buf out = {0};
    struct dt_err why = {0};
    look_at_memory(&at);
    if (strcmp(c->train.device, "cpu") != 0)
        at.gpus = dt_device_gpu_memory(at.local, &at.gpu, &why);
    at.on_gpu = at.gpus > 0 || strcmp(c->train.device, "cuda") == 0;
    at.no_gpu = at.gpus < 0 ? why.text : NULL;
    int rc = at.on_gpu ? dt_config_check_gpu(c, err) : 0;
    if (rc == 0)
        rc = dt_estimate_print(c, &at, &out, err);
    fputs(dt_buf_cstr(&out), stdout);
    dt_buf_finish(&out);
    return rc < 0 ? dt_err_wrap(err, "--estimate") : 0;
}

/* This machine, as far as MACHINE says nothing else. Of its GPUs the fullest counts. */
static int see_machine(const struct dt_config *c, struct dt_machine *m, struct dt_err *err)
{
    struct dt_estimate_place at = {.local = 1};
    int processors = 0, threads = c->train.threads > 0 ? c->train.threads : 1, gpus = 0;
    if (dt_job_env_threads(0, 1, &processors, err) < 0)
        return -1;
    look_at_memory(&at);
    dt_machine_init(m, processors / threads > 0 ? processors / threads : 1, threads, at.memory);
    if (strcmp(c->train.device, "cpu") != 0)
        gpus = dt_device_gpu_memory(INT_MAX, &at.gpu, NULL);
    if (gpus > 0)
        dt_machine_see(m, gpus, &at.gpu);
    return 0;
}

int program_suggest(const struct dt_train_args *a, const struct dt_config *c, struct dt_err *err)
{
    struct dt_machine machine;
    struct dt_buf out = {0};
    if (see_machine(c, &machine, err) < 0)
        return dt_err_wrap(err, "--suggest");
    if (a->machine && dt_machine_read(&machine, a->machine, err) < 0)
        return dt_err_wrap(err, "--machine");
    int rc = dt_suggest_print(c, &machine, &out, err);
    fputs(dt_buf_cstr(&out), stdout);
    dt_buf_finish(&out);
    return rc < 0 ? dt_err_wrap(err, "--suggest") : 0;
}

static void print_check(void *arg, enum dt_check_level level, const char *line)
{
    static const char *const marks[] = {
        [DT_CHECK_FINE] = "   ", [DT_CHECK_ADVICE] = " * ", [DT_CHECK_PROBLEM] = " ! "};
    (void)arg;
    printf("%s%s\n", marks[level], line);
}

int program_check_nccl(struct dt_err *err)
{
    const struct dt_cuda_plugin *p = dt_cuda_plugin_load(err);
    if (!p)
        return dt_err_wrap(err, "--check-nccl");
    int problems = p->check_nccl(print_check, NULL);
    if (problems == 0)
        return 0;
    return dt_err_set(err, DT_E_RUNTIME, "--check-nccl: %d problem%s, marked with ! above",
                      problems, problems == 1 ? "" : "s");
}

int program_verify(const struct dt_train_args *a, struct dt_err *err)
{
    char room[PATH_MAX];
    const char *folder = dt_ckpt_weights_folder(a->verify, room);
    if (dt_ckpt_verify(folder, err) < 0) {
        err->code = DT_E_RUNTIME; /* damage, also where it makes a header that cannot be */
        return dt_err_wrap(err, "--verify");
    }
    printf("%s: every byte is as it was written\n", folder);
    return 0;
}
