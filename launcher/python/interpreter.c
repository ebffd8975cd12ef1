/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/python/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"

/* 0 when PATH can be executed, else why not. */
static int why_not(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    return access(path, X_OK) < 0 ? errno : 0;
}

static char *copy(const char *path, struct dt_err *err)
{
    char *own = strdup(path);
    if (!own)
        dt_err_set(err, DT_E_MEMORY, "no memory");
    return own;
}

/* Looks for NAME in the folders of LIST; an empty one is the working directory. *WHY: that of the
 * first match that cannot be executed, else ENOENT. */
static bool find_in(const char *list, const char *name, char out[PATH_MAX], int *why)
{
    *why = ENOENT;
    for (;;) {
        size_t n = strcspn(list, ":");
        int len = n ? snprintf(out, PATH_MAX, "%.*s/%s", (int)n, list, name)
                    : snprintf(out, PATH_MAX, "./%s", name);
        int found = len < PATH_MAX ? why_not(out) : ENOENT;
        if (found == 0)
            return true;
        if (*why == ENOENT && found != ENOTDIR)
            *why = found;
        if (list[n] == '\0')
            return false;
        list += n + 1;
    }
}

static const char *search_path(const struct dt_facts *facts)
{
    const char *path = dt_facts_env(facts, "PATH");
    return path ? path : "/bin:/usr/bin";
}

char *dt_interpreter_resolve(const struct dt_facts *facts, const char *name, struct dt_err *err)
{
    char path[PATH_MAX];
    int why = ENOENT;
    if (strchr(name, '/')) {
        why = why_not(name);
        if (why == 0)
            return copy(name, err);
    } else if (*name && find_in(search_path(facts), name, path, &why)) {
        return copy(path, err);
    }
    if (why == ENOENT && !strchr(name, '/'))
        dt_err_set(err, DT_E_RUNTIME,
                   "\"%s\" is in none of the folders of PATH; write a program of this folder as "
                   "./NAME",
                   name);
    else
        dt_err_errno(err, DT_E_RUNTIME, why, "\"%s\" cannot be executed", name);
    return NULL;
}

/* Whether the file at PATH begins as machine code does. */
static bool is_machine_code(const char *path)
{
    static const char elf[4] = {0x7f, 'E', 'L', 'F'};
    char head[sizeof elf] = {0};
    DT_AUTO_FD fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd >= 0 && read(fd, head, sizeof head) == (ssize_t)sizeof head &&
           memcmp(head, elf, sizeof elf) == 0;
}

bool dt_interpreter_is_program(const struct dt_facts *facts, const char *name)
{
    char path[PATH_MAX];
    int why;
    if (strchr(name, '/'))
        return why_not(name) == 0 && is_machine_code(name);
    /* A script of this folder may have the name of a command: it is what Python would open. */
    return *name && access(name, F_OK) < 0 && find_in(search_path(facts), name, path, &why) &&
           is_machine_code(path);
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX && access(path, F_OK) == 0;
}

/* The path by which this program was called, as a shell would have found it. */
static bool find_program(const struct dt_facts *facts, char out[PATH_MAX])
{
    const char *called = facts->program;
    int why;
    if (!called || !*called)
        return false;
    if (!strchr(called, '/'))
        return find_in(search_path(facts), called, out, &why);
    return snprintf(out, PATH_MAX, "%s", called) < PATH_MAX && why_not(out) == 0;
}

/* The python beside this program where both lie in an environment. A link to us there counts, not
 * what it points to: torchrun of an environment is what people put into its folder. */
static bool find_beside(const struct dt_facts *facts, char out[PATH_MAX])
{
    char here[PATH_MAX], top[PATH_MAX];
    if (!find_program(facts, here))
        return false;
    *strrchr(here, '/') = '\0';
    if (snprintf(top, sizeof top, "%s/..", here) >= PATH_MAX ||
        !(is_there(top, "pyvenv.cfg") || is_there(top, "conda-meta")))
        return false;
    return snprintf(out, PATH_MAX, "%s/python", here) < PATH_MAX && why_not(out) == 0;
}

/* The python of the environment in the folder that VARIABLE, which is kept, names. */
static bool find_active(const struct dt_facts *facts, const char *variable, char out[PATH_MAX],
                        struct dt_interpreter *i)
{
    const char *folder = dt_facts_env(facts, variable);
    if (!folder || !*folder)
        return false;
    i->origin = variable;
    if (snprintf(out, PATH_MAX, "%s/bin/python", folder) < PATH_MAX && why_not(out) == 0)
        return true;
    if (!i->dead)
        i->dead = variable;
    return false;
}

static bool find_own(const struct dt_facts *facts, char out[PATH_MAX], struct dt_interpreter *i)
{
    int why;
    i->origin = "the environment that dtrun was called in";
    if (find_beside(facts, out) || find_active(facts, "VIRTUAL_ENV", out, i) ||
        find_active(facts, "CONDA_PREFIX", out, i))
        return true;
    i->origin = "PATH";
    return find_in(search_path(facts), "python3", out, &why) ||
           find_in(search_path(facts), "python", out, &why);
}

int dt_interpreter_own(const struct dt_facts *facts, struct dt_interpreter *out, struct dt_err *err)
{
    char path[PATH_MAX];
    *out = (struct dt_interpreter){0};
    if (!find_own(facts, path, out))
        return dt_err_set(err, DT_E_RUNTIME,
                          "there is no python3 in the folders of PATH; activate an environment, "
                          "name an interpreter in PYTHON_EXEC, or run a program that needs none "
                          "with --no-python");
    out->path = copy(path, err);
    return out->path ? 0 : -1;
}

int dt_interpreter_find(const struct dt_facts *facts, struct dt_interpreter *out,
                        struct dt_err *err)
{
    const char *named = dt_facts_env(facts, "PYTHON_EXEC");
    if (!named || !*named)
        return dt_interpreter_own(facts, out, err);
    *out = (struct dt_interpreter){.origin = "PYTHON_EXEC",
                                   .path = dt_interpreter_resolve(facts, named, err)};
    return out->path ? 0 : dt_err_wrap(err, "PYTHON_EXEC");
}

void dt_interpreter_finish(struct dt_interpreter *i)
{
    free(i->path);
    *i = (struct dt_interpreter){0};
}
