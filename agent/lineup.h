/* SPDX-License-Identifier: Apache-2.0 */
/* The workers of one attempt, lined up: program, arguments, environment, streams and place of each,
 * ready to be forked. */
#ifndef DT_AGENT_LINEUP_H
#define DT_AGENT_LINEUP_H

#include "agent/bind/bind.h"
#include "agent/hang/recorders.h"
#include "agent/log_dir.h"
#include "agent/output/output.h"
#include "agent/plan.h"
#include "agent/process/group.h"
#include "agent/vaults.h"
#include "agent/watch/pages.h"
#include "agent/world.h"
#include "base/err.h"

/* What they are made of; all borrowed, for the call. */
struct dt_lineup {
    const struct dt_plan *plan;
    const struct dt_world *world;
    int restart_count;
    const struct dt_log_dir *logs;
    struct dt_output *output;             /* begun */
    const struct dt_bind *bind;           /* NULL: nobody is bound */
    const char *timer_file;               /* NULL: no watchdog */
    const struct dt_pages *pages;         /* NULL: they have none */
    const struct dt_recorders *recorders; /* likewise */
    const struct dt_vaults *vaults;       /* likewise */
    const struct dt_group *group;         /* its workers that run are there; NULL: none is */
    char *const *env;                     /* ours */
};

/* One for each worker of the plan, without a path where the worker is there already; to be ended
 * with dt_lineup_free(). NULL and *err: no memory, or a stream cannot be opened. */
struct dt_spawn *dt_lineup_make(const struct dt_lineup *from, struct dt_err *err);
void dt_lineup_free(struct dt_spawn *spawns, int count);

#endif
