/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint on its way from a depot to a save_dir. All ranks fetch their shares into a temporary
 * folder; when all are there rank 0 compares every byte with its checksums and gives the folder its
 * name. Functions block, and those with one argument fit an errand. The depot has a transfer. */
#ifndef DT_WORKER_RUNTIME_CKPT_UPLOAD_FETCH_H
#define DT_WORKER_RUNTIME_CKPT_UPLOAD_FETCH_H

#include "base/upload/depot.h"
#include "worker_runtime/ckpt/upload/share.h"
#include "worker_runtime/ckpt/upload/shelf.h"

#include <limits.h>

/* Which checkpoints the depot holds. FILES: theirs; NULL: nobody wants to know. */
int dt_shelf_look(struct dt_depot *d, struct dt_depot_list *files, struct dt_shelf *s,
                  struct dt_err *err);
/* For a run that began anew: NEWEST (-1: none), which the depot has, is of another one, and is an
 * error, unless it bears JOB_MARK (0: the run has none): an earlier world of the same job may have
 * sealed it and died before it kept that in mind. */
int dt_shelf_refuse_others(struct dt_depot *d, int64_t newest, uint64_t job_mark,
                           struct dt_err *err);
/* Removes STEP's among FILES, state.json first. */
int dt_shelf_remove(struct dt_depot *d, const struct dt_depot_list *files, int64_t step,
                    struct dt_err *err);

struct dt_fetch {
    struct dt_depot *depot;
    const char *dir; /* is made if it is not there */
    int64_t step;
    struct dt_share_ranks ranks;
};

/* Before the first share: what an earlier attempt left goes. */
int dt_fetch_prepare(const struct dt_fetch *f, struct dt_err *err);
int dt_fetch_share(void *fetch, struct dt_err *err);
int dt_fetch_settle(void *fetch, struct dt_err *err);
/* All of it, for one process. PATH: the folder. */
int dt_fetch_alone(struct dt_fetch *f, char path[PATH_MAX], struct dt_err *err);
/* What was fetched so far goes. */
void dt_fetch_give_up(const struct dt_fetch *f);

#endif
