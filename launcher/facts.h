/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan depends on beside the options: this machine, the environment, chance. Read in one
 * place, so that tests can tell another story. */
#ifndef DT_LAUNCHER_FACTS_H
#define DT_LAUNCHER_FACTS_H

#include "base/user.h"
#include "launcher/pod.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct dt_facts {
    int cpus;                /* of the machine that are online */
    int allowed_cpus;        /* that this process may use */
    int (*count_gpus)(void); /* called only when somebody asks; 0: there are none */
    char *const *env;        /* as environ(7) */
    const char *program;     /* how this program was called: its argv[0], or NULL */
    /* Where NCCL's profiler plugin of ours is; false: it is not installed. */
    bool (*find_nccl_profiler)(char path[PATH_MAX]);
    uint8_t random[16];
    char user[DT_USER_MAX];       /* the name of who runs this, or "uid N" where it has none */
    char pod_job[DT_POD_JOB_MAX]; /* the Job of Kubernetes that this is a pod of; "": unknown */
};

/* PROGRAM and ENV are kept. */
void dt_facts_read(struct dt_facts *f, const char *program, char *const *env);

/* The value of a variable, or NULL. */
const char *dt_facts_env(const struct dt_facts *f, const char *name);

#endif
