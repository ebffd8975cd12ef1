/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: read, replace so that a crash leaves the old or the new one, and folders with their
 * parents. */
#ifndef DT_BASE_FS_H
#define DT_BASE_FS_H

#include "base/buf.h"
#include "base/err.h"

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

bool dt_fs_exists(const char *path);

/* Appends the bytes of an ordinary file to OUT. Anything else is an error, so that nobody waits for
 * the other end of a pipe. More than MAX bytes are DT_E_LIMIT. */
int dt_fs_read(const char *path, size_t max, struct dt_buf *out, struct dt_err *err);
/* The same, also of a pipe as in `--config <(...)`, which is waited for and may never end: for what
 * a person names. */
int dt_fs_read_any(const char *path, size_t max, struct dt_buf *out, struct dt_err *err);

/* Puts LEN bytes into PATH by way of a temporary file beside it. 0: they are on disk under that
 * name. On failure the old file, or none, is still there. */
int dt_fs_replace(const char *path, const void *bytes, size_t len, mode_t mode, struct dt_err *err);

/* Removes NAME, in the open folder AT or AT_FDCWD, with all that is in it. Links are removed and
 * never followed. 0 where it is not there; -1 and errno, and some of it may have gone. */
int dt_fs_remove_tree(int at, const char *name);

/* The next entry of DIR. NULL: that was all, and errno is 0; or the rest cannot be read, and errno
 * says why. Of readdir() alone a disk that fails in the middle looks like a folder that ends. */
struct dirent *dt_fs_next_entry(DIR *dir);

/* Makes PATH and the parents it lacks; fine when it is there already. */
int dt_fs_mkdir_p(const char *path, mode_t mode, struct dt_err *err);

/* The folder for what nobody named a place for, by an absolute path: the first of $TMPDIR, $TEMP,
 * $TMP, /tmp, /var/tmp, /usr/tmp and the working directory in which a folder can be made, as
 * Python chooses. Allocated; NULL and *err: there is none. */
char *dt_fs_temp_folder(struct dt_err *err);

/* A descriptor of an empty file that has no name, is in memory, may be sealed, and closes at exec;
 * NAME is what /proc shows. -1 and errno. */
int dt_fs_make_in_memory(const char *name);

/* Opens /dev/null on each of descriptors 0 to 2 that is closed. For the first line of a program
 * that serves: the next socket would get that number, and a client the log. */
void dt_fs_fill_standard_fds(void);

/* The same for a program that starts others: what it executes finds closed what was closed. */
void dt_fs_reserve_standard_fds(void);

#endif
