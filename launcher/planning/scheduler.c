/* SPDX-License-Identifier: Apache-2.0 */
/* A dtrun on each node of an allocation, none of which knows of the others: torchrun starts as many
 * jobs of one node then. So does dtrun, but it says so, and what to write instead. It also says
 * when it is the only dtrun in an allocation of several nodes. A person who gave --nnodes, or
 * --standalone, knows. */
#include "launcher/planning/inside.h"

#include "launcher/words.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ANY_HOST "HOST"

/* Who started several of us, and where they could meet. */
struct scheduled {
    const char *by;
    int count; /* 0: nobody says how many */
    char host[256];
};

/* The first host of Slurm's "gpu[07-09,12],cpu1". */
static void set_first_host(struct scheduled *s, const char *list)
{
    size_t head = strcspn(list, "[,"), digits = 0;
    const char *inner = list + head, *close = NULL;
    bool range = *inner == '[';
    if (range) {
        digits = strspn(++inner, "0123456789");
        close = strchr(inner, ']');
    }
    /* What stands behind the brackets would belong to the name. */
    bool clear = !range || (digits && close && (close[1] == '\0' || close[1] == ','));
    if (clear && head > 0 && head + digits < sizeof s->host)
        snprintf(s->host, sizeof s->host, "%.*s%.*s", (int)head, list, (int)digits, inner);
}

/* Only srun starts several of us, and it tells each how large its step is. */
static bool ask_slurm(const struct dt_planning *c, struct scheduled *s)
{
    static const char *const sizes[] = {"SLURM_STEP_NUM_NODES", NULL};
    const char *list = dt_planning_env(c, "SLURM_STEP_NODELIST");
    s->by = "Slurm";
    s->count = dt_planning_env_number(c, sizes, 1, 1);
    if (list)
        set_first_host(s, list);
    return s->count > 1;
}

/* One dtrun on each node, or several on each: mpirun counts processes. */
static bool ask_mpirun(const struct dt_planning *c, struct scheduled *s)
{
    static const char *const sizes[] = {"OMPI_COMM_WORLD_SIZE", NULL};
    s->by = "mpirun";
    s->count = dt_planning_env_number(c, sizes, 1, 1);
    return s->count > 1;
}

/* Pods of an indexed job are called NAME-INDEX. How many there are is told to none of them. */
static bool ask_kubernetes(const struct dt_planning *c, struct scheduled *s)
{
    const char *index = dt_planning_env(c, "JOB_COMPLETION_INDEX"), *pod;
    char end[32];
    s->by = "Kubernetes";
    s->count = 0;
    if (!index || !dt_planning_env(c, "KUBERNETES_SERVICE_HOST"))
        return false;
    pod = dt_planning_env(c, "HOSTNAME") ?: "";
    snprintf(end, sizeof end, "-%s", index);
    size_t len = strlen(pod), n = strlen(end);
    if (len > n && len - n < 200 && strcmp(pod + len - n, end) == 0)
        snprintf(s->host, sizeof s->host, "%.*s-0.SERVICE", (int)(len - n), pod);
    return true;
}

/* A batch script runs once, on the first node of its allocation, and in no step. */
static int note_unused_nodes(struct dt_planning *c)
{
    static const char *const sizes[] = {"SLURM_NNODES", "SLURM_JOB_NUM_NODES", NULL};
    int count = dt_planning_env_number(c, sizes, 1, 1);
    if (count < 2 || dt_planning_env(c, "SLURM_STEP_NUM_NODES"))
        return 0;
    return dt_words_push(c->warnings, c->err,
                         "the allocation has %d nodes, and this dtrun uses one; start it by srun, "
                         "or with --hosts, or give --nnodes=1 if one is meant",
                         count);
}

int dt_planning_scheduler(struct dt_planning *c)
{
    struct scheduled s = {.host = ANY_HOST};
    char nodes[16] = "N", times[48] = "this dtrun as one of several";
    if (c->o->standalone || dt_launch_options_gave(c->o, "nnodes"))
        return 0;
    if (!ask_slurm(c, &s) && !ask_mpirun(c, &s) && !ask_kubernetes(c, &s))
        return note_unused_nodes(c);
    if (s.count) {
        snprintf(nodes, sizeof nodes, "%d", s.count);
        snprintf(times, sizeof times, "%d of dtrun", s.count);
    }
    return dt_words_push(
        c->warnings, c->err,
        "%s started %s, and each is a job of its own, on one node; for one job on "
        "all of them give --nnodes=%s --rdzv-backend=c10d --rdzv-endpoint=%s:29400, "
        "for a job on each --nnodes=1",
        s.by, times, nodes, s.host);
}
