/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's environment and arguments: ours, overlaid with its place in the world. Pure. */
#ifndef DT_AGENT_ENV_H
#define DT_AGENT_ENV_H

#include "agent/plan.h"
#include "agent/world.h"
#include "base/err.h"

/* Of PyTorch's flight recorder. Names beside these are older: PyTorch from 2.8 on takes both, and
 * warns of the old ones. */
#define DT_ENV_FLIGHT_BUFFER "TORCH_FR_BUFFER_SIZE"
#define DT_ENV_FLIGHT_BUFFER_OLD "TORCH_NCCL_TRACE_BUFFER_SIZE"
#define DT_ENV_FLIGHT_DUMP "TORCH_FR_DUMP_TEMP_FILE"
#define DT_ENV_FLIGHT_DUMP_OLD "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
#define DT_ENV_FLIGHT_PIPE "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
#define DT_ENV_FLIGHT_CALLS "2000" /* that are kept, as PyTorch does by itself from 2.11 on */

/* What is one worker's own, beside the plan and the world. */
struct dt_env_worker {
    int local_rank;
    int restart_count;
    const char *log_dir;    /* of the run's files; NULL: nobody asked for one */
    const char *error_file; /* NULL: it has none */
    const char *timer_file; /* NULL: no watchdog */
    int progress_fd;        /* of its page; 0: none */
    int vault_own_fd;       /* of its vault's files; 0: it has none */
    int vault_peer_fd;
    const char *flight; /* what names of its flight recorder begin with; NULL: it has none */
};

/* BASE (as environ(7)) overlaid with the variables of dtrun(1), ENVIRONMENT; a NULL-ended list to
 * be ended with dt_env_free(). What is overlaid keeps its place, the rest follows; of a name that
 * BASE has twice the first counts, as in Python. NULL and *err: no memory, or too few devices for
 * --virtual-local-rank. */
char **dt_env_make(const struct dt_plan *plan, const struct dt_world *world,
                   const struct dt_env_worker *worker, char *const *base, struct dt_err *err);

/* plan->argv with $local_rank and ${local_rank} put in and $$ made $, as Python's
 * string.Template.safe_substitute() does; the program, argv[0], stays as it is. A NULL-ended list
 * to be ended with dt_env_free(). */
char **dt_env_argv(const struct dt_plan *plan, int local_rank, struct dt_err *err);

void dt_env_free(char **list);

/* The same substitution for any text: $NAME or ${NAME} of names[i], which is NULL-ended, becomes
 * values[i]; other names and what is none stay. Allocated; NULL: no memory. */
char *dt_env_substitute(const char *text, const char *const *names, const char *const *values);

#endif
