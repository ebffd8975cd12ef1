/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "base/plugin.h"
#include "tests/lib/check.h"

#include <libgen.h>
#include <limits.h>

struct table {
    struct dt_plugin_head head;
    int (*seven)(void);
};

static char dir[64];

static void remove_dir(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/dt_text.so", dir);
    unlink(path);
    rmdir(dir);
}

BEFORE_ALL
{
    strcpy(dir, "/tmp/dtrun-test-plugin.XXXXXX");
    if (!mkdtemp(dir))
        SKIP("no folder can be made in /tmp");
    atexit(remove_dir);
    unsetenv("DTRUN_PLUGIN_DIR");
}

/* The libraries of this test lie beside it. */
TEST(a_helper_beside_the_executable_is_found)
{
    struct dt_err err = {0};
    const struct table *t = dt_plugin_open("base/good", 3, sizeof *t, &err);
    CHECK_OK(t ? 0 : -1, err);
    CHECK_EQ(t->seven(), 7);
    CHECK(dt_plugin_open("base/good", 3, sizeof t->head, &err) == t); /* we may be the older one */
}

/* As in a build tree, whose top folder is the one above ours. */
TEST(a_helper_is_found_where_its_folder_built_it)
{
    struct dt_err err = {0};
    char exe[PATH_MAX] = "", path[PATH_MAX + 4];
    CHECK(readlink("/proc/self/exe", exe, sizeof exe - 1) > 0);
    snprintf(path, sizeof path, "%s/..", dirname(exe));
    setenv("DTRUN_PLUGIN_DIR", path, 1);
    const struct table *t = dt_plugin_open("base/good", 3, sizeof *t, &err);
    unsetenv("DTRUN_PLUGIN_DIR");
    CHECK_OK(t ? 0 : -1, err);
    CHECK_EQ(t->seven(), 7);
}

TEST(a_helper_of_another_version_is_refused)
{
    struct dt_err err = {0};
    CHECK_FAIL(dt_plugin_open("base/good", 4, sizeof(struct table), &err) ? 0 : -1, err,
               "dt_good.so belongs to another version of dtrun (its interface is 3, ours is 4)");
    CHECK_FAIL(dt_plugin_open("base/good", 3, sizeof(struct table) + 8, &err) ? 0 : -1, err,
               "dt_good.so belongs to an older dtrun");
    CHECK_FAIL(dt_plugin_open("base/strange", 3, sizeof(struct table), &err) ? 0 : -1, err,
               "dt_strange.so is no helper library of dtrun");
}

TEST(a_file_for_another_program_is_found_in_the_same_places)
{
    char path[PATH_MAX];
    CHECK(dt_plugin_find("base/dt_good.so", path));
    CHECK(dt_fs_exists(path));
    CHECK(!dt_plugin_find("base/dt_none.so", path));
    setenv("DTRUN_PLUGIN_DIR", dir, 1);
    CHECK(!dt_plugin_find("base/dt_good.so", path));
    unsetenv("DTRUN_PLUGIN_DIR");
}

TEST(a_missing_helper_is_said_to_be_missing)
{
    struct dt_err err = {0};
    CHECK_FAIL(dt_plugin_open("base/absent", 1, 8, &err) ? 0 : -1, err,
               "there is no dt_absent.so in /");
    CHECK(strstr(err.text, "/dtrun/: this dtrun was built without it") != NULL);
}

TEST(the_variable_names_the_one_folder_to_look_in)
{
    struct dt_err err = {0};
    char path[128], words[256];
    setenv("DTRUN_PLUGIN_DIR", dir, 1);
    snprintf(words, sizeof words, "there is no dt_good.so in %s/", dir);
    CHECK_FAIL(dt_plugin_open("base/good", 3, sizeof(struct table), &err) ? 0 : -1, err, words);
    snprintf(path, sizeof path, "%s/dt_text.so", dir);
    CHECK_OK(dt_fs_replace(path, "text", 4, 0600, &err), err);
    snprintf(words, sizeof words, "cannot load the helper library %s", path);
    CHECK_FAIL(dt_plugin_open("base/text", 1, 8, &err) ? 0 : -1, err, words);
    setenv("DTRUN_PLUGIN_DIR", "", 1);
    CHECK_OK(dt_plugin_open("base/good", 3, sizeof(struct table), &err) ? 0 : -1, err);
}
