/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. Each part fills its fields of the plan, or says why not.
 */
#ifndef DT_LAUNCHER_PLANNING_INSIDE_H
#define DT_LAUNCHER_PLANNING_INSIDE_H

#include "launcher/planning/planning.h"
#include "launcher/planning/rdzv_conf.h"

struct dt_planning {
    const struct dt_launch_options *o;
    const struct dt_facts *facts;
    struct dt_plan *plan;
    char ***warnings;
    struct dt_err *err;
};

int dt_planning_workers(struct dt_planning *c);   /* how many, which threads, where bound */
int dt_planning_nodes(struct dt_planning *c);     /* how nodes meet; after the workers */
int dt_planning_scheduler(struct dt_planning *c); /* whether it started more of us; of the nodes */
int dt_planning_command(struct dt_planning *c);   /* what is executed */
int dt_planning_script(struct dt_planning *c);    /* whether Python can open it */
int dt_planning_arguments(struct dt_planning *c); /* of the script */
int dt_planning_output(struct dt_planning *c);    /* after the workers: a row for each */
int dt_planning_ending(struct dt_planning *c);    /* signals, restarts, how long to wait */
int dt_planning_watching(struct dt_planning *c);
int dt_planning_uploads(struct dt_planning *c);
int dt_planning_flight(struct dt_planning *c);  /* after the command, the output and the watching */
int dt_planning_nccl(struct dt_planning *c);    /* what NCCL in the workers is to tell */
int dt_planning_job_id(struct dt_planning *c);  /* the name of an elastic job */
int dt_planning_elastic(struct dt_planning *c); /* what more there is to an elastic job; the last */

/* Keys of --rdzv-conf that only an elastic job heeds. */
int dt_planning_elastic_conf(struct dt_planning *c, const struct dt_rdzv_conf *conf);

/* Sets *err to "OPTION, as written: the sentence" and returns -1. */
int dt_planning_fail(struct dt_planning *c, const char *option, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts OPTION in front of what is in *err already, and returns -1. */
int dt_planning_wrap(struct dt_planning *c, const char *option);

/* Notes that OPTION has no effect here, and why, if anybody gave it. */
int dt_planning_ignore(struct dt_planning *c, const char *option, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for an option that is there for torchrun's sake only: in the plan, but no warning; the
 * log tells of it at level info. */
int dt_planning_needless(struct dt_planning *c, const char *option, const char *why);

/* Copies TEXT into *FIELD of the plan; NULL stays NULL. */
int dt_planning_set(struct dt_planning *c, char **field, const char *text);

/* The first of NAMES, a NULL-ended list of variables, that is a number from LEAST to
 * DT_NODES_WISHED_MOST; else NONE. */
int dt_planning_env_number(const struct dt_planning *c, const char *const *names, int least,
                           int none);

/* The variable, or NULL where it is absent or empty. */
const char *dt_planning_env(const struct dt_planning *c, const char *name);

#endif
