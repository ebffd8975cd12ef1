/* SPDX-License-Identifier: Apache-2.0 */
/* static_node RANK NODES NPROC ROLE HOST PORT RUN_ID: one node of a static job, without workers,
 * for tests beside real agents. Prints a JSON line for each thing it hears; a line "join" on
 * standard input begins the next attempt, "done" or its end brings it to the barrier and away. */
#include "agent/backend/backend.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct driver {
    uv_loop_t loop;
    struct dt_plan plan;
    struct dt_backend *backend;
    uv_pipe_t input;
    char room[64];
    int status;
};

static void say(struct dt_buf *line)
{
    puts(dt_buf_cstr(line));
    fflush(stdout);
    dt_buf_finish(line);
}

static void say_why(const char *what, const struct dt_err *why)
{
    struct dt_buf line = {0};
    const char *text = why ? why->text : "";
    dt_buf_printf(&line, "{\"%s\": ", what);
    dt_json_quote(&line, text, strlen(text));
    dt_buf_put_str(&line, "}");
    say(&line);
}

static void on_closed(void *arg)
{
    struct driver *d = arg;
    uv_close((uv_handle_t *)&d->input, NULL);
}

static void leave(struct driver *d)
{
    uv_read_stop((uv_stream_t *)&d->input);
    d->backend->ops->close(d->backend, false, on_closed, d);
}

static void on_world(void *arg, const struct dt_world *w)
{
    struct dt_buf line = {0};
    (void)arg;
    dt_buf_printf(&line, "{\"round\": %d, \"group\": [%d, %d], \"ranks\": [%d, %d], ", w->round,
                  w->group_rank, w->group_size, w->first_rank, w->size);
    dt_buf_printf(&line, "\"role\": [%d, %d], \"master\": \"%s:%d\"}", w->first_role_rank,
                  w->role_size, w->master_addr, w->master_port);
    say(&line);
}

static void on_barrier_over(void *arg, const struct dt_err *why)
{
    say_why("over", why);
    leave(arg);
}

static void on_failed(void *arg, const struct dt_err *err)
{
    struct driver *d = arg;
    say_why("failed", err);
    d->status = dt_err_exit_status(err);
    leave(d);
}

static const struct dt_backend_events events = {on_world, on_barrier_over, on_failed};

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *buf)
{
    struct driver *d = dt_container_of((uv_pipe_t *)h, struct driver, input);
    (void)hint;
    *buf = uv_buf_init(d->room, sizeof d->room);
}

/* The test writes one short line a time, and waits for what comes of it. */
static void on_input(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct driver *d = dt_container_of((uv_pipe_t *)s, struct driver, input);
    if (n == 0)
        return;
    if (n > 0 && buf->base[0] == 'j') {
        d->backend->ops->join(d->backend);
    } else {
        uv_read_stop(s);
        d->backend->ops->barrier(d->backend);
    }
}

int main(int argc, char **argv)
{
    struct driver d = {0};
    struct dt_err err;
    if (argc != 8)
        return 2;
    d.plan = (struct dt_plan){.node_rank = atoi(argv[1]),
                              .min_nodes = atoi(argv[2]),
                              .max_nodes = atoi(argv[2]),
                              .nproc = atoi(argv[3]),
                              .role = argv[4],
                              .endpoint_host = argv[5],
                              .endpoint_port = atoi(argv[6]),
                              .run_id = argv[7],
                              .join_timeout = 100 * DT_SECOND,
                              .read_timeout = 60 * DT_SECOND,
                              .barrier_timeout = 100 * DT_SECOND};
    dt_log_open("static_node", DT_LOG_INFO, DT_LOG_TEXT);
    uv_loop_init(&d.loop);
    d.backend = dt_backend_static_open(&d.loop, &d.plan, &events, &d, &err);
    if (!d.backend) {
        say_why("failed", &err);
        return dt_err_exit_status(&err);
    }
    uv_pipe_init(&d.loop, &d.input, 0);
    uv_pipe_open(&d.input, 0);
    uv_read_start((uv_stream_t *)&d.input, on_alloc, on_input);
    d.backend->ops->join(d.backend);
    uv_run(&d.loop, UV_RUN_DEFAULT);
    uv_loop_close(&d.loop);
    return d.status;
}
