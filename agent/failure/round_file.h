/* SPDX-License-Identifier: Apache-2.0 */
/* rounds/N.json in the folder of a run's files: why round N failed, what was decided, and what is
 * known of the workers that failed here. */
#ifndef DT_AGENT_FAILURE_ROUND_FILE_H
#define DT_AGENT_FAILURE_ROUND_FILE_H

#include "agent/failure/verdict.h"

/* CAUSE: of the whole job. VERDICT: on the workers here; an empty one: none failed. Nothing is
 * written where the folder is one of ours in a temporary folder: nobody asked for files there. */
int dt_round_file_write(const struct dt_log_dir *logs, int round, const char *cause,
                        const char *decided, const struct dt_verdict *verdict, struct dt_err *err);

#endif
