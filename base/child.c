/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

/* Who leads a session leads a group, and may not be put into one. */
static int set_attributes(posix_spawnattr_t *a, bool session)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    flags |= session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP;
    int rc = posix_spawnattr_setflags(a, flags);
    rc = rc ? rc : posix_spawnattr_setsigmask(a, &none);
    return rc ? rc : posix_spawnattr_setsigdefault(a, &all);
}

/* A descriptor that is put onto itself no longer closes at exec. */
static int set_files(posix_spawn_file_actions_t *f, const struct dt_child_order *o, int output)
{
    int rc = o->input ? posix_spawn_file_actions_adddup2(f, *o->input, STDIN_FILENO)
                      : posix_spawn_file_actions_addopen(f, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(f, output, STDOUT_FILENO);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(f, output, STDERR_FILENO);
    for (size_t i = 0; i < o->keep_count && rc == 0; i++)
        rc = posix_spawn_file_actions_adddup2(f, o->keep[i], o->keep[i]);
    return rc || !o->dir ? rc : posix_spawn_file_actions_addchdir_np(f, o->dir);
}

static int spawn(const struct dt_child_order *o, int output, pid_t *pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&files);
    int rc = set_attributes(&attributes, o->session);
    rc = rc ? rc : set_files(&files, o, output);
    rc = rc ? rc : posix_spawn(pid, o->path, &files, &attributes, o->argv, o->env);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return rc;
}

int dt_child_start(struct dt_child *c, const struct dt_child_order *o)
{
    int ends[2];
    *c = (struct dt_child){.output = -1};
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    int rc = spawn(o, ends[1], &c->pid);
    close(ends[1]);
    if (rc == 0)
        c->output = ends[0];
    else
        close(ends[0]);
    return rc;
}

static bool has_name_of(const char *variable, char *const *others, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(variable, others[i], strcspn(others[i], "=") + 1) == 0)
            return true;
    return false;
}

char **dt_child_env(char *const *variables, size_t count)
{
    size_t n = 0, len = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + count + 1, sizeof *env);
    for (; env && len < count; len++)
        env[len] = variables[len];
    for (size_t i = 0; env && i < n; i++)
        if (!has_name_of(environ[i], variables, count))
            env[len++] = environ[i];
    return env;
}
