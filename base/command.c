/* SPDX-License-Identifier: Apache-2.0 */
#include "base/command.h"

#include "base/buf.h"
#include "base/child.h"
#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_EVERY 20 /* ms: at its end, and at STOP */
#define GRACE (2 * DT_SECOND)
#define WORDS_MAX 4096 /* that are kept of what it prints */
#define READS_MOST 256 /* of 1 KiB: more than a pipe holds */

struct running {
    struct dt_child child; /* its output -1: it has closed its two streams */
    struct dt_buf words;
};

/* 0, or an errno value. */
static int start(struct running *r, const struct dt_command *c)
{
    char *const argv[] = {(char[]){"sh"}, (char[]){"-c"}, (char *)(uintptr_t)c->text, NULL};
    char **env = dt_child_env(c->variables, c->variables_count);
    const struct dt_child_order o = {
        .path = "/bin/sh", .argv = argv, .env = env, .input = c->input};
    int rc = env ? dt_child_start(&r->child, &o) : ENOMEM;
    if (rc == 0) /* this end alone: the command may expect that a write waits */
        fcntl(r->child.output, F_SETFL, O_NONBLOCK);
    free(env);
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
    struct pollfd p = {.fd = r->child.output, .events = POLLIN}; /* of -1 poll() only waits */
    poll(&p, 1, patience_ms);
    if (r->child.output < 0)
        return false;
    ssize_t n = read(r->child.output, room, sizeof room);
    if (n > 0)
        keep_words(r, room, (size_t)n);
    if (n != 0)
        return n > 0;
    close(r->child.output);
    r->child.output = -1;
    return false;
}

static bool is_stopped(const struct dt_command *c)
{
    return c->stop && atomic_load_explicit(c->stop, memory_order_relaxed);
}

/* Its status, as of waitpid(). */
static int await(const struct dt_command *c, struct running *r)
{
    int status = 0;
    dt_ms told = 0;
    pid_t ended;
    while ((ended = waitpid(r->child.pid, &status, WNOHANG)) == 0) {
        dt_ms now = dt_clock_monotonic();
        if (!told && is_stopped(c)) {
            kill(-r->child.pid, SIGTERM);
            told = now;
        } else if (told && now - told > GRACE) {
            kill(-r->child.pid, SIGKILL);
        }
        read_words(r, LOOK_EVERY);
    }
    if (told)
        kill(-r->child.pid, SIGKILL); /* what it started may have taken no notice */
    /* What it left in the pipe. A process that it left behind may keep that open, and full. */
    for (int i = 0; i < READS_MOST && read_words(r, 0);)
        i++;
    return ended == r->child.pid ? status : W_EXITCODE(127, 0); /* somebody else took its status */
}

static const char *last_line(struct running *r, char *out, size_t size)
{
    char text[WORDS_MAX + 1];
    snprintf(text, sizeof text, "%s", dt_buf_cstr(&r->words));
    const char *line = dt_str_trim(text), *newline = strrchr(line, '\n');
    return dt_str_printable(dt_bytes_of(newline ? newline + 1 : line), out, size);
}

static int judge(const struct dt_command *c, struct running *r, int status, struct dt_err *err)
{
    char said[256];
    bool exited = WIFEXITED(status);
    if (exited && WEXITSTATUS(status) == 0)
        return 0;
    if (is_stopped(c))
        return dt_err_set(err, DT_E_CANCELED, "%s was ended", c->name);
    const char *line = last_line(r, said, sizeof said);
    return dt_err_set(err, DT_E_RUNTIME, "%s %s %d%s%s", c->name,
                      exited ? "ended with exit status" : "was killed by signal",
                      exited ? WEXITSTATUS(status) : WTERMSIG(status), *line ? ": " : "", line);
}

int dt_command_run(const struct dt_command *c, struct dt_err *err)
{
    struct running r = {.child = {.output = -1}};
    int rc = start(&r, c);
    if (rc)
        dt_err_errno(err, DT_E_RUNTIME, rc, "cannot start /bin/sh");
    else
        rc = judge(c, &r, await(c, &r), err);
    if (r.child.output >= 0)
        close(r.child.output);
    dt_buf_finish(&r.words);
    return rc ? -1 : 0;
}
