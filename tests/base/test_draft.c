/* SPDX-License-Identifier: Apache-2.0 */
#include "base/draft.h"

#include "base/fs.h"
#include "tests/lib/folder.h"

BEFORE_ALL
{
    folder_make();
}

static void check_file(const char *path, const char *text)
{
    struct dt_err err = {0};
    struct dt_buf out = {0};
    CHECK_OK(dt_fs_read(path, 1000, &out, &err), err);
    CHECK_STR(dt_buf_cstr(&out), text);
    dt_buf_finish(&out);
}

static int names(void)
{
    int n = 0;
    DIR *d = opendir(dir);
    CHECK(d != NULL);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(a_file_has_its_name_when_it_is_whole)
{
    struct dt_err err = {0};
    struct dt_draft d;
    const char *path = at("whole");
    CHECK_OK(dt_fs_replace(path, "old", 3, 0600, &err), err);
    CHECK_OK(dt_draft_open(&d, path, &err), err);
    CHECK_OK(dt_draft_write(&d, "new ", 4, &err), err);
    check_file(path, "old");
    CHECK_OK(dt_draft_write(&d, "text", 4, &err), err);
    CHECK_OK(dt_draft_commit(&d, &err), err);
    check_file(path, "new text");
    dt_draft_close(&d);
    dt_draft_close(&d);
    check_file(path, "new text");
    CHECK_EQ(names(), 1);
}

TEST(what_is_given_up_leaves_what_was_there)
{
    struct dt_err err = {0};
    struct dt_draft d;
    CHECK_OK(dt_draft_open(&d, at("whole"), &err), err);
    CHECK_OK(dt_draft_write(&d, "half", 4, &err), err);
    CHECK_EQ(names(), 2);
    dt_draft_close(&d);
    CHECK_EQ(names(), 1);
    check_file(at("whole"), "new text");
}

TEST(what_is_no_file_is_not_replaced)
{
    struct dt_err err = {0};
    struct dt_draft d;
    CHECK(dt_draft_open(&d, dir, &err) < 0);
    CHECK(strstr(err.text, "is there and is no ordinary file") != NULL);
    dt_draft_close(&d);
    CHECK(dt_draft_open(&d, at("no/such"), &err) < 0);
    CHECK(strstr(err.text, "cannot make a file beside") != NULL);
    dt_draft_close(&d);
    CHECK_EQ(names(), 1);
}
