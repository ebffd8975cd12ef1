/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that cannot be listed, or not to their end. */
#include "base/transfer/transfer.h"

#include "base/fs.h"
#include "tests/lib/folder.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

BEFORE_ALL
{
    folder_make();
    CHECK_EQ(chmod(dir, 0755), 0);
}

static bool disk_fails;

struct dirent *__real_dt_fs_next_entry(DIR *d);
struct dirent *__wrap_dt_fs_next_entry(DIR *d);

struct dirent *__wrap_dt_fs_next_entry(DIR *d)
{
    if (!disk_fails)
        return __real_dt_fs_next_entry(d);
    errno = EIO;
    return NULL;
}

static int count(void *arg, const struct dt_object *o, struct dt_err *err)
{
    (void)o, (void)err;
    ++*(int *)arg;
    return 0;
}

static int list(int *found, struct dt_err *err)
{
    char url[100];
    snprintf(url, sizeof url, "file://%s", dir);
    *found = 0;
    struct dt_transfer *t = dt_transfer_open(url, NULL, err);
    int rc = t ? dt_transfer_list(t, "", true, count, found, err) : -1;
    dt_transfer_close(t);
    return rc;
}

TEST(a_disk_that_fails_is_no_end_of_a_listing)
{
    struct dt_err err;
    int found;
    CHECK_OK(dt_fs_replace(at("a"), "a", 1, 0666, &err), err);
    CHECK_OK(list(&found, &err), err);
    CHECK_EQ(found, 1);
    disk_fails = true;
    CHECK_FAIL(list(&found, &err), err, strerror(EIO));
    disk_fails = false;
}

TEST(a_folder_that_is_closed_to_us_is_not_taken_for_an_empty_one)
{
    struct dt_err err;
    int found;
    bool is_root = geteuid() == 0; /* to whom no folder is closed */
    CHECK_EQ(mkdir(at("closed"), 0), 0);
    if (is_root && seteuid(65534) < 0)
        SKIP("root of this namespace cannot become nobody: %s", strerror(errno));
    CHECK_FAIL(list(&found, &err), err, strerror(EACCES));
    CHECK_EQ(is_root ? seteuid(0) : 0, 0);
    CHECK_EQ(rmdir(at("closed")), 0);
}
