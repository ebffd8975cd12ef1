/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "launcher/python/interpreter.h"
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

/* An environment of NAME=VALUE between |, in which @ is the folder, for a program that was called
 * as CALLED, where @ is the folder, too. */
struct given {
    char vars[1024], *list[8], called[256];
    struct dt_facts facts;
};

/* TEXT with the folder's name for each @. */
static void fill(const char *text, char *out, size_t size)
{
    *out = '\0';
    for (const char *s = text; *s; s++)
        snprintf(out + strlen(out), size - strlen(out), "%.*s", *s == '@' ? 64 : 1,
                 *s == '@' ? top : s);
}

static void give(struct given *g, const char *env, const char *called)
{
    int n = 0;
    fill(env, g->vars, sizeof g->vars);
    fill(called, g->called, sizeof g->called);
    for (char *s = strtok(g->vars, "|"); s; s = strtok(NULL, "|"))
        g->list[n++] = s;
    g->list[n] = NULL;
    g->facts = (struct dt_facts){.env = g->list, .program = g->called};
}

/* What was found without the folder, or the error. */
static const char *answer(const char *found, const struct dt_err *err)
{
    static char text[1024];
    snprintf(text, sizeof text, "%s", found ? found : err->text);
    CHECK_EQ(err->code, found ? DT_E_NONE : DT_E_RUNTIME);
    char *at = strstr(text, top);
    if (at)
        memmove(at, at + strlen(top), strlen(at + strlen(top)) + 1);
    return text;
}

static const char *resolve(const char *env, const char *name)
{
    struct given g;
    struct dt_err err = {0};
    give(&g, env, "dtrun");
    char *found = dt_interpreter_resolve(&g.facts, name, &err);
    const char *text = answer(found, &err);
    free(found);
    return text;
}

/* "PATH OF IT, from ORIGIN", and behind that "; DEAD is dead". */
static const char *find(const char *env, const char *called)
{
    static char text[1300];
    struct given g;
    struct dt_interpreter i;
    struct dt_err err = {0};
    give(&g, env, called);
    int rc = dt_interpreter_find(&g.facts, &i, &err);
    const char *path = answer(i.path, &err);
    snprintf(text, sizeof text, "%s%s%s%s%s", path, rc < 0 ? "" : ", from ", rc < 0 ? "" : i.origin,
             i.dead ? "; dead: " : "", i.dead ? i.dead : "");
    dt_interpreter_finish(&i);
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
        {"PATH=@/three:@/old", "/three/python3, from PATH"},
        {"PATH=@/old:@/three", "/three/python3, from PATH"}, /* a python3 behind a python */
        {"PATH=@/old", "/old/python, from PATH"},
        {"PATH=@/nowhere:@/old", "/old/python, from PATH"},
        {"PATH=@/plain:@/three", "/three/python3, from PATH"},
        {"PATH=@/three|VIRTUAL_ENV=@/venv", "/venv/bin/python, from VIRTUAL_ENV"},
        {"PATH=@/three|CONDA_PREFIX=@/conda", "/conda/bin/python, from CONDA_PREFIX"},
        {"PATH=@/three|CONDA_PREFIX=@/conda|VIRTUAL_ENV=@/venv", "/venv/bin/python, from VIRTUAL_ENV"},
        {"PATH=@/three|CONDA_PREFIX=@/gone|VIRTUAL_ENV=@/venv", "/venv/bin/python, from VIRTUAL_ENV"},
        {"PATH=@/three|CONDA_PREFIX=@/conda|VIRTUAL_ENV=@/gone",
         "/conda/bin/python, from CONDA_PREFIX; dead: VIRTUAL_ENV"},
        {"PATH=@/three|CONDA_PREFIX=@/gone", "/three/python3, from PATH; dead: CONDA_PREFIX"},
        {"PATH=@/three|CONDA_PREFIX=@/gone|VIRTUAL_ENV=@/gone", "/three/python3, from PATH; dead: VIRTUAL_ENV"},
        {"PATH=@/three|CONDA_PREFIX=|VIRTUAL_ENV=", "/three/python3, from PATH"},
        {"PATH=@/three|VIRTUAL_ENV=@/venv|PYTHON_EXEC=@/old/python", "/old/python, from PYTHON_EXEC"},
        {"PATH=@/three|PYTHON_EXEC=python3", "/three/python3, from PYTHON_EXEC"},
        {"PATH=@/three|PYTHON_EXEC=", "/three/python3, from PATH"},
        {"PATH=@/three|PYTHON_EXEC=/bin/sh", "/bin/sh, from PYTHON_EXEC"}, /* whatever it is */
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].env);
        CHECK_STR(find(rows[i].env, "dtrun"), rows[i].path);
    }
    CHECK(strstr(find("PATH=@/venv", "dtrun"), "there is no python3 in the folders of PATH"));
    CHECK(strstr(find("PATH=@/three|PYTHON_EXEC=python4", "dtrun"),
                 "PYTHON_EXEC: \"python4\" is in none of the folders of PATH"));
    CHECK(
        strstr(find("PATH=@/three|PYTHON_EXEC=@/gone", "dtrun"), "PYTHON_EXEC: \"/gone\" cannot"));
    end();
}

/* As the first line of a real torchrun there would have it. */
TEST(the_python_beside_us)
{
    begin();
    put("venv/pyvenv.cfg", 0644);
    put("venv/bin/python", 0755);
    put("venv/bin/torchrun", 0755);
    put("other/bin/python", 0755);
    put("conda/conda-meta/history", 0644);
    put("conda/bin/python", 0755);
    put("conda/bin/torchrun", 0755);
    put("usr/bin/python", 0755); /* no environment */
    put("usr/bin/torchrun", 0755);
    put("broken/pyvenv.cfg", 0644);
    put("broken/bin/torchrun", 0755);
    put("three/python3", 0755);
    /* clang-format off */
    static const struct { const char *called, *env, *path; } rows[] = {
        {"@/venv/bin/torchrun", "PATH=@/three", "/venv/bin/python, from the environment that dtrun was called in"},
        {"@/conda/bin/torchrun", "PATH=@/three", "/conda/bin/python, from the environment that dtrun was called in"},
        {"torchrun", "PATH=@/three:@/venv/bin", "/venv/bin/python, from the environment that dtrun was called in"},
        {"torchrun", "PATH=@/three:@/usr/bin:@/venv/bin", "/three/python3, from PATH"},
        {"@/venv/bin/torchrun", "PATH=@/three|VIRTUAL_ENV=@/other",
         "/venv/bin/python, from the environment that dtrun was called in"},
        {"@/venv/bin/torchrun", "PATH=@/three|VIRTUAL_ENV=@/gone",
         "/venv/bin/python, from the environment that dtrun was called in"},
        {"@/venv/bin/torchrun", "PATH=@/three|PYTHON_EXEC=/bin/sh", "/bin/sh, from PYTHON_EXEC"},
        {"@/usr/bin/torchrun", "PATH=@/three|VIRTUAL_ENV=@/other", "/other/bin/python, from VIRTUAL_ENV"},
        {"@/usr/bin/torchrun", "PATH=@/three", "/three/python3, from PATH"},
        {"@/broken/bin/torchrun", "PATH=@/three", "/three/python3, from PATH"},
        {"@/nowhere/torchrun", "PATH=@/three", "/three/python3, from PATH"},
        {"torchrun", "PATH=@/three", "/three/python3, from PATH"},
        {"", "PATH=@/three", "/three/python3, from PATH"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s, with %s", rows[i].called, rows[i].env);
        CHECK_STR(find(rows[i].env, rows[i].called), rows[i].path);
    }
    end();
}

TEST(programs_by_name)
{
    begin();
    put("bin/tool", 0755);
    put("data/tool", 0644);
    put("dir/tool/x", 0644);
    CHECK_STR(resolve("PATH=@/bin", "tool"), "/bin/tool");
    CHECK_STR(resolve("PATH=@/data:@/dir:@/bin", "tool"), "/bin/tool");
    CHECK_STR(resolve("PATH=@/bin", "/bin/sh"), "/bin/sh");
    CHECK_STR(resolve("NO=1", "sh"), "/bin/sh"); /* where the kernel's users look without a PATH */
    CHECK_STR(resolve("PATH=@/data", "tool"), "\"tool\" cannot be executed: Permission denied");
    CHECK_STR(resolve("PATH=@/dir", "tool"), "\"tool\" cannot be executed: Is a directory");
    CHECK_STR(resolve("PATH=", "tool"),
              "\"tool\" is in none of the folders of PATH; write a program of this folder as "
              "./NAME");
    CHECK_STR(resolve("PATH=@/bin", "./no/tool"),
              "\"./no/tool\" cannot be executed: No such file or directory");
    CHECK(strstr(resolve("PATH=@/bin", ""), "\"\" is in none of the folders of PATH"));
    CHECK_EQ(chdir(top), 0); /* an empty folder is the working directory */
    CHECK_EQ(chdir("bin"), 0);
    CHECK_STR(resolve("PATH=:/nowhere", "tool"), "./tool");
    CHECK_STR(resolve("PATH=/nowhere:", "tool"), "./tool");
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
