/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/verdict.h"

#include "agent/failure/core.h"
#include "agent/output/way.h"
#include "base/addr.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/signame.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define FULL_BYTES (16ul << 10) /* fewer are of no use: file systems keep some to themselves */

static int exit_code(int status)
{
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* When it died, on the wall clock. */
static int64_t seconds_of(int64_t monotonic_ns)
{
    int64_t ago_us = (dt_clock_monotonic_ns() - monotonic_ns) / 1000;
    return (dt_clock_wall_us() - ago_us) / 1000000;
}

/* Whoever writes there gets ENOSPC, or does so with the next few lines. Root may use what others
 * may not. */
static bool is_full(const char *folder)
{
    struct statvfs s;
    if (statvfs(folder, &s) < 0)
        return false;
    return (geteuid() == 0 ? s.f_bfree : s.f_bavail) * s.f_frsize < FULL_BYTES;
}

/* A worker that writes its files itself, and cannot, dies of that and has nowhere to say so. */
static void look_at_disk(struct dt_failure *f, const struct dt_plan *plan,
                         const struct dt_log_dir *logs, const struct dt_buf *last)
{
    bool writes = dt_way_of(plan, logs->attempt, f->local_rank, DT_STDOUT) == DT_WAY_FILE ||
                  dt_way_of(plan, logs->attempt, f->local_rank, DT_STDERR) == DT_WAY_FILE;
    if (!writes || !is_full(logs->base))
        return;
    snprintf(f->cause, sizeof f->cause,
             last->len ? "what it printed last could not be written: %s is full"
                       : "its output could not be written: %s is full",
             logs->base);
}

static int add_failure(struct dt_verdict *v, const struct dt_plan *plan,
                       const struct dt_world *world, int local_rank, const struct dt_worker *w,
                       const struct dt_log_dir *logs, const struct dt_output *output,
                       struct dt_err *err)
{
    struct dt_buf last = {0};
    char memory[DT_OOM_TEXT];
    char *error_file = dt_log_dir_file(logs, local_rank, "error.json");
    struct dt_failure *f = &v->failures[v->count];
    *f = (struct dt_failure){
        .local_rank = local_rank,
        .rank = world->first_rank + local_rank,
        .pid = w->pid,
        .exit_code = exit_code(w->status),
        .died_ns = w->exited_ns,
    };
    snprintf(f->cause, sizeof f->cause, "%s", *w->why ? w->why : dt_oom_text(&w->oom, memory));
    dt_output_tail(output, local_rank, DT_STDERR, &last);
    if (!*f->cause)
        look_at_disk(f, plan, logs, &last);
    int rc = dt_failure_complete(f, error_file, (struct dt_bytes){last.at, last.len},
                                 seconds_of(w->exited_ns), err);
    v->count++; /* from here on dt_verdict_finish() frees what there is of it */
    dt_buf_finish(&last);
    free(error_file);
    return rc;
}

int dt_verdict_make(struct dt_verdict *v, const struct dt_plan *plan, const struct dt_world *world,
                    const struct dt_group *group, const struct dt_log_dir *logs,
                    const struct dt_output *output, struct dt_err *err)
{
    *v = (struct dt_verdict){.failures = calloc((size_t)plan->nproc, sizeof *v->failures)};
    if (!v->failures)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the report");
    for (int i = 0; i < plan->nproc; i++) {
        const struct dt_worker *w = dt_group_worker(group, i);
        if (w->end == DT_WORKER_FAILED && add_failure(v, plan, world, i, w, logs, output, err) < 0)
            return -1;
    }
    v->root = dt_failure_root(v->failures, v->count);
    return 0;
}

void dt_verdict_finish(struct dt_verdict *v)
{
    for (size_t i = 0; i < v->count; i++)
        dt_failure_finish(&v->failures[i]);
    free(v->failures);
    *v = (struct dt_verdict){0};
}

const char *dt_verdict_sentence(const struct dt_verdict *v, const struct dt_group *group, char *out,
                                size_t size)
{
    char how[64], name[DT_SIGNAME_TEXT], age[32];
    const struct dt_failure *f = &v->failures[v->root];
    const struct dt_worker *w = dt_group_worker(group, f->local_rank);
    if (f->exit_code < 0)
        snprintf(how, sizeof how, "was killed by %s", dt_signame_text(-f->exit_code, name));
    else
        snprintf(how, sizeof how, "exited with %d", f->exit_code);
    dt_str_from_duration((w->exited_ns - w->started_ns) / 1000000, age, sizeof age);
    snprintf(out, size, "worker %d (rank %d, pid %d) %s after %s%s%s", f->local_rank, f->rank,
             f->pid, how, age, *f->cause ? ", " : "", f->cause);
    return out;
}

void dt_verdict_say_steps(const struct dt_verdict *v, const struct dt_pages *pages)
{
    char words[DT_PAGES_WORDS];
    for (size_t i = 0; i < v->count; i++) {
        const struct dt_failure *f = &v->failures[i];
        if (*dt_pages_describe(pages, f->local_rank, words))
            dt_warn("worker %d (rank %d): %s", f->local_rank, f->rank, words);
    }
}

/* A setting of the kernel without its newline; "" where it cannot be read. */
static const char *read_setting(const char *path, char *out, size_t size)
{
    struct dt_buf text = {0};
    dt_fs_read(path, size, &text, NULL);
    snprintf(out, size, "%s", dt_buf_cstr(&text));
    dt_buf_finish(&text);
    return dt_str_trim(out);
}

void dt_verdict_say_cores(const struct dt_verdict *v, const struct dt_group *group)
{
    char pattern[256], one[16], folder[PATH_MAX], where[PATH_MAX + 256];
    for (size_t i = 0; i < v->count; i++) {
        const struct dt_failure *f = &v->failures[i];
        int status = dt_group_worker(group, f->local_rank)->status;
        if (!WIFSIGNALED(status) || !WCOREDUMP(status))
            continue;
        struct dt_core core = {
            .pattern = read_setting("/proc/sys/kernel/core_pattern", pattern, sizeof pattern),
            .uses_pid = read_setting("/proc/sys/kernel/core_uses_pid", one, sizeof one)[0] == '1',
            .pid = f->pid,
            .signum = WTERMSIG(status),
            .folder = getcwd(folder, sizeof folder) ? folder : ".",
        };
        dt_warn("worker %d (rank %d, pid %d) dumped core: %s", f->local_rank, f->rank, f->pid,
                dt_core_where(&core, where, sizeof where));
    }
}

static void print(const struct dt_buf *text)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    for (size_t done = 0; done < text->len;) {
        ssize_t n = write(STDERR_FILENO, text->at + done, text->len - done);
        if (n > 0)
            done += (size_t)n;
        else if (errno != EINTR && (errno != EAGAIN || poll(&room, 1, -1) < 0))
            return; /* nobody can be told any more */
    }
}

int dt_verdict_deliver(const struct dt_verdict *v, const struct dt_plan *plan)
{
    char host[256];
    struct dt_err err;
    struct dt_buf text = {0};
    const struct dt_failure *root = &v->failures[v->root];
    dt_addr_own_name(host, sizeof host);
    if (dt_log_take_open_line())
        dt_buf_put_u8(&text, '\n');
    dt_failure_report(v->failures, v->count, plan->title, host, &text);
    print(&text);
    dt_buf_finish(&text);
    if (plan->error_file && dt_failure_propagate(root, plan->error_file, &err) < 0)
        dt_warn("%s", err.text);
    if (plan->exit_policy == DT_EXIT_TORCHRUN)
        return 1;
    return root->exit_code < 0 ? 128 - root->exit_code : root->exit_code;
}
