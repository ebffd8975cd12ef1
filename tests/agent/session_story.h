/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's side of an elastic job, told as stories: what the server, the owner and the clock do,
 * and after each the whole of what the session made of it. */
#ifndef DT_TESTS_AGENT_SESSION_STORY_H
#define DT_TESTS_AGENT_SESSION_STORY_H

#include "agent/backend/elastic/session/session.h"
#include "tests/agent/notes.h"
#include "tests/lib/check.h"

#define BEAT 1000
#define BEATS 3
#define GRACE 500

#define ROWS(a) (sizeof(a) / sizeof *(a))

struct agent {
    struct dt_session session;
    uint64_t lives; /* incarnations so far: 1, 2, ... */
    dt_ms now;
    dt_ms age;       /* of the last result it sent */
    char said[2000]; /* calls out since it was last read, one after the other */
};

__attribute__((format(printf, 2, 3))) static inline void note(struct agent *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    notes_add(a->said, sizeof a->said, fmt, ap);
    va_end(ap);
}

static inline const char *claim_text(const struct dt_claim *c, char *out, size_t size)
{
    if (c->seat < 0)
        snprintf(out, size, "with nothing");
    else
        snprintf(out, size, "%s seat %d/%d ranks %d/%d after %d restarts%s%s",
                 c->running ? "running"
                 : c->done  ? "done"
                            : "last in",
                 c->seat, c->seats, c->first_rank, c->size, c->restarts, c->over ? ", over: " : "",
                 c->over ? c->over : "");
    return out;
}

/* -- what it calls ---------------------------------------------------------------------------- */

static inline void on_send(void *arg, const struct dt_message *m)
{
    struct agent *a = arg;
    char text[200] = "";
    CHECK_STR(m->run, "train");
    CHECK_EQ(m->incarnation, a->session.incarnation);
    if (m->type == DT_MSG_JOIN)
        note(a, "JOIN %d as %d port %d %s", m->round, (int)m->incarnation, m->join.node.port,
             claim_text(&m->join.claim, text, sizeof text));
    else if (m->type == DT_MSG_BEAT)
        note(a, "BEAT %d #%d step %d%s%s", m->round, (int)m->beat.seq, (int)m->beat.step,
             m->beat.telemetry.number ? " loss " : "",
             m->beat.telemetry.number ? m->beat.telemetry.loss : "");
    else if (m->type == DT_MSG_RESULT && m->result.succeeded)
        note(a, "RESULT %d well", m->round);
    else if (m->type == DT_MSG_RESULT)
        note(a, "RESULT %d %s (%s)", m->round, m->result.text, m->result.signature);
    else if (m->type == DT_MSG_LEAVE)
        note(a, "LEAVE %d%s %s", m->round, m->leave.stopping ? " stopping" : "", m->why);
    else if (m->type == DT_MSG_STILL)
        note(a, "STILL %d for %d%s", m->round, (int)m->still.still, m->still.sure ? " sure" : "");
    else if (m->type == DT_MSG_LOOKED)
        note(a, "LOOKED %d #%d", m->round, (int)m->looked.id);
    else if (m->type == DT_MSG_TAILED)
        note(a, "TAILED %d #%d%s", m->round, (int)m->tailed.id, m->tailed.over ? " over" : "");
    else
        note(a, "message %d", m->type);
    if (m->type == DT_MSG_RESULT)
        a->age = m->result.age;
}

static inline void on_world(void *arg, int round, const struct dt_world_message *w)
{
    note(arg, "world %d seat %d/%d", round, w->seat, w->seats);
}

static inline void on_stop(void *arg, enum dt_stop_how how, const char *why)
{
    static const char *const words[] = {"stop together", "stop", "kill"};
    note(arg, "%s: %s", words[how], why);
}

static inline void on_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    note(arg, "closed %d: %s", kind, why);
}

static inline void on_note(void *arg, const char *text)
{
    note(arg, "note: %s", text);
}

static inline void on_look(void *arg, int64_t id, bool native)
{
    note(arg, "look #%d%s", (int)id, native ? " native" : "");
}

static inline void on_keep(void *arg)
{
    note(arg, "keep");
}

static inline void on_finding(void *arg, const struct dt_finding_message *f)
{
    note(arg, "finding: %s", f->sentence);
}

static inline void on_straggler(void *arg, const char *sentence, bool holds_up)
{
    note(arg, "straggler%s: %s", holds_up ? "" : " no more", sentence);
}

static inline void on_tail(void *arg, const struct dt_message *m)
{
    note(arg, "%s #%d", dt_message_name(m->type),
         (int)(m->type == DT_MSG_TAIL ? m->tail.id : m->more.id));
}

static inline void on_disconnect(void *arg, const char *why)
{
    note(arg, "disconnect: %s", why);
}

static inline void on_refused(void *arg, const char *why)
{
    note(arg, "refused: %s", why);
}

static inline uint64_t on_random(void *arg)
{
    struct agent *a = arg;
    return ++a->lives;
}

static const struct dt_session_ops ops = {
    .send = on_send,
    .world = on_world,
    .stop = on_stop,
    .closed = on_closed,
    .note = on_note,
    .look = on_look,
    .keep = on_keep,
    .finding = on_finding,
    .straggler = on_straggler,
    .tail = on_tail,
    .disconnect = on_disconnect,
    .refused = on_refused,
    .random = on_random,
};

/* -- what is done to it ----------------------------------------------------------------------- */

static inline struct agent *agent_new(bool stop_when_away)
{
    struct agent *a = calloc(1, sizeof *a);
    struct dt_session_config config = {
        .run = "train",
        .join = {.spec = {.beat = BEAT,
                          .beats = BEATS,
                          .reconnect_grace = GRACE,
                          .stop_bound = 30 * BEAT},
                 .node = {.name = "node1", .port = 4000}},
        .stop_when_away = stop_when_away,
        .ops = &ops,
        .arg = a,
    };
    a->now = 100 * DT_SECOND;
    dt_session_init(&a->session, &config);
    return a;
}

/* What was called since the last time; the text lives in the agent until the next call. */
static inline const char *said(struct agent *a)
{
    static char text[sizeof a->said];
    memcpy(text, a->said, sizeof text);
    a->said[0] = '\0';
    return text;
}

static inline void hear(struct agent *a, struct dt_message m)
{
    m.run = "train";
    m.incarnation = m.incarnation ? m.incarnation : a->session.incarnation;
    m.why = m.why ? m.why : "";
    dt_session_frame(&a->session, &m, a->now);
}

#define HEAR(a, ...) hear(a, (struct dt_message){__VA_ARGS__})

static inline void hear_world(struct agent *a, int round)
{
    HEAR(a, .type = DT_MSG_WORLD, .round = round,
         .world = {.seat = 1, .seats = 4, .first_rank = 8, .size = 32, .restarts = 2});
}

static inline void up(struct agent *a)
{
    dt_session_connected(&a->session, true, a->now);
}

static inline void down(struct agent *a)
{
    dt_session_disconnected(&a->session, a->now);
}

static inline void join(struct agent *a)
{
    dt_session_join(&a->session, a->now);
}

static inline void fail(struct agent *a)
{
    char text[] = "rank 9 died", signature[] = "segv";
    struct dt_result result = {.rank = 9, .text = text, .signature = signature};
    dt_session_failed(&a->session, &result, a->now);
    memset(text, 'x', sizeof text - 1); /* the session keeps its own */
    memset(signature, 'x', sizeof signature - 1);
}

/* Ticks when the session wants it, up to WAIT from now. The server echoes beats or does not. */
static inline void pass(struct agent *a, dt_ms wait, bool echo)
{
    dt_ms end = a->now + wait;
    while (dt_session_next(&a->session) <= end) {
        a->now = dt_session_next(&a->session);
        dt_session_tick(&a->session, a->now);
        if (echo)
            HEAR(a, .type = DT_MSG_BEAT, .beat = {.seq = a->session.facts.seq});
    }
    a->now = end;
}

static inline struct agent *agent_joining(bool stop_when_away)
{
    struct agent *a = agent_new(stop_when_away);
    up(a);
    join(a);
    said(a);
    return a;
}

/* In round 5. */
static inline struct agent *agent_running(bool stop_when_away)
{
    struct agent *a = agent_joining(stop_when_away);
    hear_world(a, 5);
    said(a);
    return a;
}

static inline struct agent *agent_done(void)
{
    struct agent *a = agent_running(false);
    dt_session_succeeded(&a->session, a->now);
    said(a);
    return a;
}

#endif
