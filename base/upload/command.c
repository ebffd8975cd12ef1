/* SPDX-License-Identifier: Apache-2.0 */
#include "base/upload/command.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_EVERY 20 /* ms: at its end, and at STOP */
#define GRACE (2 * DT_SECOND)
#define WORDS_MAX 4096 /* that are kept of what it prints */
#define READS_MOST 256 /* of 1 KiB: more than a pipe holds */

extern char **environ;

struct running {
    pid_t pid;
    int output; /* what it prints on its two streams; -1: it has closed them */
    struct dt_buf words;
};

/* -- its environment -------------------------------------------------------------------------- */

static const char *const names[] = {"DTRUN_UPLOAD_FILE=", "DTRUN_UPLOAD_KEY=", "DTRUN_UPLOAD_URL="};
#define VARIABLES (sizeof names / sizeof *names)

static bool is_ours(const char *variable)
{
    for (size_t i = 0; i < VARIABLES; i++)
        if (strncmp(variable, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* The first VARIABLES strings are allocated, the others this process's own. */
static char **make_environment(const struct dt_upload_command *c, const char *path)
{
    const char *const values[VARIABLES] = {path, c->key, c->url ? c->url : ""};
    size_t n = 0, count = 0;
    while (environ[n])
        n++;
    char **env = calloc(n + VARIABLES + 1, sizeof *env);
    for (; env && count < VARIABLES; count++)
        if (asprintf(&env[count], "%s%s", names[count], values[count]) < 0)
            env[count] = NULL;
    for (size_t i = 0; env && i < n; i++)
        if (!is_ours(environ[i]))
            env[count++] = environ[i];
    return env;
}

static void free_environment(char **env)
{
    for (size_t i = 0; env && i < VARIABLES; i++)
        free(env[i]);
    free(env);
}

static bool is_whole(char *const *env)
{
    for (size_t i = 0; env && i < VARIABLES; i++)
        if (!env[i])
            return false;
    return env != NULL;
}

/* -- its process ------------------------------------------------------------------------------ */

/* A group of its own, to be ended whole, and no signal is blocked or ignored as it may be here. */
static int set_attributes(posix_spawnattr_t *a)
{
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    int rc = posix_spawnattr_setflags(a, flags);
    rc = rc ? rc : posix_spawnattr_setsigmask(a, &none);
    return rc ? rc : posix_spawnattr_setsigdefault(a, &all);
}

static int set_streams(posix_spawn_file_actions_t *f, int output)
{
    int rc = posix_spawn_file_actions_addopen(f, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    rc = rc ? rc : posix_spawn_file_actions_adddup2(f, output, STDOUT_FILENO);
    return rc ? rc : posix_spawn_file_actions_adddup2(f, output, STDERR_FILENO);
}

static int spawn(const char *text, char *const *env, int output, pid_t *pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t streams;
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)text, NULL};
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&streams);
    int rc = set_attributes(&attributes);
    rc = rc ? rc : set_streams(&streams, output);
    rc = rc ? rc : posix_spawn(pid, "/bin/sh", &streams, &attributes, argv, env);
    posix_spawn_file_actions_destroy(&streams);
    posix_spawnattr_destroy(&attributes);
    return rc;
}

/* 0, or an errno value. */
static int start(struct running *r, const struct dt_upload_command *c, char *const *env)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return errno;
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* ours alone: the command may expect that a write waits */
    int rc = spawn(c->text, env, ends[1], &r->pid);
    close(ends[1]);
    r->output = ends[0];
    return rc;
}

/* The end of what it prints says most. */
static void keep_words(struct running *r, const char *bytes, size_t len)
{
    dt_buf_put(&r->words, bytes, len);
    if (r->words.len > WORDS_MAX)
        dt_buf_consume(&r->words, r->words.len - WORDS_MAX);
}

/* Waits until something comes, for a moment; whether it did. */
static bool read_words(struct running *r, int patience_ms)
{
    char room[1024];
    struct pollfd p = {.fd = r->output, .events = POLLIN}; /* of -1 poll() only waits */
    poll(&p, 1, patience_ms);
    if (r->output < 0)
        return false;
    ssize_t n = read(r->output, room, sizeof room);
    if (n > 0)
        keep_words(r, room, (size_t)n);
    if (n != 0)
        return n > 0;
    close(r->output);
    r->output = -1;
    return false;
}

static bool is_stopped(const struct dt_upload_command *c)
{
    return c->stop && atomic_load_explicit(c->stop, memory_order_relaxed);
}

/* Its status, as of waitpid(). */
static int await(const struct dt_upload_command *c, struct running *r)
{
    int status = 0;
    dt_ms told = 0;
    pid_t ended;
    while ((ended = waitpid(r->pid, &status, WNOHANG)) == 0) {
        dt_ms now = dt_clock_monotonic();
        if (!told && is_stopped(c)) {
            kill(-r->pid, SIGTERM);
            told = now;
        } else if (told && now - told > GRACE) {
            kill(-r->pid, SIGKILL);
        }
        read_words(r, LOOK_EVERY);
    }
    if (told)
        kill(-r->pid, SIGKILL); /* what it started may have taken no notice */
    /* What it left in the pipe. A process that it left behind may keep that open, and full. */
    for (int i = 0; i < READS_MOST && read_words(r, 0);)
        i++;
    return ended == r->pid ? status : W_EXITCODE(127, 0); /* somebody else took its status */
}

/* -- a file ----------------------------------------------------------------------------------- */

static const char *last_line(struct running *r, char *out, size_t size)
{
    char text[WORDS_MAX + 1];
    snprintf(text, sizeof text, "%s", dt_buf_cstr(&r->words));
    const char *line = dt_str_trim(text), *newline = strrchr(line, '\n');
    return dt_str_printable(dt_bytes_of(newline ? newline + 1 : line), out, size);
}

static int judge(const struct dt_upload_command *c, struct running *r, int status,
                 struct dt_err *err)
{
    char said[256];
    bool exited = WIFEXITED(status);
    if (exited && WEXITSTATUS(status) == 0)
        return 0;
    if (is_stopped(c))
        return dt_err_set(err, DT_E_CANCELED, "%s: the upload command was ended", c->key);
    const char *line = last_line(r, said, sizeof said);
    return dt_err_set(err, DT_E_RUNTIME, "%s: the upload command %s %d%s%s", c->key,
                      exited ? "ended with exit status" : "was killed by signal",
                      exited ? WEXITSTATUS(status) : WTERMSIG(status), *line ? ": " : "", line);
}

int dt_upload_command_run(const struct dt_upload_command *c, struct dt_err *err)
{
    struct running r = {.output = -1};
    DT_AUTO_FREE char *path = realpath(c->file, NULL);
    if (!path)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot find %s", c->file);
    char **env = make_environment(c, path);
    int rc = is_whole(env) ? start(&r, c, env) : ENOMEM;
    free_environment(env);
    if (rc)
        dt_err_errno(err, DT_E_RUNTIME, rc, "%s: cannot start /bin/sh", c->key);
    else
        rc = judge(c, &r, await(c, &r), err);
    if (r.output >= 0)
        close(r.output);
    dt_buf_finish(&r.words);
    return rc ? -1 : 0;
}
