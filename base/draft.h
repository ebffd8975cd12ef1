/* SPDX-License-Identifier: Apache-2.0 */
/* A file that gets its name when it is whole: nobody finds half of it, and a failure leaves what
 * was there before. While it is written it has no name at all, so that nothing of it is left
 * however the process ends. A file system that has no such files (NFS, for one) lets it stand
 * beside that name under another one, which a process that is killed leaves there. */
#ifndef DT_BASE_DRAFT_H
#define DT_BASE_DRAFT_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct dt_draft {
    char path[PATH_MAX]; /* the name to be */
    char temp[PATH_MAX]; /* the name until then; "": it has none */
    int fd;              /* to be written by whoever likes; -1: it is not open */
};

/* Whether ONE and OTHER would be the same file, however their folder is written. */
bool dt_draft_is_same(const char *one, const char *other);

/* What is under PATH is an ordinary file, or nothing. End D also when it fails. */
int dt_draft_open(struct dt_draft *d, const char *path, struct dt_err *err);
/* At the place where the last write ended. */
int dt_draft_write(struct dt_draft *d, const void *bytes, size_t len, struct dt_err *err);
/* It is on disk and has its name. */
int dt_draft_commit(struct dt_draft *d, struct dt_err *err);
/* Removes what was not committed. */
void dt_draft_close(struct dt_draft *d);

#endif
