/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fails while the names of checkpoints are read. */
#include "tests/lib/folder.h"
#include "worker_runtime/ckpt/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

BEFORE_ALL
{
    folder_make();
}

struct dirent *__wrap_dt_fs_next_entry(DIR *d);

struct dirent *__wrap_dt_fs_next_entry(DIR *d)
{
    (void)d;
    errno = EIO;
    return NULL;
}

TEST(a_folder_that_cannot_be_read_is_not_taken_for_one_without_checkpoints)
{
    char path[PATH_MAX];
    struct dt_err err;
    CHECK_EQ(mkdir(at("step-00000001"), 0777), 0);
    CHECK_FAIL(dt_ckpt_find(dir, path, sizeof path, NULL, &err), err, "cannot read all names");
    CHECK(strstr(err.text, strerror(EIO)) != NULL);
}
