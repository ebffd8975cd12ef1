/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's flight recorders in this node's workers: where they dump to, and how they are asked.
 *
 * A worker whose environment names a pipe makes it when it opens its first process group, and looks
 * at it each second; who writes to it gets a dump, and the worker goes on. Each worker has a folder
 * of its own, as processes of the same rank that share a pipe would fight over it. Nothing here
 * waits: whoever asks reads a second or two later. */
#ifndef DT_AGENT_HANG_RECORDERS_H
#define DT_AGENT_HANG_RECORDERS_H

#include "agent/hang/flight.h"
#include "agent/log_dir.h"

#include <stdbool.h>

/* How the prefix of a worker's files ends. */
#define DT_RECORDERS_FOLDER "flight"
#define DT_RECORDERS_NAME "rank_"

struct dt_recorders;

/* For NPROC workers, of ranks from FIRST_RANK on, in the folders of LOGS' attempt. NULL: no files
 * are kept, or not where pipes can be made; PyTorch would end a worker that cannot make its own. */
struct dt_recorders *dt_recorders_open(const struct dt_log_dir *logs, int nproc, int first_rank);

/* What the names of a worker's pipe and dump begin with. */
const char *dt_recorders_prefix(const struct dt_recorders *r, int local_rank);

/* Asks all workers that have a pipe for a new dump, and says how many. What they dumped before is
 * gone then. R may be NULL, here and below. */
int dt_recorders_ask(struct dt_recorders *r);

/* How many of those have not begun to answer. */
int dt_recorders_silent(const struct dt_recorders *r);

/* The file that the worker answers in; NULL: it could not be asked the last time. */
const char *dt_recorders_dump(const struct dt_recorders *r, int local_rank);

/* Reads such a file, or NULL, which may take its time. False: there is nothing yet, or nothing that
 * can be read. */
bool dt_recorders_read(const char *dump, struct dt_flight *f);

/* Removes the pipes, and the folders in which no dump was left. */
void dt_recorders_close(struct dt_recorders *r);

#endif
