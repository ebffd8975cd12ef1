/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/interpreter.h"

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

/* The python of the environment that lies in the folder that VARIABLE names. */
static bool find_active(const struct dt_facts *facts, const char *variable, char out[PATH_MAX])
{
    const char *folder = dt_facts_env(facts, variable);
    return folder && *folder && snprintf(out, PATH_MAX, "%s/bin/python", folder) < PATH_MAX &&
           why_not(out) == 0;
}

char *dt_interpreter_own(const struct dt_facts *facts, struct dt_err *err)
{
    char path[PATH_MAX];
    int why;
    if (find_active(facts, "VIRTUAL_ENV", path) || find_active(facts, "CONDA_PREFIX", path) ||
        find_in(search_path(facts), "python3", path, &why) ||
        find_in(search_path(facts), "python", path, &why))
        return copy(path, err);
    dt_err_set(err, DT_E_RUNTIME,
               "there is no python3 in the folders of PATH; activate an environment, name an "
               "interpreter in PYTHON_EXEC, or run a program that needs none with --no-python");
    return NULL;
}

char *dt_interpreter_find(const struct dt_facts *facts, struct dt_err *err)
{
    const char *named = dt_facts_env(facts, "PYTHON_EXEC");
    if (!named || !*named)
        return dt_interpreter_own(facts, err);
    char *found = dt_interpreter_resolve(facts, named, err);
    if (!found)
        dt_err_wrap(err, "PYTHON_EXEC");
    return found;
}
