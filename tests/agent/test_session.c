/* SPDX-License-Identifier: Apache-2.0 */
/* An agent's side of an elastic job, told as stories: what the server, the owner and the clock do,
 * and after each the whole of what the session made of it. */
#include "agent/backend/elastic/session/session.h"
#include "tests/lib/check.h"

#include <limits.h>

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

__attribute__((format(printf, 2, 3))) static void note(struct agent *a, const char *fmt, ...)
{
    size_t len = strlen(a->said);
    va_list ap;
    if (len)
        len += (size_t)snprintf(a->said + len, sizeof a->said - len, "; ");
    va_start(ap, fmt);
    vsnprintf(a->said + len, sizeof a->said - len, fmt, ap);
    va_end(ap);
}

static const char *claim_text(const struct dt_claim *c, char *out, size_t size)
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

static void on_send(void *arg, const struct dt_message *m)
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

static void on_world(void *arg, int round, const struct dt_world_message *w)
{
    note(arg, "world %d seat %d/%d", round, w->seat, w->seats);
}

static void on_stop(void *arg, enum dt_stop_how how, const char *why)
{
    static const char *const words[] = {"stop together", "stop", "kill"};
    note(arg, "%s: %s", words[how], why);
}

static void on_closed(void *arg, enum dt_close_kind kind, const char *why)
{
    note(arg, "closed %d: %s", kind, why);
}

static void on_note(void *arg, const char *text)
{
    note(arg, "note: %s", text);
}

static void on_look(void *arg, int64_t id, bool native)
{
    note(arg, "look #%d%s", (int)id, native ? " native" : "");
}

static void on_keep(void *arg)
{
    note(arg, "keep");
}

static void on_finding(void *arg, const struct dt_finding_message *f)
{
    note(arg, "finding: %s", f->sentence);
}

static void on_straggler(void *arg, const char *sentence, bool holds_up)
{
    note(arg, "straggler%s: %s", holds_up ? "" : " no more", sentence);
}

static void on_tail(void *arg, const struct dt_message *m)
{
    note(arg, "%s #%d", dt_message_name(m->type),
         (int)(m->type == DT_MSG_TAIL ? m->tail.id : m->more.id));
}

static void on_disconnect(void *arg, const char *why)
{
    note(arg, "disconnect: %s", why);
}

static void on_refused(void *arg, const char *why)
{
    note(arg, "refused: %s", why);
}

static uint64_t on_random(void *arg)
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

static struct agent *agent_new(bool stop_when_away)
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
static const char *said(struct agent *a)
{
    static char text[sizeof a->said];
    memcpy(text, a->said, sizeof text);
    a->said[0] = '\0';
    return text;
}

static void hear(struct agent *a, struct dt_message m)
{
    m.run = "train";
    m.incarnation = m.incarnation ? m.incarnation : a->session.incarnation;
    m.why = m.why ? m.why : "";
    dt_session_frame(&a->session, &m, a->now);
}

#define HEAR(a, ...) hear(a, (struct dt_message){__VA_ARGS__})

static void hear_world(struct agent *a, int round)
{
    HEAR(a, .type = DT_MSG_WORLD, .round = round,
         .world = {.seat = 1, .seats = 4, .first_rank = 8, .size = 32, .restarts = 2});
}

static void up(struct agent *a)
{
    dt_session_connected(&a->session, true, a->now);
}

static void down(struct agent *a)
{
    dt_session_disconnected(&a->session, a->now);
}

static void join(struct agent *a)
{
    dt_session_join(&a->session, a->now);
}

static void fail(struct agent *a)
{
    char text[] = "rank 9 died", signature[] = "segv";
    struct dt_result result = {.rank = 9, .text = text, .signature = signature};
    dt_session_failed(&a->session, &result, a->now);
    memset(text, 'x', sizeof text - 1); /* the session keeps its own */
    memset(signature, 'x', sizeof signature - 1);
}

/* Ticks when the session wants it, up to WAIT from now. The server echoes beats or does not. */
static void pass(struct agent *a, dt_ms wait, bool echo)
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

static struct agent *agent_joining(bool stop_when_away)
{
    struct agent *a = agent_new(stop_when_away);
    up(a);
    join(a);
    said(a);
    return a;
}

/* In round 5. */
static struct agent *agent_running(bool stop_when_away)
{
    struct agent *a = agent_joining(stop_when_away);
    hear_world(a, 5);
    said(a);
    return a;
}

static struct agent *agent_done(void)
{
    struct agent *a = agent_running(false);
    dt_session_succeeded(&a->session, a->now);
    said(a);
    return a;
}

/* -- rounds ----------------------------------------------------------------------------------- */

TEST(a_round_is_joined_run_stopped_and_joined_again)
{
    struct agent *a = agent_new(false);
    up(a);
    CHECK_STR(said(a), "");
    join(a);
    CHECK_STR(said(a), "JOIN -1 as 1 port 4000 with nothing");
    hear_world(a, 0);
    CHECK_STR(said(a), "world 0 seat 1/4");
    HEAR(a, .type = DT_MSG_STOP, .round = 0, .why = "node7 came");
    CHECK_STR(said(a), "stop: node7 came");
    CHECK_STR(dt_session_phase_name(a->session.phase), "stopping");
    dt_session_set_port(&a->session, 4001);
    join(a);
    CHECK_STR(said(a), "JOIN 0 as 1 port 4001 last in seat 1/4 ranks 8/32 after 2 restarts, "
                       "over: node7 came");
    hear_world(a, 1);
    CHECK_STR(said(a), "world 1 seat 1/4");
    free(a);
}

TEST(a_join_before_there_is_a_connection_is_said_on_the_first)
{
    struct agent *a = agent_new(false);
    join(a);
    down(a); /* so did the first attempt end */
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.away_since, DT_FOREVER);
    up(a);
    CHECK_STR(said(a), "JOIN -1 as 1 port 4000 with nothing");
    free(a);
}

TEST(a_failure_is_answered_by_stop_and_the_next_world)
{
    struct agent *a = agent_running(false);
    fail(a);
    CHECK_STR(said(a), "BEAT 5 #1 step -1; RESULT 5 rank 9 died (segv)");
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "rank 9 died");
    CHECK_STR(said(a), ""); /* they are being stopped */
    join(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts, "
                       "over: rank 9 died");
    hear_world(a, 6);
    CHECK_STR(said(a), "world 6 seat 1/4");
    free(a);
}

TEST(a_failure_after_the_round_was_stopped_is_nobodys_business)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "node7 is gone");
    said(a);
    fail(a);
    dt_session_succeeded(&a->session, a->now);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_STOPPING);
    free(a);
}

static void find_out(struct agent *a, const char *text)
{
    struct dt_result found = {.rank = 8, .text = text, .signature = "found", .age = 40};
    dt_session_found(&a->session, &found, a->now);
}

TEST(what_is_found_out_once_the_workers_are_gone_is_said_before_the_join)
{
    struct agent *a = agent_running(false);
    find_out(a, "too early");
    CHECK_STR(said(a), "");
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "node7: rank 0 died");
    said(a);
    find_out(a, "rank 8 raised");
    CHECK_STR(said(a), "RESULT 5 rank 8 raised (found)");
    /* Nobody was told of a failure here, so it is nobody's to be told again. */
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts, "
                       "over: node7: rank 0 died");
    join(a);
    said(a);
    find_out(a, "too late");
    CHECK_STR(said(a), "");
    free(a);
}

TEST(what_is_found_out_takes_the_place_of_what_was_said_in_haste)
{
    struct agent *a = agent_running(false);
    fail(a);
    said(a);
    down(a);
    find_out(a, "rank 8 raised");
    CHECK_STR(said(a), "");
    a->now += 100;
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
                       "RESULT 5 rank 8 raised (found)");
    CHECK_EQ(a->age, 140); /* a failure told later is so much older */
    free(a);
}

TEST(after_success_the_round_may_still_have_to_be_repeated)
{
    struct agent *a = agent_running(false);
    dt_session_succeeded(&a->session, a->now);
    CHECK_STR(said(a), "RESULT 5 well");
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "rank 3 died");
    CHECK_STR(said(a), "stop: rank 3 died");
    join(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts, "
                       "over: rank 3 died");
    free(a);
}

/* What comes twice, late, or for another, and is not to be acted upon. */
TEST(frames_that_are_not_for_this_moment_have_no_effect)
{
    enum { JOINING, RUNNING, STOPPING, AGAIN };
    static const struct {
        const char *what;
        int phase;
        struct dt_message frame;
    } rows[] = {
        {"a world for who runs in it", RUNNING, {.type = DT_MSG_WORLD, .round = 5}},
        {"a world before the one that runs", RUNNING, {.type = DT_MSG_WORLD, .round = 4}},
        {"a world for who stops in it", STOPPING, {.type = DT_MSG_WORLD, .round = 5}},
        {"a newer world before workers are gone", STOPPING, {.type = DT_MSG_WORLD, .round = 6}},
        {"the world that is over, for who joins again", AGAIN, {.type = DT_MSG_WORLD, .round = 5}},
        {"a stop of an older round", RUNNING, {.type = DT_MSG_STOP, .round = 4}},
        {"a stop of a newer round", RUNNING, {.type = DT_MSG_STOP, .round = 6}},
        {"a second stop", STOPPING, {.type = DT_MSG_STOP, .round = 5}},
        {"a stop before a world", JOINING, {.type = DT_MSG_STOP, .round = 5}},
        {"a stop for nobody", JOINING, {.type = DT_MSG_STOP, .round = -1}},
        {"a world of another life", JOINING, {.type = DT_MSG_WORLD, .incarnation = 99}},
        {"a stop of another life", RUNNING, {.type = DT_MSG_STOP, .round = 5, .incarnation = 99}},
        {"a close of another life", RUNNING, {.type = DT_MSG_CLOSE, .incarnation = 99}},
        {"stale, said to another life", RUNNING, {.type = DT_MSG_STALE, .incarnation = 99}},
        {"a place among the spares", RUNNING, {.type = DT_MSG_PARK}},
        {"what only agents say", RUNNING, {.type = DT_MSG_JOIN}},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct agent *a = rows[i].phase == JOINING ? agent_joining(false) : agent_running(false);
        if (rows[i].phase >= STOPPING)
            HEAR(a, .type = DT_MSG_STOP, .round = 5);
        if (rows[i].phase == AGAIN)
            join(a);
        said(a);
        struct dt_session before = a->session;
        hear(a, rows[i].frame);
        CHECK_STR(said(a), "");
        CHECK_EQ(a->session.phase, before.phase);
        CHECK_EQ(a->session.round, before.round);
        CHECK_EQ(a->session.incarnation, before.incarnation);
        free(a);
    }
}

TEST(frames_of_another_run_have_no_effect)
{
    struct agent *a = agent_running(false);
    struct dt_message m = {
        .type = DT_MSG_CLOSE, .run = "other", .incarnation = a->session.incarnation, .why = ""};
    dt_session_frame(&a->session, &m, a->now);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_RUNNING);
    free(a);
}

/* -- stale ------------------------------------------------------------------------------------ */

TEST(who_is_stale_kills_and_comes_back_as_somebody_new)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_STALE, .round = 7, .why = "round 5 is over");
    CHECK_STR(said(a), "kill: round 5 is over");
    join(a);
    CHECK_STR(said(a), "JOIN 5 as 2 port 4000 with nothing");
    hear_world(a, 0); /* of a server that has forgotten all */
    CHECK_STR(said(a), "world 0 seat 1/4");
    free(a);
}

TEST(while_the_workers_of_a_stale_life_die_nothing_is_said)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_STALE, .why = "over");
    HEAR(a, .type = DT_MSG_CLOSE, .incarnation = 1); /* to the old life */
    said(a);
    down(a);
    up(a);
    pass(a, 10 * BEAT, false);
    CHECK_STR(said(a), "");
    join(a);
    CHECK_STR(said(a), "JOIN 5 as 2 port 4000 with nothing");
    pass(a, BEAT, false);
    CHECK_STR(said(a), "BEAT -1 #1 step -1");
    free(a);
}

TEST(a_failure_of_a_stale_life_is_not_said_in_the_next)
{
    struct agent *a = agent_running(false);
    fail(a);
    HEAR(a, .type = DT_MSG_STALE, .why = "over");
    said(a);
    join(a);
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 2 port 4000 with nothing; JOIN 5 as 2 port 4000 with nothing");
    free(a);
}

TEST(who_is_stale_while_it_waits_joins_as_new_at_once)
{
    struct agent *a = agent_joining(false);
    HEAR(a, .type = DT_MSG_STALE, .why = "who are you?");
    CHECK_STR(said(a), "JOIN -1 as 2 port 4000 with nothing");
    free(a);
}

TEST(who_is_done_and_stale_is_to_repeat)
{
    struct agent *a = agent_done();
    HEAR(a, .type = DT_MSG_STALE, .why = "round 5 is over");
    CHECK_STR(said(a), "kill: round 5 is over");
    CHECK_EQ(a->session.phase, DT_SESSION_STOPPING);
    free(a);
}

/* -- reconnecting ----------------------------------------------------------------------------- */

TEST(who_comes_back_says_what_it_has)
{
    struct agent *a = agent_running(false);
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts");
    HEAR(a, .type = DT_MSG_BEAT);
    dt_session_succeeded(&a->session, a->now);
    said(a);
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 done seat 1/4 ranks 8/32 after 2 restarts");
    free(a);
}

TEST(success_while_nobody_was_there_is_said_with_the_join)
{
    struct agent *a = agent_running(false);
    down(a);
    dt_session_succeeded(&a->session, a->now);
    CHECK_STR(said(a), "");
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 done seat 1/4 ranks 8/32 after 2 restarts");
    free(a);
}

/* What follows a failure, so that it is not said on yet another connection. */
TEST(a_failure_is_said_on_each_connection_until_a_world_follows_it)
{
    static const struct {
        const char *what;
        struct dt_message frame;
        const char *then; /* on the next connection */
    } rows[] = {
        {"nothing",
         {.type = DT_MSG_BEAT},
         "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
         "RESULT 5 rank 9 died (segv); "
         "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts"},
        {"a stop of an older round",
         {.type = DT_MSG_STOP, .round = 4},
         "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
         "RESULT 5 rank 9 died (segv); "
         "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts"},
        {"stop",
         {.type = DT_MSG_STOP, .round = 5, .why = "rank 9 died"},
         /* who said it may have forgotten it */
         "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts, over: rank 9 died; "
         "RESULT 5 rank 9 died (segv); "
         "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts, over: rank 9 died"},
        {"park",
         {.type = DT_MSG_PARK, .round = 6},
         "JOIN 5 as 1 port 4000 last in seat 1/4 ranks 8/32 after 2 restarts"},
        {"world",
         {.type = DT_MSG_WORLD, .round = 6, .world = {.seats = 1, .size = 1}},
         "JOIN 6 as 1 port 4000 running seat 0/1 ranks 0/1 after 0 restarts"},
        {"close", {.type = DT_MSG_CLOSE}, ""},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct agent *a = agent_running(false);
        fail(a);
        down(a);
        said(a);
        up(a);
        CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
                           "RESULT 5 rank 9 died (segv)");
        join(a);
        hear(a, rows[i].frame);
        down(a);
        said(a);
        up(a);
        CHECK_STR(said(a), rows[i].then);
        free(a);
    }
}

/* -- the end ---------------------------------------------------------------------------------- */

TEST(a_close_ends_it_in_every_phase)
{
    static const char *const phases[] = {"joining", "running", "stopping", "done"};
    for (size_t i = 0; i < ROWS(phases); i++) {
        CHECK_ROW("%s", phases[i]);
        struct agent *a = i == 0   ? agent_joining(false)
                          : i == 3 ? agent_done()
                                   : agent_running(false);
        if (i == 2)
            fail(a);
        said(a);
        CHECK_STR(dt_session_phase_name(a->session.phase), phases[i]);
        HEAR(a, .type = DT_MSG_CLOSE, .close = {.kind = DT_CLOSE_FAILED},
             .why = "no restart is left");
        CHECK_STR(said(a), "closed 1: no restart is left");
        HEAR(a, .type = DT_MSG_CLOSE, .close = {.kind = DT_CLOSE_FAILED}, .why = "again");
        join(a);
        down(a);
        up(a);
        pass(a, 10 * BEAT, false);
        CHECK_STR(said(a), "");
        CHECK_EQ(dt_session_next(&a->session), DT_FOREVER);
        free(a);
    }
}

TEST(a_refusal_ends_who_has_no_world_and_is_one_more_loss_of_the_server_to_who_has)
{
    static const struct {
        const char *phase, *joins, *said;
    } rows[] = {
        {"joining", NULL, "closed 4: no room"},
        {"stopping", NULL, "closed 4: no room"},
        {"running", "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts",
         "refused: no room"},
        {"done", "JOIN 5 as 1 port 4000 done seat 1/4 ranks 8/32 after 2 restarts",
         "refused: no room"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].phase);
        struct agent *a = i == 0   ? agent_joining(false)
                          : i == 3 ? agent_done()
                                   : agent_running(false);
        if (i == 1)
            fail(a);
        said(a);
        CHECK_STR(dt_session_phase_name(a->session.phase), rows[i].phase);
        HEAR(a, .type = DT_MSG_CLOSE, .close = {.kind = DT_CLOSE_REFUSED}, .why = "no room");
        CHECK_STR(said(a), rows[i].said);
        if (rows[i].joins) {
            up(a);
            CHECK_STR(said(a), rows[i].joins);
        }
        free(a);
    }
}

TEST(a_world_without_room_for_the_node_is_none)
{
    static const struct dt_world_message rows[] = {
        {.seat = 4, .seats = 4, .size = 8, .role_size = 8},
        {.seats = 4, .first_rank = INT_MAX, .size = 8, .role_size = 8},
        {.seats = 4, .first_rank = 7, .size = 8, .role_size = 8},
        {.seats = 4, .first_rank = INT_MAX, .size = INT_MAX, .role_size = 8},
        {.seats = 4, .size = 1, .role_size = 1},
        {.seats = 4, .size = 8, .first_role_rank = INT_MAX, .role_size = 8},
        {.seats = 4, .size = 8, .role_size = 9},
        {.seats = 4, .size = 8, .role_size = 8, .prev_rank = INT_MAX, .prev_size = 8},
        {.seats = 4, .size = 8, .role_size = 8, .prev_rank = 7, .prev_size = 8},
        {.seats = 4, .first_rank = 6, .size = 8, .first_role_rank = 6, .role_size = 8}, /* good */
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        bool good = i == ROWS(rows) - 1;
        CHECK_ROW("%zu", i);
        struct agent *a = agent_new(false);
        a->session.config.join.node.workers = 2;
        up(a);
        join(a);
        said(a);
        HEAR(a, .type = DT_MSG_WORLD, .round = 5, .world = rows[i]);
        if (good)
            CHECK_STR(said(a), "world 5 seat 0/4");
        else
            CHECK(strstr(said(a), "refused: its world has no room for this node: 2 workers"));
        CHECK_EQ(a->session.phase, good ? DT_SESSION_RUNNING : DT_SESSION_JOINING);
        free(a);
    }
}

TEST(who_leaves_says_so_and_once_more_when_its_workers_are_gone)
{
    struct agent *a = agent_running(false);
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_STR(said(a), "LEAVE 5 stopping SIGTERM");
    CHECK_STR(dt_session_phase_name(a->session.phase), "leaving");
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .stop = {.together = true});
    CHECK_STR(said(a), ""); /* they are being stopped */
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #1 step -1");
    dt_session_end(&a->session, a->now);
    CHECK_STR(said(a), "LEAVE 5 its workers are gone");
    join(a);
    pass(a, 10 * BEAT, false);
    CHECK_STR(said(a), "");
    free(a);
}

TEST(who_leaves_without_workers_says_so_and_nothing_more)
{
    for (int i = 0; i < 2; i++) {
        CHECK_ROW("%s", i ? "done" : "joining");
        struct agent *a = i ? agent_done() : agent_joining(false);
        said(a);
        dt_session_leave(&a->session, "SIGTERM", a->now);
        CHECK_STR(said(a), i ? "LEAVE 5 SIGTERM" : "LEAVE -1 SIGTERM");
        dt_session_end(&a->session, a->now);
        CHECK_STR(said(a), "");
        free(a);
    }
}

TEST(who_leaves_says_so_on_the_next_connection_too)
{
    struct agent *a = agent_running(false);
    down(a);
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_STR(said(a), "");
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
                       "LEAVE 5 stopping SIGTERM");
    down(a);
    said(a);
    dt_session_end(&a->session, a->now);
    up(a);
    CHECK_STR(said(a), "");
    free(a);
}

/* What all nodes save together counts for as long as all may, and a node is heard of. */
TEST(workers_that_are_stopped_with_the_others_save_while_they_are_not_cut_off)
{
    static const char cut[] = "stop: the rendezvous is not heard of, and the others may go on "
                              "without this node: its workers may not save any more";
    for (int i = 0; i < 8; i++) {
        CHECK_ROW("%s, %d", i & 1 ? "leaving" : "told to stop", i / 2);
        struct agent *a = agent_running(false);
        if (i & 1)
            dt_session_leave(&a->session, "SIGTERM", a->now);
        HEAR(a, .type = DT_MSG_STOP, .round = 5, .stop = {.together = true}, .why = "node7 leaves");
        pass(a, 5 * BEAT, true);
        char *text = strstr(said(a), "stop");
        CHECK(i & 1 ? !strstr(text ? text : "", "together") : text != NULL);
        switch (i / 2) {
        case 0: /* the connection is lost */
            down(a);
            CHECK_STR(said(a), cut);
            break;
        case 1: /* a server that hears nothing gives us up, whatever is heard of it */
            pass(a, BEAT, false);
            HEAR(a, .type = DT_MSG_NOTE, .why = "");
            pass(a, (BEATS - 1) * BEAT - 1, false);
            CHECK(strstr(said(a), cut) != NULL);
            break;
        case 2: /* one of the others is gone */
            HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "node7 went offline");
            CHECK_STR(said(a), "stop: node7 went offline");
            HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "node8 went offline");
            down(a);
            CHECK_STR(said(a), "");
            break;
        case 3: /* the time is over */
            HEAR(a, .type = DT_MSG_STALE, .round = 6, .why = "it took too long");
            CHECK_STR(said(a), "kill: it took too long");
            dt_session_end(&a->session, a->now);
            CHECK_STR(said(a), "");
            break;
        }
        free(a);
    }
}

/* -- for people ------------------------------------------------------------------------------- */

TEST(a_spare_is_told_so_and_waits_for_its_world)
{
    struct agent *a = agent_joining(false);
    HEAR(a, .type = DT_MSG_NOTE, .why = "waiting for 2 nodes");
    HEAR(a, .type = DT_MSG_PARK, .why = "spare 1 of 2");
    CHECK_STR(said(a), "note: waiting for 2 nodes; note: spare 1 of 2");
    CHECK(a->session.parked);
    hear_world(a, 3);
    CHECK_STR(said(a), "world 3 seat 1/4");
    CHECK(!a->session.parked);
    free(a);
}

/* -- the lease -------------------------------------------------------------------------------- */

/* How much longer no later round can have begun. */
static int lease(const struct agent *a)
{
    dt_ms until = dt_session_lease(&a->session);
    return until > a->now ? (int)(until - a->now) : 0;
}

/* A quarter of a beat is for clocks that differ, and for the rename behind the question. */
#define KEPT (BEATS * BEAT - BEAT / 4)

TEST(a_world_brings_a_lease_and_answered_beats_renew_it)
{
    struct agent *a = agent_joining(false);
    CHECK_EQ(lease(a), 0);
    hear_world(a, 5);
    CHECK_EQ(lease(a), KEPT);
    pass(a, BEAT + 10, true);
    CHECK_EQ(lease(a), KEPT - 10);
    pass(a, 2 * BEAT, false);
    CHECK_EQ(lease(a), KEPT - 10 - 2 * BEAT);
    pass(a, BEAT, false);
    CHECK_EQ(lease(a), 0);
    free(a);
}

TEST(what_ends_a_round_ends_its_lease)
{
    static const struct {
        const char *what;
        struct dt_message frame;
        int lease;
    } rows[] = {
        {"stop", {.type = DT_MSG_STOP, .round = 5}, 0},
        {"stop together", {.type = DT_MSG_STOP, .round = 5, .stop = {.together = true}}, KEPT},
        {"stale", {.type = DT_MSG_STALE}, 0},
        {"close", {.type = DT_MSG_CLOSE}, 0},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].what);
        struct agent *a = agent_running(false);
        hear(a, rows[i].frame);
        CHECK_EQ(lease(a), rows[i].lease);
        free(a);
    }
    struct agent *a = agent_running(false);
    fail(a);
    CHECK_EQ(lease(a), 0);
    free(a);
}

/* For the end of the first connection the server may have given the node up. */
TEST(a_lease_ends_with_its_connection_and_the_next_one_has_to_be_answered_on)
{
    struct agent *a = agent_running(false);
    pass(a, BEAT, true);
    down(a);
    CHECK_EQ(lease(a), 0);
    a->now += 10;
    up(a);
    CHECK_EQ(lease(a), 0);
    pass(a, BEAT, true);
    CHECK_EQ(lease(a), KEPT);
    free(a);
}

/* The server may end the round for another node's sake in the moment that it has answered, and
 * waits no longer than the stop bound for who does not hear of it. */
TEST(a_lease_is_no_longer_than_the_others_would_wait)
{
    struct agent *a = agent_new(false);
    a->session.config.join.spec.stop_bound = BEAT;
    up(a);
    join(a);
    hear_world(a, 5);
    CHECK_EQ(lease(a), BEAT - BEAT / 4);
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .stop = {.together = true});
    a->now += BEAT / 2;
    CHECK_EQ(lease(a), BEAT / 4);
    free(a);
}

TEST(who_leaves_saves_with_the_others_as_long_as_they_wait)
{
    struct agent *a = agent_running(false);
    a->now += 100;
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_EQ(lease(a), KEPT - 100);
    free(a);
}

/* The connection may be dead, and then the server waits for nobody who leaves. */
TEST(to_leave_makes_no_lease_longer)
{
    struct agent *a = agent_new(false);
    a->session.config.join.spec.stop_bound = 2 * BEAT;
    up(a);
    join(a);
    hear_world(a, 5);
    a->now += BEAT;
    CHECK_EQ(lease(a), BEAT - BEAT / 4);
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_EQ(lease(a), BEAT - BEAT / 4);
    free(a);
    /* The others wait from when all were told. */
    a = agent_running(false);
    a->session.config.join.spec.stop_bound = 2 * BEAT;
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .stop = {.together = true});
    pass(a, BEAT, true);
    dt_session_leave(&a->session, "SIGTERM", a->now);
    CHECK_EQ(lease(a), BEAT - BEAT / 4);
    free(a);
}

/* -- beats and silence ------------------------------------------------------------------------ */

TEST(beats_carry_what_the_owner_last_told)
{
    struct agent *a = agent_running(false);
    struct dt_beat facts = {.seq = 77, .step = 120, .running = 8};
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #1 step -1");
    dt_session_tell(&a->session, &facts);
    pass(a, 2 * BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #2 step 120; BEAT 5 #3 step 120");
    free(a);
}

static void tell_loss(struct agent *a, const char *loss)
{
    dt_session_tell(&a->session, &(struct dt_beat){.step = 1, .telemetry = {.loss = loss}});
}

TEST(telemetry_is_said_once_after_each_change_and_on_each_connection)
{
    struct agent *a = agent_running(false);
    char loss[] = "2.5";
    tell_loss(a, loss);
    memset(loss, 'x', sizeof loss - 1); /* it keeps its own copy */
    pass(a, 2 * BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #1 step 1 loss 2.5; BEAT 5 #2 step 1");
    tell_loss(a, "2.5");
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #3 step 1");
    tell_loss(a, "2.4");
    tell_loss(a, "2.4");
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #4 step 1 loss 2.4");
    tell_loss(a, NULL);
    pass(a, 2 * BEAT, true);
    CHECK_STR(said(a), "BEAT 5 #5 step 1 loss ; BEAT 5 #6 step 1");
    tell_loss(a, "2.3");
    down(a);
    up(a);
    pass(a, 2 * BEAT, true);
    CHECK(strstr(said(a), "BEAT 5 #7 step 1 loss 2.3; BEAT 5 #8 step 1") != NULL);
    down(a);
    up(a);
    pass(a, BEAT, true);
    CHECK(strstr(said(a), "BEAT 5 #9 step 1 loss 2.3") != NULL);
    free(a);
}

TEST(a_loss_that_becomes_nan_waits_for_no_beat)
{
    struct agent *a = agent_running(false);
    pass(a, BEAT, true);
    said(a);
    tell_loss(a, "2.5");
    CHECK(dt_session_next(&a->session) > a->now);
    tell_loss(a, "nan");
    CHECK_EQ(dt_session_next(&a->session), a->now);
    dt_session_tick(&a->session, a->now);
    CHECK_STR(said(a), "BEAT 5 #2 step 1 loss nan");
    tell_loss(a, "inf"); /* once is enough */
    CHECK(dt_session_next(&a->session) > a->now);
    free(a);
}

TEST(the_loss_of_the_workers_before_is_not_told_of_the_next)
{
    struct agent *a = agent_running(false);
    tell_loss(a, "nan");
    fail(a);
    join(a);
    hear_world(a, 6);
    said(a);
    pass(a, BEAT, true);
    CHECK_STR(said(a), "BEAT 6 #2 step 1 loss ");
    free(a);
}

TEST(who_waits_or_is_done_beats_too)
{
    struct agent *waiting = agent_joining(false), *done = agent_done();
    pass(waiting, BEAT, true);
    pass(done, BEAT, true);
    CHECK_STR(said(waiting), "BEAT -1 #1 step -1");
    CHECK_STR(said(done), "BEAT 5 #1 step -1");
    free(waiting);
    free(done);
}

TEST(a_server_that_says_nothing_for_three_beats_is_given_up)
{
    struct agent *a = agent_running(false);
    pass(a, 2 * BEAT, true);
    said(a);
    pass(a, BEATS * BEAT - 1, false);
    CHECK_STR(said(a), "BEAT 5 #3 step -1; BEAT 5 #4 step -1");
    pass(a, 1, false);
    CHECK_STR(said(a), "disconnect: nothing was heard of the rendezvous for 3.0 s");
    pass(a, 10 * BEAT, false); /* once; and the workers run on */
    down(a);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_RUNNING);
    free(a);
}

TEST(any_frame_is_a_sign_of_life)
{
    struct agent *a = agent_running(false);
    for (int i = 0; i < 10; i++) {
        pass(a, BEATS * BEAT - 1, false);
        HEAR(a, .type = DT_MSG_NOTE, .incarnation = 99);
    }
    CHECK(!strstr(said(a), "disconnect"));
    free(a);
}

TEST(a_gap_of_ones_own_is_not_the_servers_silence)
{
    struct agent *a = agent_running(true);
    pass(a, BEAT, true);
    said(a);
    a->now += 60 * BEAT; /* this host was stopped */
    dt_session_tick(&a->session, a->now);
    CHECK_STR(said(a), "BEAT 5 #2 step -1");
    a->now += 60 * BEAT;
    down(a);
    pass(a, BEATS * BEAT, false);
    a->now += 60 * BEAT;
    dt_session_tick(&a->session, a->now);
    CHECK_STR(said(a), "");
    free(a);
}

/* -- without a server ------------------------------------------------------------------------- */

TEST(workers_run_on_without_a_server_as_long_as_they_may)
{
    struct agent *a = agent_running(false);
    down(a);
    pass(a, 3600 * DT_SECOND, false);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_RUNNING);
    free(a);
}

TEST(workers_that_must_not_run_alone_are_stopped_once_and_start_again_with_the_server)
{
    struct agent *a = agent_running(true);
    down(a);
    pass(a, BEATS * BEAT + GRACE - 1, false);
    CHECK_STR(said(a), "");
    pass(a, 1, false);
    CHECK_STR(said(a), "stop: nothing was heard of the rendezvous for 3.5 s, and workers are not "
                       "to run without it");
    pass(a, 20 * BEAT, false);
    join(a);
    pass(a, 20 * BEAT, false);
    CHECK_STR(said(a), "");
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 2 port 4000 with nothing");
    hear_world(a, 6);
    CHECK_STR(said(a), "world 6 seat 1/4");
    free(a);
}

TEST(a_server_that_comes_back_in_time_is_not_noticed_by_the_workers)
{
    struct agent *a = agent_running(true);
    down(a);
    pass(a, BEATS * BEAT, false);
    up(a);
    said(a);
    pass(a, 10 * BEAT, true);
    CHECK(!strstr(said(a), "stop"));
    CHECK_EQ(a->session.phase, DT_SESSION_RUNNING);
    free(a);
}

TEST(silence_on_a_connection_counts_as_being_away)
{
    struct agent *a = agent_running(true);
    pass(a, BEATS * BEAT, false);
    CHECK(strstr(said(a), "disconnect: "));
    pass(a, GRACE - 1, false);
    CHECK_STR(said(a), "");
    pass(a, 1, false);
    CHECK(strstr(said(a), "stop: "));
    free(a);
}

TEST(who_is_done_has_nothing_to_stop)
{
    struct agent *a = agent_running(true);
    dt_session_succeeded(&a->session, a->now);
    down(a);
    said(a);
    pass(a, 100 * BEAT, false);
    CHECK_STR(said(a), "");
    CHECK_EQ(a->session.phase, DT_SESSION_DONE);
    free(a);
}

/* -- workers that stand still ----------------------------------------------------------------- */

static bool say_still(struct agent *a, dt_ms still)
{
    return dt_session_still(&a->session, still, true, a->now);
}

static void answer_look(struct agent *a, int64_t id)
{
    dt_session_looked(&a->session, id, &(struct dt_stances){0}, a->now);
}

TEST(workers_that_stand_still_are_looked_at_and_judged_elsewhere)
{
    struct agent *a = agent_running(false);
    CHECK(say_still(a, 2000));
    CHECK_STR(said(a), "STILL 5 for 2000 sure");
    HEAR(a, .type = DT_MSG_LOOK, .round = 5, .look = {.id = 1});
    CHECK_STR(said(a), "look #1");
    answer_look(a, 1);
    CHECK_STR(said(a), "LOOKED 5 #1");
    HEAR(a, .type = DT_MSG_LOOK, .round = 5, .look = {.id = 2, .native = true});
    CHECK_STR(said(a), "look #2 native");
    HEAR(a, .type = DT_MSG_FINDING, .round = 5, .finding = {.sentence = "rank 2 sleeps"});
    CHECK_STR(said(a), "finding: rank 2 sleeps");
    free(a);
}

/* Most of all when they are over. */
TEST(what_workers_printed_is_told_whatever_became_of_them)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_TAIL, .round = 5, .tail = {.id = 7, .room = 1});
    CHECK_STR(said(a), "tail #7");
    fail(a);
    said(a);
    HEAR(a, .type = DT_MSG_MORE, .round = 5, .more = {.id = 7, .room = 1});
    CHECK_STR(said(a), "more #7");
    dt_session_tailed(&a->session, 7, true, NULL, a->now);
    CHECK_STR(said(a), "TAILED 5 #7 over");
    free(a);
}

TEST(a_wish_for_a_checkpoint_is_for_workers_of_this_round_that_run)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_KEEP, .round = 4);
    CHECK_STR(said(a), "");
    HEAR(a, .type = DT_MSG_KEEP, .round = 5);
    CHECK_STR(said(a), "keep");
    fail(a);
    said(a);
    HEAR(a, .type = DT_MSG_KEEP, .round = 5);
    CHECK_STR(said(a), "");
    free(a);
}

TEST(what_the_server_may_have_missed_of_it_is_said_again)
{
    struct agent *a = agent_running(false);
    say_still(a, 2000);
    down(a);
    CHECK(say_still(a, 2000)); /* it will be heard */
    said(a);
    a->now += 500;
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts; "
                       "STILL 5 for 2500 sure");
    say_still(a, 0);
    down(a);
    said(a);
    up(a);
    CHECK_STR(said(a), "JOIN 5 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts");
    free(a);
}

TEST(an_older_server_hears_nothing_of_it)
{
    struct agent *a = agent_new(false);
    dt_session_connected(&a->session, false, a->now);
    join(a);
    hear_world(a, 5);
    said(a);
    CHECK(!say_still(a, 2000));
    answer_look(a, 1);
    CHECK_STR(said(a), "");
    free(a);
}

TEST(only_workers_of_this_round_that_run_are_looked_at)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_LOOK, .round = 4, .look = {.id = 1});
    HEAR(a, .type = DT_MSG_FINDING, .round = 4, .finding = {.sentence = "late"});
    CHECK_STR(said(a), "");
    fail(a);
    said(a);
    HEAR(a, .type = DT_MSG_LOOK, .round = 5, .look = {.id = 2});
    HEAR(a, .type = DT_MSG_FINDING, .round = 5, .finding = {.sentence = "late"});
    say_still(a, 2000);
    answer_look(a, 1);
    CHECK_STR(said(a), "");
    free(a);
}

TEST(a_node_that_is_done_is_told_why_it_waits)
{
    struct agent *a = agent_done();
    HEAR(a, .type = DT_MSG_FINDING, .round = 5, .finding = {.sentence = "rank 2 sleeps"});
    CHECK_STR(said(a), "finding: rank 2 sleeps");
    free(a);
}

TEST(the_workers_of_the_next_round_move)
{
    struct agent *a = agent_running(false);
    say_still(a, 2000);
    HEAR(a, .type = DT_MSG_STOP, .round = 5, .why = "w");
    join(a);
    hear_world(a, 6);
    said(a);
    down(a);
    up(a);
    CHECK_STR(said(a), "JOIN 6 as 1 port 4000 running seat 1/4 ranks 8/32 after 2 restarts");
    free(a);
}

/* -- a worker that holds the others up --------------------------------------------------------- */

TEST(what_is_said_of_a_straggler_comes_with_answers_of_this_round)
{
    struct agent *a = agent_running(false);
    HEAR(a, .type = DT_MSG_BEAT, .round = 5, .beat = {.straggler = "rank 2", .holds_up = true});
    CHECK_STR(said(a), "straggler: rank 2");
    HEAR(a, .type = DT_MSG_BEAT, .round = 5, .beat = {.straggler = "rank 2"});
    CHECK_STR(said(a), "straggler no more: rank 2");
    HEAR(a, .type = DT_MSG_BEAT, .round = 5);
    HEAR(a, .type = DT_MSG_BEAT, .round = 4, .beat = {.straggler = "rank 2"});
    CHECK_STR(said(a), "");
    fail(a);
    said(a);
    HEAR(a, .type = DT_MSG_BEAT, .round = 5, .beat = {.straggler = "rank 2"});
    CHECK_STR(said(a), "");
    free(a);
}

TEST(own_times_of_the_workers_before_are_not_told_of_the_next)
{
    struct agent *a = agent_running(false);
    char reason[] = "it sleeps";
    dt_session_tell(&a->session,
                    &(struct dt_beat){.step = 1, .own = {.window = 7, .reason = reason}});
    memset(reason, 'x', sizeof reason - 1);
    CHECK_STR(a->session.facts.own.reason, "it sleeps"); /* it keeps its own copy */
    fail(a);
    join(a);
    hear_world(a, 6);
    CHECK_EQ(a->session.facts.own.window, 0);
    free(a);
}
