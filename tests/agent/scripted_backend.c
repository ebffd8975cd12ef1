/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/agent/scripted_backend.h"

#include "agent/agent.h"
#include "base/list.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct scripted {
    struct dt_backend base;
    const struct dt_plan *plan;
    const struct dt_backend_events *events;
    void *arg;
    const struct scripted_line *at, *due;
    int notes;
    uv_timer_t soon;
    void (*on_closed)(void *arg);
    void *closed_arg;
};

static struct {
    const struct scripted_line *script;
    int notes;
} given;

void scripted_backend_play(const struct scripted_line *script, int notes)
{
    given.script = script;
    given.notes = notes;
}

static void note(struct scripted *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void note(struct scripted *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vdprintf(s->notes, fmt, ap);
    va_end(ap);
}

/* -- answers ---------------------------------------------------------------------------------- */

static void give_world(struct scripted *s, const struct scripted_line *l)
{
    struct dt_world world = {
        .round = l->round,
        .group_rank = 1,
        .group_size = 2,
        .first_rank = l->size ? 0 : 2,
        .size = l->size ? l->size : 4,
        .first_role_rank = l->size ? 0 : 2,
        .role_size = l->size ? l->size : 4,
        .master_addr = "node0",
        .master_port = 29500,
        .store_is_served = true,
        .prev_first_rank = l->prev ? l->prev : -1,
        .prev_size = l->prev ? 6 : 0,
        .restarts = l->restarts,
    };
    snprintf(world.news, sizeof world.news, "%s", l->words ? l->words : "");
    s->events->on_world(s->arg, &world);
}

static void on_soon_closed(uv_handle_t *h)
{
    struct scripted *s = dt_container_of((uv_timer_t *)h, struct scripted, soon);
    s->on_closed(s->closed_arg);
    free(s);
}

static void on_lingered(uv_timer_t *t)
{
    uv_close((uv_handle_t *)t, on_soon_closed);
}

static void on_soon(uv_timer_t *t)
{
    struct scripted *s = dt_container_of(t, struct scripted, soon);
    const struct scripted_line *l = s->due;
    const struct dt_message tail = {
        .type = DT_MSG_TAIL,
        .tail = {.id = 1, .ranks = "", .lines = 10, .follow = true, .room = DT_TAIL_ROOM_MOST}};
    struct dt_err err;
    switch (l->answer) {
    case A_NOTHING:
        break;
    case A_WORLD:
        give_world(s, l);
        break;
    case A_STOP:
    case A_KILL:
        s->events->on_stop(s->arg, l->answer == A_KILL ? DT_STOP_KILL : DT_STOP_ALONE, l->words);
        break;
    case A_CLOSED:
        s->events->on_closed(s->arg, l->kind, l->words);
        break;
    case A_OVER:
        s->events->on_barrier_over(s->arg, NULL);
        break;
    case A_GIVE_UP:
        dt_err_set(&err, DT_E_DISCONNECTED, "%s", l->words);
        s->events->on_failed(s->arg, &err);
        break;
    case A_SIGNAL:
        raise(SIGTERM);
        break;
    case A_RESIZE:
        raise(SIGWINCH);
        break;
    case A_LOST:
        raise(DT_AGENT_JOB_LOST);
        break;
    case A_TAIL:
        s->events->on_tail(s->arg, &tail);
        break;
    }
    if (l->call == S_CLOSE)
        uv_timer_start(t, on_lingered, 1, 0); /* the signal comes before it */
}

/* -- what the agent says ---------------------------------------------------------------------- */

static void take(struct scripted *s, enum scripted_call call)
{
    if (s->at->call != call) {
        note(s, "that is not in the script\n");
        _exit(99);
    }
    s->due = s->at++;
    /* A close is answered in a later turn, when all that ends with it is gone. */
    uv_timer_start(&s->soon, on_soon, call == S_CLOSE, 0);
}

static struct scripted *of(struct dt_backend *b)
{
    return dt_container_of(b, struct scripted, base);
}

static void scripted_join(struct dt_backend *b)
{
    note(of(b), "join\n");
    take(of(b), S_JOIN);
}

static void scripted_barrier(struct dt_backend *b)
{
    note(of(b), "barrier\n");
    take(of(b), S_BARRIER);
}

static void scripted_failed(struct dt_backend *b, const struct dt_result *r)
{
    note(of(b), "failed, %s, rank %d/%d, %d/%d, \"%s\", %s\n",
         r->evidence == DT_EVIDENCE_CRASH     ? "crash"
         : r->evidence == DT_EVIDENCE_PROGRAM ? "program"
                                              : "?",
         r->rank, r->local_rank, r->exit_code, r->signal, r->signature, r->text);
    take(of(b), S_FAILED);
}

static void scripted_leave(struct dt_backend *b, const char *why)
{
    note(of(b), "leave, %s\n", why);
    take(of(b), S_LEAVE);
}

static bool is_told(enum scripted_call call, const struct dt_beat *facts, int nproc)
{
    switch (call) {
    case S_ALL_RUN:
        return facts->running == nproc;
    case S_AT_STEP:
        return facts->step == 7;
    case S_FAST:
        return facts->step == 7 && facts->tokens_per_s > 0;
    case S_OVERDUE:
        return facts->step == 7 && facts->tokens_per_s == 0 && facts->step_age_ms > 2000;
    case S_END:
    case S_JOIN:
    case S_BARRIER:
    case S_FAILED:
    case S_LEAVE:
    case S_CLOSE:
        break;
    }
    return false;
}

static void scripted_tell(struct dt_backend *b, const struct dt_beat *facts)
{
    struct scripted *s = of(b);
    if (is_told(s->at->call, facts, s->plan->nproc))
        take(s, s->at->call);
}

/* No script asks about hangs. */
static bool scripted_still(struct dt_backend *b, dt_ms still, bool sure)
{
    (void)b, (void)still, (void)sure;
    return false;
}

/* How often depends on time. */
static void scripted_tailed(struct dt_backend *b, int64_t id, bool over, const char *page)
{
    (void)b, (void)id, (void)over, (void)page;
}

static void scripted_close(struct dt_backend *b, bool hurry, void (*on_closed)(void *arg),
                           void *arg)
{
    struct scripted *s = of(b);
    note(s, "close%s\n", hurry ? " in a hurry" : "");
    s->on_closed = on_closed;
    s->closed_arg = arg;
    if (s->at->call == S_CLOSE)
        take(s, S_CLOSE);
    else
        on_lingered(&s->soon);
}

struct dt_backend *dt_backend_elastic_open(uv_loop_t *loop, const struct dt_plan *plan,
                                           const struct dt_backend_events *events, void *arg,
                                           struct dt_err *err)
{
    static const struct dt_backend_ops ops = {
        .join = scripted_join,
        .barrier = scripted_barrier,
        .failed = scripted_failed,
        .leave = scripted_leave,
        .tell = scripted_tell,
        .still = scripted_still,
        .tailed = scripted_tailed,
        .close = scripted_close,
    };
    struct scripted *s = calloc(1, sizeof *s);
    if (!s) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a script");
        return NULL;
    }
    *s = (struct scripted){.base = {&ops},
                           .plan = plan,
                           .events = events,
                           .arg = arg,
                           .at = given.script,
                           .notes = given.notes};
    uv_timer_init(loop, &s->soon);
    return &s->base;
}
