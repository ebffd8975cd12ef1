/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/events.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/json_write.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dt_events {
    const struct dt_plan *plan;
    char *host;
    int fd; /* -1: events are dropped */
    bool fd_is_ours;
    bool warned;
    bool has_world;
    struct dt_world world;
    int restarts;
    dt_ms since;
};

/* What tells a worker's event from an agent's; local_rank -1: it is the agent's. */
struct subject {
    int local_rank;
    pid_t pid;
};

static const struct subject agent = {.local_rank = -1};

static int open_sink(struct dt_events *e, const char *name, struct dt_err *err)
{
    static const char file[] = "file:";
    if (strcmp(name, "null") == 0)
        return 0;
    if (strcmp(name, "console") == 0) {
        e->fd = STDERR_FILENO;
        return 0;
    }
    if (strncmp(name, file, sizeof file - 1) != 0)
        return dt_err_set(err, DT_E_USAGE,
                          "there is no event handler \"%.100s\"; give null, console or file:PATH",
                          name);
    const char *path = name + sizeof file - 1;
    /* Not to wait for the reader of a named pipe, neither here nor when it is slow. */
    e->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0666);
    e->fd_is_ours = e->fd >= 0;
    if (e->fd >= 0)
        return 0;
    return dt_err_errno(err, DT_E_RUNTIME, errno,
                        "--event-log-handler: cannot append to the file \"%.200s\"", path);
}

struct dt_events *dt_events_open(const struct dt_plan *plan, const char *host, struct dt_err *err)
{
    struct dt_events *e = calloc(1, sizeof *e);
    char *copy = strdup(host);
    if (!e || !copy) {
        free(e);
        free(copy);
        dt_err_set(err, DT_E_MEMORY, "no memory for the event log");
        return NULL;
    }
    *e = (struct dt_events){.plan = plan, .host = copy, .fd = -1, .since = dt_clock_monotonic()};
    if (open_sink(e, plan->event_log, err) == 0)
        return e;
    dt_events_close(e);
    return NULL;
}

void dt_events_close(struct dt_events *e)
{
    if (!e)
        return;
    if (e->fd_is_ours)
        close(e->fd);
    free(e->host);
    free(e);
}

void dt_events_set_world(struct dt_events *e, const struct dt_world *world, int restarts)
{
    e->has_world = world != NULL;
    if (world)
        e->world = *world;
    e->restarts = restarts;
}

static void put_count(struct dt_json_writer *w, const char *name, bool known, int64_t value)
{
    if (known)
        dt_json_put_int(w, name, value);
    else
        dt_json_put_null(w, name);
}

static void put_list_of_one(struct dt_json_writer *w, const char *name, int value)
{
    dt_json_put_array(w, name);
    dt_json_put_int(w, NULL, value);
    dt_json_put_end(w);
}

/* The "metadata" inside the metadata: JSON in a string, with lists of one element, as it came about
 * in torchrun. */
static void put_inner(struct dt_json_writer *out, const struct dt_events *e,
                      const struct subject *of)
{
    struct dt_buf inner = {0};
    struct dt_json_writer w = {.out = &inner, .style = DT_JSON_SPACED};
    dt_json_put_object(&w, NULL);
    put_count(&w, "group_world_size", e->has_world, e->world.group_size);
    dt_json_put_text(&w, "entry_point", e->plan->title);
    if (of->local_rank >= 0) {
        put_list_of_one(&w, "local_rank", of->local_rank);
        put_list_of_one(&w, "role_rank", e->world.first_role_rank + of->local_rank);
        put_list_of_one(&w, "role_world_size", e->world.role_size);
    }
    dt_json_put_end(&w);
    dt_json_put_text(out, "metadata", dt_buf_cstr(&inner));
    out->out->bad = out->out->bad || inner.bad;
    dt_buf_finish(&inner);
}

static void put_metadata(struct dt_json_writer *w, const struct dt_events *e,
                         const struct subject *of, const char *state, dt_ms duration,
                         const char *raw_error)
{
    bool worker = of->local_rank >= 0;
    char id[16];
    snprintf(id, sizeof id, "%d", (int)of->pid);
    dt_json_put_text(w, "run_id", e->plan->run_id);
    put_count(w, "global_rank", worker && e->has_world, e->world.first_rank + of->local_rank);
    put_count(w, "group_rank", e->has_world, e->world.group_rank);
    dt_json_put_text(w, "worker_id", worker ? id : NULL);
    dt_json_put_text(w, "role", e->plan->role);
    dt_json_put_text(w, "hostname", e->host);
    dt_json_put_text(w, "state", state);
    dt_json_put_int(w, "total_run_time", (dt_clock_monotonic() - e->since) / DT_SECOND);
    dt_json_put_text(w, "rdzv_backend", e->plan->backend == DT_BACKEND_STATIC ? "static" : "c10d");
    dt_json_put_text(w, "raw_error", raw_error);
    put_inner(w, e, of);
    dt_json_put_int(w, "agent_restarts", e->restarts);
    put_count(w, "duration_ms", duration >= 0, duration);
}

static void put_event(struct dt_buf *out, const struct dt_events *e, const struct subject *of,
                      const char *state, dt_ms duration, const char *raw_error)
{
    char name[80];
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED};
    snprintf(name, sizeof name, "torchelastic.worker.status.%s", state);
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "name", name);
    dt_json_put_text(&w, "source", of->local_rank >= 0 ? "WORKER" : "AGENT");
    dt_json_put_int(&w, "timestamp", dt_clock_wall_us() / 1000);
    dt_json_put_object(&w, "metadata");
    put_metadata(&w, e, of, state, duration, raw_error);
    dt_json_put_end(&w);
    dt_json_put_end(&w);
    dt_buf_put_u8(out, '\n');
}

static void record(struct dt_events *e, const struct subject *of, const char *state, dt_ms duration,
                   const char *raw_error)
{
    struct dt_buf line = {0};
    ssize_t n;
    if (!e || e->fd < 0)
        return;
    put_event(&line, e, of, state, duration, raw_error);
    do
        n = line.bad ? -1 : write(e->fd, line.at, line.len);
    while (n < 0 && !line.bad && errno == EINTR);
    if ((n < 0 || (size_t)n < line.len) && !e->warned) {
        e->warned = true;
        dt_warn("events are lost: cannot write to %s: %s", e->plan->event_log,
                line.bad ? "no memory"
                : n < 0  ? strerror(errno)
                         : "no room for a whole line");
    }
    dt_buf_finish(&line);
}

void dt_events_agent(struct dt_events *e, const char *state, dt_ms duration, const char *raw_error)
{
    record(e, &agent, state, duration, raw_error);
}

void dt_events_worker(struct dt_events *e, const char *state, int local_rank, pid_t pid,
                      const char *raw_error)
{
    struct subject worker = {.local_rank = local_rank, .pid = pid};
    record(e, &worker, state, -1, raw_error);
}

/* What is known of a worker's failure, as an event has it; NULL when nothing is. */
static const char *raw_error(const struct dt_verdict *v, int local_rank, struct dt_buf *out)
{
    for (size_t i = 0; v && i < v->count; i++)
        if (v->failures[i].local_rank == local_rank)
            return dt_failure_json(&v->failures[i], out, NULL) == 0 ? dt_buf_cstr(out) : NULL;
    return NULL;
}

void dt_events_workers(struct dt_events *e, const struct dt_group *group,
                       const struct dt_verdict *verdict)
{
    static const char *const state[] = {
        [DT_WORKER_SUCCEEDED] = "SUCCEEDED",
        [DT_WORKER_FAILED] = "FAILED",
        [DT_WORKER_TERMINATED] = "TERMINATED",
    };
    for (int i = 0; i < e->plan->nproc; i++) {
        const struct dt_worker *w = dt_group_worker(group, i);
        struct dt_buf why = {0};
        if (w->end >= DT_WORKER_SUCCEEDED)
            dt_events_worker(e, state[w->end], i, w->pid, raw_error(verdict, i, &why));
        dt_buf_finish(&why);
    }
}
