/* SPDX-License-Identifier: Apache-2.0 */
/* A file that nobody sees before it is whole: it is written under another name in the same folder,
 * ".dt-" and a number, and gets its own when it is on disk. */
#ifndef DT_BASE_TRANSFER_WHOLE_FILE_H
#define DT_BASE_TRANSFER_WHOLE_FILE_H

#include "base/err.h"

#include <limits.h>
#include <stdbool.h>

struct dt_whole_file {
    int fd; /* to write to; the caller may seek and cut it */
    bool is_done;
    char temp[PATH_MAX], path[PATH_MAX];
};

/* PATH's folder must be there. Finish FILE if this went well. */
int dt_whole_file_begin(struct dt_whole_file *file, const char *path, struct dt_err *err);
int dt_whole_file_commit(struct dt_whole_file *file, struct dt_err *err);
/* Without a commit nothing is left of it. */
void dt_whole_file_finish(struct dt_whole_file *file);

/* Whether NAME, without folders, is one of those other names. */
bool dt_whole_file_is_temp(const char *name);

#endif
