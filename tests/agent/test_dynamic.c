/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of torchrun's rendezvous, one row each. A state is written as who is in it: "a=" takes
 * part, "a?" waits, "a!" is redundant; "a" is this node, and "~" behind it: its last beat is old.
 */
#include "agent/backend/torchrun/dynamic.h"
#include "tests/lib/check.h"

#define ROWS(a) (sizeof(a) / sizeof *(a))

#define WALL INT64_C(1795253244000000)
#define SECONDS(n) ((n)*INT64_C(1000000))
#define NOW ((dt_ms)1000000)

static struct dt_dynamic_node named(char c)
{
    return (struct dt_dynamic_node){.addr = {c}, .pid = 1};
}

/* Words behind the nodes: "complete", "closed", "due" (the deadline has passed), "soon" (it is
 * set); the round is 4. */
static struct dt_dynamic_state state(const char *text, bool redundancy)
{
    struct dt_dynamic_state s = {.dialect = {.told = true, .redundancy = redundancy}, .round = 4};
    for (; text[0] && text[1] && strchr("=?!", text[1]); text += strspn(text, "=?!~ ")) {
        struct dt_dynamic_node node = named(text[0]);
        struct dt_dynamic_member *m = dt_dynamic_add(&s, &node);
        m->participates = text[1] == '=';
        m->waits = text[1] == '?';
        m->redundant = text[1] == '!';
        m->beats = true;
        m->heartbeat = WALL - (text[2] == '~' ? SECONDS(6) : SECONDS(1));
        text += 2;
    }
    s.complete = strstr(text, "complete");
    s.closed = strstr(text, "closed");
    s.deadline = strstr(text, "due") ? WALL - 1 : strstr(text, "soon") ? WALL + 1 : 0;
    return s;
}

static const char *told(const struct dt_dynamic_state *s, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; i < s->count; i++) {
        const struct dt_dynamic_member *m = &s->members[i];
        n += (size_t)snprintf(out + n, size - n, "%s%s%s%s%s%s", n ? " " : "", m->node.addr,
                              m->participates ? "=" : "", m->waits ? "?" : "",
                              m->redundant ? "!" : "", m->heartbeat < WALL - SECONDS(5) ? "~" : "");
    }
    if (s->round != 4)
        n += (size_t)snprintf(out + n, size - n, " round %d", (int)s->round);
    snprintf(out + n, size - n, "%s%s%s", s->complete ? " complete" : "",
             s->closed ? " closed" : "",
             s->deadline == 0                    ? ""
             : s->deadline == WALL + SECONDS(30) ? " last call"
                                                 : " deadline");
    return out;
}

static const struct dt_dynamic_self self = {
    .node = {.addr = "a", .pid = 1},
    .min_nodes = 2,
    .max_nodes = 3,
    .last_call = 30 * DT_SECOND,
    .join_timeout = 60 * DT_SECOND,
    .deadline = NOW,
};

static const char *const act_name[] = {
    [DT_DYNAMIC_WRITE] = "write",       [DT_DYNAMIC_SLEEP] = "sleep",
    [DT_DYNAMIC_DONE] = "done",         [DT_DYNAMIC_CLOSED] = "closed",
    [DT_DYNAMIC_RELEASED] = "released", [DT_DYNAMIC_TIMEOUT] = "timeout",
    [DT_DYNAMIC_FULL] = "full",
};

TEST(joining)
{
    /* clang-format off */
    static const struct { const char *before; int late; bool old; const char *act, *after; } rows[] = {
        /* nobody, the first, the last that is needed, the last that is wanted */
        {"", 0, false, "write", "a="},
        {"b=", 0, false, "write", "b= a= last call"},
        {"b= c=", 0, false, "write", "b= c= a= complete"},
        {"b= c= soon", 0, false, "write", "b= c= a= complete"},
        {"a? b=", 0, false, "write", "a= b= last call"},
        {"a=", 0, false, "sleep", "a="},
        {"a=~", 0, false, "write", "a="},
        {"a= b= soon", 0, false, "sleep", "a= b= deadline"},
        {"a= b= due", 0, false, "write", "a= b= complete"},
        {"a= b= c= d= due", 0, false, "sleep", "a= b= c= d= deadline"},
        {"a= b= complete", 0, false, "done", "a= b= complete"},
        /* a round is under way without it */
        {"b= c= complete", 0, false, "write", "b= c= a? complete"},
        {"b= c= a? complete", 0, false, "sleep", "b= c= a? complete"},
        {"b= c= a?~ complete", 0, false, "write", "b= c= a? complete"},
        {"b= c= d= complete", 0, false, "write", "b= c= d= a! complete"},
        {"b= c= d= a? complete", 0, false, "sleep", "b= c= d= a? complete"},
        {"b= c= d= a! complete", 0, false, "sleep", "b= c= d= a! complete"},
        {"b= c= d= a!~ complete", 0, false, "write", "b= c= d= a! complete"},
        {"b= c= a! complete", 0, false, "write", "b= c= complete"},
        /* 1.13 knows of no redundant nodes */
        {"b= c= d= complete", 0, true, "sleep", "b= c= d= complete"},
        {"b= c= complete", 0, true, "write", "b= c= a? complete"},
        /* closed */
        {"b= closed", 0, false, "closed", "b= closed"},
        {"a= b= complete closed", 0, false, "closed", "a= b= complete closed"},
        {"b= a! closed", 0, false, "released", "b= a! closed"},
        /* too late */
        {"", 1, false, "timeout", ""},
        {"a=", 1, false, "write", ""},
        {"a= b= soon", 1, false, "write", "b="},
        {"a= b= due", 1, false, "write", "b="},
        {"b= a? complete", 1, false, "write", "b= complete"},
        {"b= complete", 1, false, "timeout", "b= complete"},
        {"a=", 6, false, "timeout", "a="},
        {"b= a? complete", 6, false, "timeout", "b= a? complete"},
        {"a= b= complete", 6, false, "done", "a= b= complete"},
        {"b= c= d= a! complete", 6, false, "sleep", "b= c= d= a! complete"},
        {"b= c= a! complete", 6, false, "write", "b= c= complete"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s, %d s late", rows[i].before, rows[i].late);
        char text[200];
        struct dt_dynamic_state s = state(rows[i].before, !rows[i].old);
        struct dt_dynamic_self me = self;
        enum dt_dynamic_act act = dt_dynamic_join(&s, &me, NOW + rows[i].late * DT_SECOND, WALL);
        CHECK_STR(act_name[act], rows[i].act);
        CHECK_STR(told(&s, text, sizeof text), rows[i].after);
        dt_dynamic_finish(&s);
    }
}

TEST(one_that_is_needed_after_all_has_its_time_anew)
{
    struct dt_dynamic_state s = state("b= c= a! complete", true);
    struct dt_dynamic_self me = self;
    CHECK_EQ(dt_dynamic_join(&s, &me, NOW + 100 * DT_SECOND, WALL), DT_DYNAMIC_WRITE);
    CHECK_EQ(me.deadline, NOW + 160 * DT_SECOND);
    dt_dynamic_finish(&s);
}

TEST(ranks_go_by_address_and_pid)
{
    struct dt_dynamic_state s = state("c= b=", true);
    struct dt_dynamic_node twin = {.addr = "b", .pid = 22}, waiting = {.addr = "A", .pid = 1};
    struct dt_dynamic_self me = self;
    me.max_nodes = 4;
    dt_dynamic_add(&s, &twin)->participates = true;
    dt_dynamic_add(&s, &waiting)->waits = true;
    CHECK_EQ(dt_dynamic_join(&s, &me, NOW, WALL), DT_DYNAMIC_WRITE);
    CHECK(s.complete);
    CHECK_EQ(dt_dynamic_find(&s, &me.node)->rank, 0);
    CHECK_EQ(s.members[1].rank, 1); /* b */
    CHECK_EQ(dt_dynamic_find(&s, &twin)->rank, 2);
    CHECK_EQ(s.members[0].rank, 3); /* c */
    dt_dynamic_finish(&s);
}

TEST(going)
{
    /* clang-format off */
    static const struct { const char *before, *exit, *leave; } rows[] = {
        {"", "done", "done"},
        {"b= complete", "done b= complete", "done b= complete"},
        {"a= b= c= complete", "write b= c= complete", "write b= c= complete"},
        {"a= complete", "write round 5", "write round 5"},
        {"a= complete closed", "write round 5 closed", "write round 5 closed"},
        {"a= b? complete", "write b? round 5", "write b? round 5"},
        {"a=", "write", "write"},
        {"a= b= soon", "write b=", "write b="},
        {"a= b= c= soon", "write b= c= deadline", "write b= c= deadline"},
        {"a? b= complete", "done a? b= complete", "write b= complete"},
        {"a! b= complete", "done a! b= complete", "write b= complete"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].before);
        char text[200], all[220];
        for (int leave = 0; leave < 2; leave++) {
            struct dt_dynamic_state s = state(rows[i].before, true);
            enum dt_dynamic_act act =
                leave ? dt_dynamic_leave(&s, &self) : dt_dynamic_exit(&s, &self);
            told(&s, text, sizeof text);
            snprintf(all, sizeof all, "%s%s%s", act_name[act], *text && *text != ' ' ? " " : "",
                     text);
            CHECK_STR(all, leave ? rows[i].leave : rows[i].exit);
            dt_dynamic_finish(&s);
        }
    }
}

TEST(nodes_that_fell_silent)
{
    struct dt_dynamic_state s = state("a= b= c? d! complete", true);
    struct dt_dynamic_state was = {0};
    struct dt_dynamic_node b = named('b');
    struct dt_err err;
    char text[200];
    CHECK_OK(dt_dynamic_copy(&was, &s, &err), err);
    dt_dynamic_sanitize(&s, &self, WALL + SECONDS(14));
    CHECK_STR(told(&s, text, sizeof text), "a= b= c? d! complete");
    CHECK(!dt_dynamic_missing(&was, &s));
    dt_dynamic_find(&s, &b)->heartbeat -= 1;
    dt_dynamic_sanitize(&s, &self, WALL + SECONDS(14));
    CHECK_STR(told(&s, text, sizeof text), "a= c? d! complete");
    CHECK_STR(dt_dynamic_missing(&was, &s)->node.addr, "b");
    dt_dynamic_sanitize(&s, &self, WALL + SECONDS(14) + 1);
    CHECK_STR(told(&s, text, sizeof text), " round 5");
    CHECK(!s.complete);
    dt_dynamic_finish(&s);
    dt_dynamic_finish(&was);
}

TEST(a_round_that_loses_nodes_before_it_begins_waits_anew)
{
    struct dt_dynamic_state s = state("a= b= soon", true);
    char text[200];
    s.members[1].heartbeat -= SECONDS(60);
    dt_dynamic_sanitize(&s, &self, WALL);
    CHECK_STR(told(&s, text, sizeof text), "a=");
    dt_dynamic_finish(&s);
}

TEST(who_is_missing)
{
    /* clang-format off */
    static const struct { const char *then, *now, *missing; } rows[] = {
        {"a= b= complete", "b= a= complete", NULL},
        {"a= b= complete", "a= b= c? complete", NULL},
        {"a= b= complete", "a= complete", "b"},
        {"a= b= complete", "a= b? complete", "b"},
        {"a= b= c? complete", "a= b= complete", NULL},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s, now %s", rows[i].then, rows[i].now);
        struct dt_dynamic_state then = state(rows[i].then, true), now = state(rows[i].now, true);
        const struct dt_dynamic_member *m = dt_dynamic_missing(&then, &now);
        CHECK_STR(m ? m->node.addr : NULL, rows[i].missing);
        now.round++;
        CHECK_STR(dt_dynamic_missing(&then, &now)->node.addr, "a");
        dt_dynamic_finish(&then);
        dt_dynamic_finish(&now);
    }
}

TEST(beating_and_closing)
{
    struct dt_dynamic_state s = state("a= b= complete", true);
    struct dt_dynamic_node stranger = named('z');
    struct dt_dynamic_self z = self;
    z.node = stranger;
    CHECK_EQ(dt_dynamic_beat(&s, &self, WALL), DT_DYNAMIC_DONE);
    CHECK_EQ(dt_dynamic_beat(&s, &self, WALL + SECONDS(4)), DT_DYNAMIC_WRITE);
    CHECK_EQ(s.members[0].heartbeat, WALL + SECONDS(4));
    CHECK_EQ(dt_dynamic_beat(&s, &z, WALL + SECONDS(4)), DT_DYNAMIC_DONE);
    CHECK_EQ(s.count, 2);
    CHECK_EQ(dt_dynamic_close(&s), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_close(&s), DT_DYNAMIC_DONE);
    dt_dynamic_finish(&s);
}

/* Three nodes that write one after the other, and one that comes later: nobody is left out. */
TEST(a_job_that_grows)
{
    struct dt_dynamic_state s = {.dialect = {.told = true, .redundancy = true}};
    struct dt_dynamic_self a = self, b = self, c = self;
    b.node = named('b');
    c.node = named('c');
    CHECK_EQ(dt_dynamic_join(&s, &a, 0, WALL), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_join(&s, &b, 0, WALL), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_join(&s, &a, 0, WALL + SECONDS(1)), DT_DYNAMIC_SLEEP);
    CHECK_EQ(dt_dynamic_join(&s, &a, 0, WALL + SECONDS(31)), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_join(&s, &a, 0, WALL + SECONDS(31)), DT_DYNAMIC_DONE);
    CHECK_EQ(dt_dynamic_join(&s, &b, 0, WALL + SECONDS(31)), DT_DYNAMIC_DONE);
    CHECK_EQ(dt_dynamic_participants(&s), 2);
    CHECK_EQ(dt_dynamic_join(&s, &c, 0, WALL + SECONDS(40)), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_waiting(&s), 1);
    CHECK_EQ(dt_dynamic_exit(&s, &a), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_join(&s, &a, 0, WALL + SECONDS(41)), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_waiting(&s), 2);
    CHECK_EQ(dt_dynamic_exit(&s, &b), DT_DYNAMIC_WRITE);
    CHECK_EQ(s.round, 1);
    CHECK_EQ(dt_dynamic_join(&s, &b, 0, WALL + SECONDS(42)), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_join(&s, &c, 0, WALL + SECONDS(42)), DT_DYNAMIC_WRITE);
    CHECK_EQ(dt_dynamic_join(&s, &a, 0, WALL + SECONDS(42)), DT_DYNAMIC_WRITE);
    CHECK(s.complete);
    CHECK_EQ(dt_dynamic_participants(&s), 3);
    CHECK_EQ(dt_dynamic_waiting(&s), 0);
    CHECK_EQ(dt_dynamic_join(&s, &c, 0, WALL + SECONDS(42)), DT_DYNAMIC_DONE);
    CHECK_EQ(dt_dynamic_find(&s, &c.node)->rank, 2);
    dt_dynamic_finish(&s);
}
