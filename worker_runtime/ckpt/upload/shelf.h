/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints a depot holds: what the keys of its files tell. It looks as a save_dir does: a
 * folder for each step, and `latest`. A checkpoint is whole when its state.json is there, which is
 * put last and removed first. Pure. */
#ifndef DT_WORKER_RUNTIME_CKPT_UPLOAD_SHELF_H
#define DT_WORKER_RUNTIME_CKPT_UPLOAD_SHELF_H

#include "base/err.h"
#include "base/upload/depot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_shelved {
    int64_t step;
    uint64_t bytes;
    size_t files;
    bool whole;
};

struct dt_shelf {
    struct dt_shelved *at; /* the highest step first */
    size_t count;
    int64_t latest; /* that `latest` names; -1: none */
};

/* LATEST: what is in `latest`, or no bytes. */
int dt_shelf_read(struct dt_shelf *s, const struct dt_depot_list *files, struct dt_bytes latest,
                  struct dt_err *err);
void dt_shelf_finish(struct dt_shelf *s);

/* The step to go on from: the one `latest` names, the whole ones before it, and then those behind
 * it, which a run that went back has left. AFTER: the one behind that in this order; -1: the first.
 * -1: there is none. */
int64_t dt_shelf_next(const struct dt_shelf *s, int64_t after);

/* Whether *C goes when STEP has been put there and KEEP_LAST (0: all) whole ones are to stay. Those
 * of higher steps are of a run that was gone back from, and are not counted. What is not whole and
 * older is what an upload has left that was given up. */
bool dt_shelf_is_outdated(const struct dt_shelf *s, const struct dt_shelved *c, int64_t step,
                          int keep_last);

/* Whether KEY is a file of a checkpoint; *STEP is which, *NAME the rest behind "step-00000100/". */
bool dt_shelf_key(const char *key, int64_t *step, const char **name);

#endif
