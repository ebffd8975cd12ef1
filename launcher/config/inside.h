/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of launcher/config share. Each part fills its fields of the plan, or says why not.
 */
#ifndef DT_LAUNCHER_CONFIG_INSIDE_H
#define DT_LAUNCHER_CONFIG_INSIDE_H

#include "launcher/config/config.h"
#include "launcher/config/rdzv_conf.h"

struct dt_config {
    const struct dt_launch_options *o;
    const struct dt_facts *facts;
    struct dt_plan *plan;
    char ***warnings;
    struct dt_err *err;
};

int dt_config_workers(struct dt_config *c);   /* how many, which threads, where bound */
int dt_config_nodes(struct dt_config *c);     /* how nodes meet; after the workers */
int dt_config_command(struct dt_config *c);   /* what is executed */
int dt_config_script(struct dt_config *c);    /* whether Python can open it */
int dt_config_arguments(struct dt_config *c); /* of the script */
int dt_config_output(struct dt_config *c);    /* after the workers: a row for each */
int dt_config_ending(struct dt_config *c);    /* signals, restarts, how long to wait */
int dt_config_watching(struct dt_config *c);
int dt_config_elastic(struct dt_config *c); /* what more there is to an elastic job; the last */

/* Keys of --rdzv-conf that only an elastic job heeds. */
int dt_config_elastic_conf(struct dt_config *c, const struct dt_rdzv_conf *conf);

/* Sets *err to "OPTION, as written: the sentence" and returns -1. */
int dt_config_fail(struct dt_config *c, const char *option, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts OPTION in front of what is in *err already, and returns -1. */
int dt_config_wrap(struct dt_config *c, const char *option);

/* Notes that OPTION has no effect here, and why, if anybody gave it. */
int dt_config_ignore(struct dt_config *c, const char *option, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for an option that is there for torchrun's sake only: in the plan, but no warning; the
 * log tells of it at level info. */
int dt_config_needless(struct dt_config *c, const char *option, const char *why);

/* Copies TEXT into *FIELD of the plan; NULL stays NULL. */
int dt_config_set(struct dt_config *c, char **field, const char *text);

/* The first of NAMES, a NULL-ended list of variables, that is a number from LEAST on; else NONE. */
int dt_config_env_number(const struct dt_config *c, const char *const *names, int least, int none);

/* The variable, or NULL where it is absent or empty. */
const char *dt_config_env(const struct dt_config *c, const char *name);

#endif
