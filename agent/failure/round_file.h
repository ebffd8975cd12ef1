/* SPDX-License-Identifier: Apache-2.0 */
/* rounds/N.json in the folder of a run's files: when round N began and ended, how large it was, why
 * it failed, what was decided, and what is known of the workers that failed here. It is there from
 * the beginning of the round, and replaced at its end. */
#ifndef DT_AGENT_FAILURE_ROUND_FILE_H
#define DT_AGENT_FAILURE_ROUND_FILE_H

#include "agent/failure/verdict.h"

/* Zeroed memory: no round has begun. */
struct dt_round_record {
    int round, nodes, ranks;
    int first_rank, ranks_here; /* of this node */
    int64_t began_us, ended_us; /* since 1970; 0: not yet */
    int64_t step;               /* the last that a worker here told of; -1: none did */
};

/* CAUSE: of the whole job; NULL or "": the round did not fail. DECIDED: NULL as long as it runs.
 * VERDICT: on the workers here; NULL or an empty one: none failed. Nothing is written where the
 * folder is one of ours in a temporary folder: nobody asked for files there. */
int dt_round_file_write(const struct dt_log_dir *logs, const struct dt_round_record *record,
                        const char *cause, const char *decided, const struct dt_verdict *verdict,
                        struct dt_err *err);

#endif
