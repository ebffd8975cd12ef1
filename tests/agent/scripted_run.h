/* SPDX-License-Identifier: Apache-2.0 */
/* A whole agent in a process of its own, whose rendezvous follows a script, and what is left of it
 * to look at. */
#ifndef DT_TESTS_AGENT_SCRIPTED_RUN_H
#define DT_TESTS_AGENT_SCRIPTED_RUN_H

#include "agent/agent.h"
#include "base/fs.h"
#include "base/log.h"
#include "tests/agent/scripted_backend.h"
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ON(c, a, ...)                                                                              \
    {                                                                                              \
        .call = c, .answer = a, __VA_ARGS__                                                        \
    }

struct run {
    char dir[64];
    char progress[96], logs[96];
    struct dt_plan plan;
    struct dt_plan_streams streams[2];
    int console; /* its standard output, instead of the file that OUT is read from; 0: none */
    int status;
    struct dt_buf out, err, calls;
};

static inline int open_in(const struct run *r, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    return fd;
}

static inline void read_in(const struct run *r, const char *name, struct dt_buf *out)
{
    char path[128];
    struct dt_err err;
    snprintf(path, sizeof path, "%s/%s", r->dir, name);
    CHECK_OK(dt_fs_read(path, 1 << 20, out, &err), err);
}

static inline void run_make(struct run *r)
{
    *r = (struct run){0};
    tmp_make(r->dir);
    snprintf(r->logs, sizeof r->logs, "%s/logs", r->dir);
    snprintf(r->progress, sizeof r->progress, "%s/step", r->dir);
    r->plan = (struct dt_plan){
        .title = (char *)"sh",
        .nproc = 2,
        .role = (char *)"default",
        .backend = DT_BACKEND_C10D,
        .min_nodes = 1,
        .max_nodes = 2,
        .run_id = (char *)"job",
        .endpoint_host = (char *)"node0",
        .endpoint_port = 29400,
        .max_restarts = 3,
        .stop_signals = UINT64_C(1) << SIGTERM,
        .shutdown_timeout = 1000 * DT_SECOND,
        .exit_policy = DT_EXIT_ROOT_CAUSE,
        .log_dir = r->logs,
        .streams = r->streams,
        .event_log = (char *)"null",
    };
}

static inline void run_argv(struct run *r, char **argv, const struct scripted_line *script)
{
    int out = open_in(r, "out"), err = open_in(r, "err"), calls = open_in(r, "calls"), status;
    r->plan.argv = argv;
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(r->console ? r->console : out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        dt_log_open("dtrun", DT_LOG_WARN, DT_LOG_TEXT);
        scripted_backend_play(script, calls);
        exit(dt_agent_run(&r->plan));
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    r->status = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    close(out);
    close(err);
    close(calls);
    read_in(r, "out", &r->out);
    read_in(r, "err", &r->err);
    read_in(r, "calls", &r->calls);
}

/* WORKER: what a shell does as each of two workers, ranks 2 and 3. */
static inline void run_agent(struct run *r, const char *worker, const struct scripted_line *script)
{
    char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)worker, NULL};
    run_argv(r, argv, script);
}

static inline void run_finish(struct run *r)
{
    dt_buf_finish(&r->out);
    dt_buf_finish(&r->err);
    dt_buf_finish(&r->calls);
    tmp_remove(r->dir);
}

static inline bool says(struct run *r, const char *words)
{
    return strstr(dt_buf_cstr(&r->err), words) != NULL;
}

#define CHECK_CALLS(r, text) CHECK_STR(dt_buf_cstr(&(r)->calls), text)
#define CHECK_SAYS(r, words)                                                                       \
    do {                                                                                           \
        if (!says(r, words))                                                                       \
            CHECK_STR(dt_buf_cstr(&(r)->err), words);                                              \
    } while (0)

#endif
