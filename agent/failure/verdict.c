/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/verdict.h"

#include "agent/failure/inquiry.h"
#include "base/addr.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/signame.h"
#include "base/str.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* A worker that writes its files itself, and cannot, dies of that and has nowhere to say so. */
static void look_at_disk(struct dt_failure *f, const struct dt_scene *scene,
                         const struct dt_buf *last)
{
    if (!dt_inquiry_disk_is_full(scene, f->local_rank))
        return;
    snprintf(f->remark, sizeof f->remark,
             last->len ? "what it printed last could not be written: %s is full"
                       : "its output could not be written: %s is full",
             scene->logs->base);
}

static int add_failure(struct dt_verdict *v, const struct dt_scene *scene, int local_rank,
                       const struct dt_worker *w, struct dt_err *err)
{
    struct dt_buf last = {0};
    char memory[DT_OOM_TEXT];
    char *error_file = dt_log_dir_file(scene->logs, local_rank, "error.json");
    struct dt_failure *f = &v->failures[v->count];
    *f = (struct dt_failure){
        .local_rank = local_rank,
        .rank = scene->world->first_rank + local_rank,
        .pid = w->pid,
        .exit_code = exit_code(w->status),
        .died_ns = w->exited_ns,
    };
    snprintf(f->remark, sizeof f->remark, "%s", *w->why ? w->why : dt_oom_text(&w->oom, memory));
    dt_output_tail(scene->output, local_rank, DT_STDERR, &last);
    if (!*f->remark)
        look_at_disk(f, scene, &last);
    int rc = dt_failure_complete(f, error_file, (struct dt_bytes){last.at, last.len},
                                 seconds_of(w->exited_ns), err);
    v->count++; /* from here on dt_verdict_finish() frees what there is of it */
    dt_inquiry_cause(scene, local_rank, w,
                     f->has_file ? dt_bytes_of(f->message) : (struct dt_bytes){last.at, last.len},
                     f->has_file, &f->cause);
    dt_buf_finish(&last);
    free(error_file);
    return rc;
}

/* Whether a worker that ended after we had asked it to had failed of itself before, and says so: it
 * closed its connections, another one failed of that at once, and it came to its own end later.
 * What a program raises on being asked to end is not strong. */
static bool confesses(const struct dt_worker *w, const struct dt_cause *c)
{
    return WIFEXITED(w->status) && WEXITSTATUS(w->status) != 0 && c->strength == DT_CAUSE_STRONG;
}

bool dt_verdict_find_confession(const struct dt_scene *scene, const struct dt_group *group,
                                struct dt_culprit *out)
{
    bool found = false;
    for (int i = 0; i < scene->plan->nproc; i++) {
        const struct dt_worker *w = dt_group_worker(group, i);
        struct dt_cause cause = {0};
        struct dt_buf said = {0};
        if (w->end != DT_WORKER_TERMINATED || (found && w->exited_ns >= out->died_ns))
            continue;
        bool of_file = dt_inquiry_said(scene, i, &said);
        dt_inquiry_cause(scene, i, w, (struct dt_bytes){said.at, said.len}, of_file, &cause);
        dt_buf_finish(&said);
        if (!confesses(w, &cause))
            continue;
        *out = (struct dt_culprit){i, scene->world->first_rank + i, w->exited_ns, cause};
        found = true;
    }
    return found;
}

/* The report is of those who failed first; the culprit may be one who was slower to end. */
static void find_culprit(struct dt_verdict *v, const struct dt_scene *scene,
                         const struct dt_group *group)
{
    const struct dt_failure *f = &v->failures[v->root];
    v->culprit = (struct dt_culprit){f->local_rank, f->rank, f->died_ns, f->cause};
    if (f->cause.strength == DT_CAUSE_WEAK)
        dt_verdict_find_confession(scene, group, &v->culprit);
}

int dt_verdict_make(struct dt_verdict *v, const struct dt_scene *scene,
                    const struct dt_group *group, struct dt_err *err)
{
    *v = (struct dt_verdict){.failures = calloc((size_t)scene->plan->nproc, sizeof *v->failures)};
    if (!v->failures)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the report");
    for (int i = 0; i < scene->plan->nproc; i++) {
        const struct dt_worker *w = dt_group_worker(group, i);
        if (w->end == DT_WORKER_FAILED && add_failure(v, scene, i, w, err) < 0)
            return -1;
    }
    v->root = dt_failure_root(v->failures, v->count);
    find_culprit(v, scene, group);
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
    /* What was remarked says it as well as the cause would, which has nothing else where the worker
     * told nothing. */
    const char *more = *f->remark ? f->remark : f->cause.told ? f->cause.text : "";
    snprintf(out, size, "worker %d (rank %d, pid %d) %s after %s%s%s", f->local_rank, f->rank,
             f->pid, how, age, *more ? ", " : "", more);
    return out;
}

void dt_verdict_say_steps(const struct dt_verdict *v, const struct dt_pages *pages)
{
    char words[DT_PAGES_WORDS];
    for (size_t i = 0; i < v->count; i++) {
        const struct dt_failure *f = &v->failures[i];
        if (*dt_pages_describe(pages, f->local_rank, words))
            dt_log_about(DT_LOG_WARN, &(struct dt_log_about){.round = -1, .rank = f->rank},
                         "worker %d (rank %d): %s", f->local_rank, f->rank, words);
    }
}

void dt_verdict_say_cores(const struct dt_verdict *v, const struct dt_group *group)
{
    char where[PATH_MAX + 256];
    for (size_t i = 0; i < v->count; i++) {
        const struct dt_failure *f = &v->failures[i];
        if (*dt_inquiry_core(dt_group_worker(group, f->local_rank), where, sizeof where))
            dt_log_about(DT_LOG_WARN, &(struct dt_log_about){.round = -1, .rank = f->rank},
                         "worker %d (rank %d, pid %d) dumped core: %s", f->local_rank, f->rank,
                         f->pid, where);
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

int dt_verdict_deliver(const struct dt_verdict *v, const struct dt_plan *plan, const char *cause)
{
    char host[256], sentence[DT_CAUSE_SENTENCE];
    struct dt_err err;
    struct dt_buf text = {0};
    const struct dt_failure *root = &v->failures[v->root];
    dt_addr_own_name(host, sizeof host);
    if (dt_log_take_open_line())
        dt_buf_put_u8(&text, '\n');
    dt_failure_report(v->failures, v->count, plan->title, host, &text);
    if (!cause)
        cause = dt_cause_sentence(&v->culprit.cause, v->culprit.rank, sentence);
    dt_buf_printf(&text, "root cause: %s\n", cause);
    print(&text);
    dt_buf_finish(&text);
    if (plan->error_file && dt_failure_propagate(root, plan->error_file, &err) < 0)
        dt_warn("%s", err.text);
    if (plan->exit_policy == DT_EXIT_TORCHRUN)
        return 1;
    return root->exit_code < 0 ? 128 - root->exit_code : root->exit_code;
}
