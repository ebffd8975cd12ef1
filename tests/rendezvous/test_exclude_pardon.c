/* SPDX-License-Identifier: Apache-2.0 */
/* Strikes that several nodes have for the same reason, which is no fault of theirs. */
#include "tests/rendezvous/exclude_story.h"

/* Each story is words "node:signature", a crash a minute; "+" instead of ":" is hard evidence. */
static enum dt_exclude_outcome tell(struct dt_exclude *x, const char *story, int limit)
{
    enum dt_exclude_outcome last = DT_EXCLUDE_NOTHING;
    char copy[200], *rest = copy;
    dt_ms now = 0;
    snprintf(copy, sizeof copy, "%s", story);
    for (char *node; (node = strsep(&rest, " ")); now += MINUTE) {
        char *mark = node + strcspn(node, ":+");
        enum dt_evidence evidence = *mark == '+' ? HARDWARE : CRASH;
        *mark = '\0';
        last = dt_exclude_note(x, node, evidence, mark + 1, limit, HOUR, now);
    }
    return last;
}

/* "name" is free of strikes, "name1" has one, "(name2)" two and is out. */
static const char *standing(const struct dt_exclude *x, dt_ms now, char out[100])
{
    size_t len = 0;
    for (const char *c = "abcde"; *c; c++) {
        char name[2] = {*c, '\0'};
        const struct dt_excluded *e = dt_exclude_find(x, name);
        if (!e)
            continue;
        bool banned = is_out(x, name, now);
        len += (size_t)snprintf(out + len, 100 - len, "%s%s%s%.0d%s", len ? " " : "",
                                banned ? "(" : "", name, e->strikes, banned ? ")" : "");
    }
    return out;
}

TEST(the_same_on_three_nodes_is_forgiven)
{
    static const struct {
        const char *story;
        int limit;
        enum dt_exclude_outcome last;
        const char *want;
    } rows[] = {
        {"a:s b:s", 3, DT_EXCLUDE_STRIKE, "a1 b1"},
        {"a:s b:s c:s", 3, DT_EXCLUDE_FORGIVEN, "a b c"},
        {"a:s b:s c:t", 3, DT_EXCLUDE_STRIKE, "a1 b1 c1"},
        {"a:s a:s b:s b:s", 3, DT_EXCLUDE_STRIKE, "a2 b2"}, /* two nodes, often */
        {"a: b: c:", 3, DT_EXCLUDE_STRIKE, "a1 b1 c1"},     /* unknown is not the same */
        {"a:t a:s b:s c:s", 3, DT_EXCLUDE_FORGIVEN, "a1 b c"},
        {"d:t a:s b:s c:s", 3, DT_EXCLUDE_FORGIVEN, "a b c d1"},
        {"a:s b:s c:s d:s e:s", 3, DT_EXCLUDE_STRIKE, "a b c d1 e1"},
        {"a:s b:s c:s", 1, DT_EXCLUDE_FORGIVEN, "a b c"},            /* a and b were out */
        {"a:s a:s a:s b:s c:s", 3, DT_EXCLUDE_FORGIVEN, "a b c"},    /* a was */
        {"a:t a:s a:s b:s c:s", 3, DT_EXCLUDE_FORGIVEN, "(a1) b c"}, /* not only from those */
        {"a: a:s a:s b:s c:s", 3, DT_EXCLUDE_FORGIVEN, "(a1) b c"},  /* ... */
        {"a+s b+s c+s", 3, DT_EXCLUDE_BANNED, "(a) (b) (c)"},        /* broken is broken */
        {"a:s a+s b:s c:s", 3, DT_EXCLUDE_FORGIVEN, "(a) b c"},      /* ... */
        {"a:s a:s a:s a+x b:s c:s", 3, DT_EXCLUDE_FORGIVEN, "(a) b c"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s, limit %d", rows[i].story, rows[i].limit);
        struct dt_exclude x;
        char out[100];
        dt_exclude_init(&x, 1);
        CHECK_EQ(tell(&x, rows[i].story, rows[i].limit), rows[i].last);
        CHECK_STR(standing(&x, 30 * MINUTE, out), rows[i].want);
        dt_exclude_finish(&x);
    }
}

TEST(what_is_an_hour_apart_is_not_the_same_trouble)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    note(&x, "a", CRASH, "s", 0);
    note(&x, "b", CRASH, "s", 30 * MINUTE);
    CHECK_EQ(note(&x, "c", CRASH, "s", HOUR), DT_EXCLUDE_STRIKE);
    CHECK_EQ(note(&x, "d", CRASH, "s", HOUR + MINUTE), DT_EXCLUDE_FORGIVEN);
    dt_exclude_finish(&x);
}

TEST(a_quarantine_that_is_taken_back_does_not_make_the_next_longer)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    CHECK_EQ(tell(&x, "a:s b:s c:s", 1), DT_EXCLUDE_FORGIVEN);
    CHECK_EQ(dt_exclude_find(&x, "a")->bans, 0);
    CHECK_EQ(note(&x, "a", CRASH, "t", HOUR), DT_EXCLUDE_STRIKE); /* nor is it on probation */
    CHECK(ban(&x, "a", 2 * HOUR) - 2 * HOUR <= LONGEST_JITTERED);
    dt_exclude_finish(&x);
}

TEST(a_forgiven_strike_leaves_the_probation_of_an_earlier_quarantine)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    CHECK_EQ(dt_exclude_note(&x, "a", CRASH, "t", 1, MINUTE, 0), DT_EXCLUDE_BANNED);
    dt_ms back = dt_exclude_find(&x, "a")->until;
    CHECK_EQ(note(&x, "a", CRASH, "s", back + 1), DT_EXCLUDE_BANNED);
    note(&x, "b", CRASH, "s", back + 2);
    CHECK_EQ(note(&x, "c", CRASH, "s", back + 3), DT_EXCLUDE_FORGIVEN);
    CHECK(!is_out(&x, "a", back + 3));
    CHECK_EQ(note(&x, "a", CRASH, "t", back + 4), DT_EXCLUDE_BANNED);
    CHECK_EQ(dt_exclude_find(&x, "a")->bans, 2);
    dt_exclude_finish(&x);
}
