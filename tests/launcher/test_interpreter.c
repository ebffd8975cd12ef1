/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "launcher/interpreter.h"
#include "tests/lib/check.h"

#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>

/* A folder with what an interpreter may be, and what only looks so. */
static char top[64];

static void put(const char *name, mode_t mode)
{
    char path[PATH_MAX];
    struct dt_err err = {0};
    snprintf(path, sizeof path, "%s/%s", top, name);
    *strrchr(path, '/') = '\0';
    CHECK_OK(dt_fs_mkdir_p(path, 0700, &err), err);
    path[strlen(path)] = '/';
    CHECK_OK(dt_fs_replace(path, "#!/bin/sh\n", 10, mode, &err), err);
}

static void begin(void)
{
    strcpy(top, "/tmp/dtrun-test-interpreter.XXXXXX");
    CHECK(mkdtemp(top) != NULL);
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void end(void)
{
    nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Calls dt_interpreter_find() with an environment of NAME=VALUE between |, in which @ is the
 * folder. The answer without the folder, or the error. */
static const char *find(const char *env, const char *resolve)
{
    static char text[1024];
    char vars[1024] = "", *list[8], *found;
    int n = 0;
    struct dt_err err = {0};
    for (const char *s = env; *s; s++)
        snprintf(vars + strlen(vars), sizeof vars - strlen(vars), "%.*s", *s == '@' ? 64 : 1,
                 *s == '@' ? top : s);
    for (char *s = strtok(vars, "|"); s; s = strtok(NULL, "|"))
        list[n++] = s;
    list[n] = NULL;
    struct dt_facts facts = {.env = list};
    found =
        resolve ? dt_interpreter_resolve(&facts, resolve, &err) : dt_interpreter_find(&facts, &err);
    snprintf(text, sizeof text, "%s", found ? found : err.text);
    CHECK_EQ(err.code, found ? DT_E_NONE : DT_E_RUNTIME);
    free(found);
    char *at = strstr(text, top);
    if (at)
        memmove(at, at + strlen(top), strlen(at + strlen(top)) + 1);
    return text;
}

TEST(the_python_of_the_environment)
{
    begin();
    put("venv/bin/python", 0755);
    put("conda/bin/python", 0755);
    put("three/python3", 0755);
    put("old/python", 0755);
    put("plain/python3", 0644);
    /* clang-format off */
    static const struct { const char *env, *path; } rows[] = {
        {"PATH=@/three:@/old", "/three/python3"},
        {"PATH=@/old:@/three", "/three/python3"}, /* a python3 behind a python */
        {"PATH=@/old", "/old/python"},
        {"PATH=@/nowhere:@/old", "/old/python"},
        {"PATH=@/plain:@/three", "/three/python3"},
        {"PATH=@/three|VIRTUAL_ENV=@/venv", "/venv/bin/python"},
        {"PATH=@/three|CONDA_PREFIX=@/conda", "/conda/bin/python"},
        {"PATH=@/three|CONDA_PREFIX=@/conda|VIRTUAL_ENV=@/venv", "/venv/bin/python"},
        {"PATH=@/three|CONDA_PREFIX=@/conda|VIRTUAL_ENV=@/gone", "/conda/bin/python"},
        {"PATH=@/three|CONDA_PREFIX=|VIRTUAL_ENV=", "/three/python3"},
        {"PATH=@/three|VIRTUAL_ENV=@/venv|PYTHON_EXEC=@/old/python", "/old/python"},
        {"PATH=@/three|PYTHON_EXEC=python3", "/three/python3"},
        {"PATH=@/three|PYTHON_EXEC=", "/three/python3"},
        {"PATH=@/three|PYTHON_EXEC=/bin/sh", "/bin/sh"}, /* whatever it is */
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].env);
        CHECK_STR(find(rows[i].env, NULL), rows[i].path);
    }
    CHECK(strstr(find("PATH=@/venv", NULL), "there is no python3 in the folders of PATH"));
    CHECK(strstr(find("PATH=@/three|PYTHON_EXEC=python4", NULL),
                 "PYTHON_EXEC: \"python4\" is in none of the folders of PATH"));
    CHECK(strstr(find("PATH=@/three|PYTHON_EXEC=@/gone", NULL), "PYTHON_EXEC: \"/gone\" cannot"));
    end();
}

TEST(programs_by_name)
{
    begin();
    put("bin/tool", 0755);
    put("data/tool", 0644);
    put("dir/tool/x", 0644);
    CHECK_STR(find("PATH=@/bin", "tool"), "/bin/tool");
    CHECK_STR(find("PATH=@/data:@/dir:@/bin", "tool"), "/bin/tool");
    CHECK_STR(find("PATH=@/bin", "/bin/sh"), "/bin/sh");
    CHECK_STR(find("NO=1", "sh"), "/bin/sh"); /* where the kernel's users look without a PATH */
    CHECK_STR(find("PATH=@/data", "tool"), "\"tool\" cannot be executed: Permission denied");
    CHECK_STR(find("PATH=@/dir", "tool"), "\"tool\" cannot be executed: Is a directory");
    CHECK_STR(find("PATH=", "tool"),
              "\"tool\" is in none of the folders of PATH; write a program of this folder as "
              "./NAME");
    CHECK_STR(find("PATH=@/bin", "./no/tool"),
              "\"./no/tool\" cannot be executed: No such file or directory");
    CHECK(strstr(find("PATH=@/bin", ""), "\"\" is in none of the folders of PATH"));
    CHECK_EQ(chdir(top), 0); /* an empty folder is the working directory */
    CHECK_EQ(chdir("bin"), 0);
    CHECK_STR(find("PATH=:/nowhere", "tool"), "./tool");
    CHECK_STR(find("PATH=/nowhere:", "tool"), "./tool");
    CHECK_EQ(chdir("/"), 0);
    end();
}

TEST(machine_code_is_a_program_and_a_script_is_not)
{
    char path[PATH_MAX];
    char search[] = "PATH=/bin:/usr/bin";
    char *env[] = {search, NULL};
    struct dt_facts facts = {.env = env};
    begin();
    put("script", 0755);
    snprintf(path, sizeof path, "%s/script", top);
    CHECK(!dt_interpreter_is_program(&facts, path));
    CHECK(dt_interpreter_is_program(&facts, "/proc/self/exe"));
    CHECK(dt_interpreter_is_program(&facts, "true"));
    CHECK(!dt_interpreter_is_program(&facts, "no-such-command"));
    CHECK(!dt_interpreter_is_program(&facts, ""));
    CHECK(!dt_interpreter_is_program(&facts, "/bin"));
    /* A file of the working directory that is called like a command is what Python would open. */
    CHECK_EQ(chdir(top), 0);
    put("true", 0644);
    CHECK(!dt_interpreter_is_program(&facts, "true"));
    CHECK_EQ(chdir("/"), 0);
    end();
}
