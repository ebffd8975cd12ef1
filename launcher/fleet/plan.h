/* SPDX-License-Identifier: Apache-2.0 */
/* What --hosts or --hostfile ask for, checked: whom to start on which host, by what, and with which
 * arguments. Pure, but for the files that options name. */
#ifndef DT_LAUNCHER_FLEET_PLAN_H
#define DT_LAUNCHER_FLEET_PLAN_H

#include "launcher/facts.h"
#include "launcher/fleet/hosts.h"
#include "launcher/fleet/order.h"
#include "launcher/options.h"
#include "rendezvous/protocol/proof.h"

#include <stdbool.h>
#include <stdio.h>

enum dt_fleet_way { DT_FLEET_SSH, DT_FLEET_SRUN, DT_FLEET_COMMAND };

/* NULL-ended lists and strings are owned. */
struct dt_fleet_plan {
    const struct dt_launch_options *o; /* the caller's */
    struct dt_fleet_hosts hosts;
    size_t least; /* nodes that the job needs */
    enum dt_fleet_way way;
    char **command; /* of DT_FLEET_COMMAND: words, {host} in them */
    char *remote;   /* dtrun on the hosts ... */
    char *word;     /* ... as it stands in what is executed here */
    char *own_path; /* this program, for a hint; NULL: it is not known by its path */
    char **passed;  /* options of ours that the agents get too */
    char **env;     /* NAME=VALUE for them */
    char *cwd;
    char job[40]; /* --rdzv-id, where nobody gave one */
    struct dt_token token;
    bool own_endpoint; /* nobody named one: the first host serves it */
};

/* Whether O asks for a fleet at all. */
bool dt_fleet_is_asked(const struct dt_launch_options *o);

/* ARGC and ARGV are what O was read from. P is to be finished also after a failure. */
int dt_fleet_plan_make(const struct dt_launch_options *o, int argc, char *const *argv,
                       const struct dt_facts *facts, struct dt_fleet_plan *p, struct dt_err *err);
void dt_fleet_plan_finish(struct dt_fleet_plan *p);

/* What is executed here for host I; allocated as of words.h. */
char **dt_fleet_plan_call(const struct dt_fleet_plan *p, size_t i, struct dt_err *err);

/* What dtrun on host I is told; PORT is free on the first host. Finish it also after a failure. */
int dt_fleet_plan_order(const struct dt_fleet_plan *p, size_t i, int port,
                        struct dt_fleet_order *order, struct dt_err *err);

/* What would be executed here and on each host, as a person would write it in a shell. */
int dt_fleet_plan_print(const struct dt_fleet_plan *p, FILE *out, struct dt_err *err);

#endif
