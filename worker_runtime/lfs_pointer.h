/* SPDX-License-Identifier: Apache-2.0 */
/* What a clone without git-lfs leaves in place of a large file: a few lines of text that say where
 * it is. Whoever meets one wants to be told so, and not what is wrong with its bytes. */
#ifndef DT_WORKER_RUNTIME_LFS_POINTER_H
#define DT_WORKER_RUNTIME_LFS_POINTER_H

#include "base/buf.h"

#include <stdbool.h>
#include <string.h>

#define DT_LFS_POINTER_TEXT                                                                        \
    "it is a pointer of git-lfs and not the file itself; fetch that with `git lfs pull`"

/* HEAD: the first bytes of a file. */
static inline bool dt_is_lfs_pointer(struct dt_bytes head)
{
    static const char first_line[] = "version https://git-lfs.github.com/spec/";
    const size_t len = sizeof first_line - 1;
    return head.len >= len && memcmp(head.at, first_line, len) == 0;
}

#endif
