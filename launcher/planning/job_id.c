/* SPDX-License-Identifier: Apache-2.0 */
/* What the scheduler that started the nodes calls the job. By that nodes of two jobs are told
 * apart, and a rendezvous where many people meet calls a job so that nobody named. */
#include "launcher/planning/inside.h"

#include <stdio.h>
#include <string.h>

static const struct scheduler {
    const char *name, *variable;
    const char *index; /* of one of an array of jobs that share the id; "0": it is in no array */
} schedulers[] = {
    {"slurm", "SLURM_JOB_ID", NULL},
    {"pbs", "PBS_JOBID", NULL}, /* 12[3].head */
    {"lsf", "LSB_JOBID", "LSB_JOBINDEX"},
};

/* NULL: none of them started us. */
static const struct scheduler *find_scheduler(const struct dt_planning *c)
{
    for (size_t i = 0; i < sizeof schedulers / sizeof *schedulers; i++)
        if (dt_planning_env(c, schedulers[i].variable))
            return &schedulers[i];
    return NULL;
}

/* Nodes of one Job of Kubernetes may join others on purpose: there the name is no reason to refuse
 * them, and stands in the run id alone. */
static int name_run(struct dt_planning *c, const struct scheduler *s)
{
    struct dt_plan *p = c->plan;
    char id[DT_RUN_ID_MAX];
    if (dt_launch_options_gave(c->o, "rdzv-id") || (!s && !*c->facts->pod_job))
        return 0;
    snprintf(id, sizeof id, "%s-%s", s ? s->name : "k8s", s ? p->run.job : c->facts->pod_job);
    if (dt_planning_set(c, &p->scheduled_id, id) < 0)
        return -1;
    return dt_planning_set(c, &p->scheduled_by,
                           s ? s->variable : "the names of this pod and its Job");
}

int dt_planning_job_id(struct dt_planning *c)
{
    const struct scheduler *s = find_scheduler(c);
    char *job = c->plan->run.job;
    size_t size = sizeof c->plan->run.job;
    if (!s)
        return name_run(c, NULL);
    const char *index = s->index ? dt_planning_env(c, s->index) : NULL;
    if (index && strcmp(index, "0") != 0)
        snprintf(job, size, "%s[%s]", dt_planning_env(c, s->variable), index);
    else
        snprintf(job, size, "%s", dt_planning_env(c, s->variable));
    return name_run(c, s);
}
