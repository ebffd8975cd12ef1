/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of a run's files: BASE/RUNID_XXXXXXXX/attempt_N/LOCALRANK/{stdout.log,stderr.log,
 * error.json}. */
#ifndef DT_AGENT_LOG_DIR_H
#define DT_AGENT_LOG_DIR_H

#include "agent/log_runs.h"
#include "base/err.h"

#include <stdbool.h>

/* Zeroed memory: no files are kept. */
struct dt_log_dir {
    char *base; /* given, or made in a temporary folder for us alone */
    char *run;  /* the folder of this agent's run */
    char *attempt;
    int round; /* that this one is of */
    bool base_is_ours;
    int mark; /* of a base that is kept in order: says that this run is alive; 0: none */
};

/* Makes the run's folder under BASE (NULL: a fresh one where dt_fs_temp_folder() says). A run id
 * that would not be a file name is made one. */
int dt_log_dir_open(struct dt_log_dir *d, const char *base, const char *run_id, struct dt_err *err);

/* From here on the base is kept in order: marks the run's folder, makes it the latest, and removes
 * earlier ones beyond LIMITS, which takes no time of the caller's. */
int dt_log_dir_keep(struct dt_log_dir *d, const struct dt_log_limits *limits, struct dt_err *err);

/* Makes attempt_N with a folder per local rank; d->attempt names it. An older attempt_N, of a round
 * before this one, becomes attempt_N.round_R first, R being the ROUND it was begun for; with a
 * number behind that where there is one already. */
int dt_log_dir_begin(struct dt_log_dir *d, int attempt, int round, int nproc, struct dt_err *err);

/* ".../attempt_0/3/error.json", allocated; NULL: no files are kept, or no memory. */
char *dt_log_dir_file(const struct dt_log_dir *d, int local_rank, const char *name);

/* Removes all that was made, the base too if it is ours and empty then. For jobs that went well and
 * were told not to keep their logs. */
int dt_log_dir_remove(struct dt_log_dir *d, struct dt_err *err);

/* The same when no worker left a file, in a base that is ours or kept in order: nobody would look
 * for folders without anything in them. */
int dt_log_dir_remove_empty(struct dt_log_dir *d, struct dt_err *err);

void dt_log_dir_finish(struct dt_log_dir *d);

#endif
