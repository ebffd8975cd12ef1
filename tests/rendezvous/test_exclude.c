/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/exclude.h"
#include "tests/lib/check.h"

#define PROGRAM DT_EVIDENCE_PROGRAM
#define CRASH DT_EVIDENCE_CRASH
#define OFFLINE DT_EVIDENCE_OFFLINE
#define PREEMPTED DT_EVIDENCE_PREEMPTED
#define HARDWARE DT_EVIDENCE_HARDWARE

#define MINUTE (60 * DT_SECOND)
#define HOUR (60 * MINUTE)
#define LENGTH (10 * MINUTE)
#define LONGEST_JITTERED (LENGTH + LENGTH / 8)

/* Three strikes, ten minutes. */
static enum dt_exclude_outcome note(struct dt_exclude *x, const char *node,
                                    enum dt_evidence evidence, const char *signature, dt_ms now)
{
    return dt_exclude_note(x, node, evidence, signature, 3, LENGTH, now);
}

static bool is_out(const struct dt_exclude *x, const char *node, dt_ms now)
{
    return dt_exclude_is_out(x, node, now, NULL);
}

static const char *why_of(const struct dt_exclude *x, const char *node, dt_ms now)
{
    const char *why = "it is not out";
    dt_exclude_is_out(x, node, now, &why);
    return why;
}

static int strikes_of(const struct dt_exclude *x, const char *node)
{
    const struct dt_excluded *e = dt_exclude_find(x, node);
    return e ? e->strikes : 0;
}

/* Bans NODE by hard evidence, and returns until when. */
static dt_ms ban(struct dt_exclude *x, const char *node, dt_ms now)
{
    CHECK_EQ(note(x, node, HARDWARE, "", now), DT_EXCLUDE_BANNED);
    return dt_exclude_find(x, node)->until;
}

TEST(each_evidence_once_and_three_times)
{
    static const struct {
        enum dt_evidence evidence;
        int limit;
        enum dt_exclude_outcome first, third;
    } rows[] = {
        {PROGRAM, 3, DT_EXCLUDE_NOTHING, DT_EXCLUDE_NOTHING},
        {PREEMPTED, 3, DT_EXCLUDE_NOTHING, DT_EXCLUDE_NOTHING},
        {CRASH, 3, DT_EXCLUDE_STRIKE, DT_EXCLUDE_BANNED},
        {OFFLINE, 3, DT_EXCLUDE_STRIKE, DT_EXCLUDE_BANNED},
        {HARDWARE, 3, DT_EXCLUDE_BANNED, DT_EXCLUDE_BANNED},
        {CRASH, 1, DT_EXCLUDE_BANNED, DT_EXCLUDE_STRIKE},
        {CRASH, 4, DT_EXCLUDE_STRIKE, DT_EXCLUDE_STRIKE},
        {CRASH, 0, DT_EXCLUDE_NOTHING, DT_EXCLUDE_NOTHING},
        {HARDWARE, 0, DT_EXCLUDE_NOTHING, DT_EXCLUDE_NOTHING},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("evidence %d, limit %d", rows[i].evidence, rows[i].limit);
        struct dt_exclude x;
        enum dt_exclude_outcome got = DT_EXCLUDE_NO_MEMORY;
        dt_exclude_init(&x, 1);
        for (int n = 1; n <= 3; n++) {
            got = dt_exclude_note(&x, "a", rows[i].evidence, "", rows[i].limit, LENGTH, n);
            if (n == 1)
                CHECK_EQ(got, rows[i].first);
        }
        CHECK_EQ(got, rows[i].third);
        CHECK_EQ(is_out(&x, "a", 4),
                 rows[i].first == DT_EXCLUDE_BANNED || got == DT_EXCLUDE_BANNED);
        CHECK(!is_out(&x, "b", 4));
        dt_exclude_finish(&x);
    }
}

TEST(strikes_count_within_the_hour)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    note(&x, "a", CRASH, "", 0);
    note(&x, "a", CRASH, "", 30 * MINUTE);
    CHECK_EQ(note(&x, "a", CRASH, "", HOUR), DT_EXCLUDE_STRIKE); /* the first is over just now */
    CHECK_EQ(strikes_of(&x, "a"), 2);
    CHECK_EQ(note(&x, "a", OFFLINE, "", HOUR + 1), DT_EXCLUDE_BANNED);
    CHECK_STR(why_of(&x, "a", HOUR + 2), "3 strikes within an hour, at last it went silent");
    dt_exclude_finish(&x);
}

TEST(a_limit_beyond_what_is_kept_can_be_met)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    for (int n = 1; n < DT_STRIKES_KEPT; n++)
        CHECK_EQ(dt_exclude_note(&x, "a", CRASH, "", 100, LENGTH, n), DT_EXCLUDE_STRIKE);
    CHECK_EQ(dt_exclude_note(&x, "a", CRASH, "", 100, LENGTH, 10), DT_EXCLUDE_BANNED);
    for (int n = 0; n < 100; n++)
        dt_exclude_note(&x, "a", CRASH, "", 100, LENGTH, 11);
    CHECK_EQ(strikes_of(&x, "a"), DT_STRIKES_KEPT);
    dt_exclude_finish(&x);
}

TEST(each_further_quarantine_is_twice_as_long_up_to_a_day)
{
    struct dt_exclude x;
    dt_ms now = 5, wanted = LENGTH;
    dt_exclude_init(&x, 42);
    for (int n = 1; n <= 70; n++) {
        CHECK_ROW("quarantine %d", n);
        dt_ms until = ban(&x, "a", now);
        CHECK(until - now >= wanted - (wanted == DT_EXCLUDE_MOST ? wanted / 8 : 0));
        CHECK(until - now <= wanted + wanted / 8 && until - now <= DT_EXCLUDE_MOST);
        CHECK_EQ(dt_exclude_find(&x, "a")->bans, n);
        CHECK(is_out(&x, "a", until - 1));
        CHECK(!is_out(&x, "a", until));
        now = until;
        wanted = wanted * 2 < DT_EXCLUDE_MOST ? wanted * 2 : DT_EXCLUDE_MOST;
    }
    dt_exclude_finish(&x);
}

TEST(a_quarantine_is_not_made_shorter_by_a_milder_policy)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    dt_ms until = ban(&x, "a", 0);
    CHECK_EQ(dt_exclude_note(&x, "a", HARDWARE, "", 3, 1, 1), DT_EXCLUDE_BANNED);
    CHECK_EQ(dt_exclude_find(&x, "a")->until, until);
    CHECK_EQ(dt_exclude_next(&x, 1), until);
    dt_exclude_finish(&x);
}

TEST(jitter_spreads_the_ends_and_a_seed_repeats_it)
{
    struct dt_exclude x, again;
    char name[8];
    int different = 0;
    dt_exclude_init(&x, 9);
    dt_exclude_init(&again, 9);
    for (int n = 0; n < 50; n++) {
        snprintf(name, sizeof name, "n%d", n);
        dt_ms until = ban(&x, name, 0);
        CHECK_EQ(ban(&again, name, 0), until);
        different += until != dt_exclude_find(&x, "n0")->until;
    }
    CHECK(different > 40);
    dt_exclude_finish(&x);
    dt_exclude_finish(&again);
}

TEST(who_is_back_is_on_probation_for_a_day)
{
    static const struct {
        dt_ms later; /* than the quarantine's end */
        enum dt_evidence evidence;
        enum dt_exclude_outcome want;
    } rows[] = {
        {0, CRASH, DT_EXCLUDE_BANNED},
        {DT_PROBATION - 1, OFFLINE, DT_EXCLUDE_BANNED},
        {DT_PROBATION, CRASH, DT_EXCLUDE_STRIKE},
        {0, PROGRAM, DT_EXCLUDE_NOTHING},
        {0, PREEMPTED, DT_EXCLUDE_NOTHING},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("row %zu", i);
        struct dt_exclude x;
        dt_exclude_init(&x, 1);
        dt_ms back = ban(&x, "a", 0);
        CHECK_EQ(note(&x, "a", rows[i].evidence, "it\nbroke", back + rows[i].later), rows[i].want);
        CHECK_EQ(is_out(&x, "a", back + rows[i].later), rows[i].want == DT_EXCLUDE_BANNED);
        if (i == 0)
            CHECK_STR(why_of(&x, "a", back),
                      "a strike while on probation, it crashed: it\\x0abroke");
        dt_exclude_finish(&x);
    }
}

TEST(evidence_against_who_is_out_makes_no_further_quarantine)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    for (int n = 0; n < 3; n++)
        note(&x, "a", CRASH, "", n);
    dt_ms until = dt_exclude_find(&x, "a")->until;
    CHECK_EQ(note(&x, "a", CRASH, "", MINUTE), DT_EXCLUDE_STRIKE);
    CHECK_EQ(dt_exclude_find(&x, "a")->until, until);
    CHECK_EQ(note(&x, "a", HARDWARE, "Xid 79", 5 * MINUTE), DT_EXCLUDE_BANNED);
    CHECK(dt_exclude_find(&x, "a")->until > until);
    CHECK(dt_exclude_find(&x, "a")->until <= 5 * MINUTE + LONGEST_JITTERED);
    CHECK_EQ(dt_exclude_find(&x, "a")->bans, 1);
    CHECK_STR(why_of(&x, "a", 6 * MINUTE), "its hardware failed: Xid 79");
    dt_exclude_finish(&x);
}

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

TEST(a_person_drains_and_lets_in_again)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    CHECK_EQ(dt_exclude_drain(&x, "a", false, "memory is being replaced", 0), 0);
    CHECK_EQ(dt_exclude_drain(&x, "b", false, "", 0), 0);
    CHECK(dt_exclude_is_drained(&x, "a"));
    CHECK(is_out(&x, "a", 1000 * HOUR)); /* nothing but a person ends it */
    CHECK_STR(why_of(&x, "a", 0), "memory is being replaced");
    CHECK_STR(why_of(&x, "b", 0), "drained, and no reason was given");
    CHECK_EQ(note(&x, "a", OFFLINE, "", 1), DT_EXCLUDE_NOTHING); /* it is being worked on */
    CHECK_EQ(dt_exclude_drain(&x, "a", true, NULL, 2), 0);
    CHECK(!dt_exclude_is_drained(&x, "a"));
    CHECK(!is_out(&x, "a", 2));
    CHECK(is_out(&x, "b", 2));
    dt_exclude_finish(&x);
}

TEST(letting_in_takes_a_quarantine_back_with_all_that_led_to_it)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    for (int n = 0; n < 3; n++)
        note(&x, "a", CRASH, "", n);
    CHECK(is_out(&x, "a", 3));
    CHECK_EQ(dt_exclude_drain(&x, "a", true, NULL, 4), 0);
    CHECK(!is_out(&x, "a", 4));
    CHECK_EQ(dt_exclude_next(&x, 4), DT_FOREVER);
    CHECK_EQ(note(&x, "a", CRASH, "", 5), DT_EXCLUDE_STRIKE);
    CHECK(ban(&x, "a", 6) - 6 <= LONGEST_JITTERED);
    CHECK_EQ(dt_exclude_drain(&x, "never seen", true, NULL, 7), 0);
    CHECK(!dt_exclude_find(&x, "never seen"));
    dt_exclude_finish(&x);
}

TEST(the_least_bad_is_known)
{
    /* The worse, the later. */
    static const char *const nodes[] = {"good", "one", "two", "soft", "softer", "hard", "drained"};
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    note(&x, "one", CRASH, "", 0);
    for (int n = 0; n < 2; n++)
        note(&x, "two", CRASH, "", 0);
    dt_exclude_note(&x, "soft", CRASH, "", 1, MINUTE, 0);
    dt_exclude_note(&x, "softer", CRASH, "", 1, 2 * DT_EXCLUDE_MOST, 0);
    dt_exclude_note(&x, "hard", HARDWARE, "", 1, MINUTE, 0);
    dt_exclude_drain(&x, "drained", false, "", 0);
    for (size_t i = 1; i < sizeof nodes / sizeof *nodes; i++) {
        CHECK_ROW("%s after %s", nodes[i], nodes[i - 1]);
        CHECK(dt_exclude_badness(&x, nodes[i], 1) > dt_exclude_badness(&x, nodes[i - 1], 1));
    }
    CHECK_EQ(dt_exclude_badness(&x, "one", HOUR), 0);
    dt_exclude_finish(&x);
}

TEST(the_next_end_is_the_earliest_to_come)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    CHECK_EQ(dt_exclude_next(&x, 0), DT_FOREVER);
    dt_ms first = ban(&x, "a", 0), second = ban(&x, "b", 5 * MINUTE);
    dt_exclude_drain(&x, "c", false, "", 0);
    CHECK_EQ(dt_exclude_next(&x, 0), first);
    CHECK_EQ(dt_exclude_next(&x, first - 1), first);
    CHECK_EQ(dt_exclude_next(&x, first), second);
    CHECK_EQ(dt_exclude_next(&x, second), DT_FOREVER);
    note(&x, "d", CRASH, "", second); /* puts away what is over */
    CHECK_EQ(dt_exclude_next(&x, 0), DT_FOREVER);
    dt_exclude_finish(&x);
}

TEST(only_who_is_in_no_trouble_is_forgotten)
{
    struct dt_exclude x;
    char name[16];
    dt_exclude_init(&x, 1);
    dt_exclude_drain(&x, "drained", false, "", 0);
    ban(&x, "banned", 0);
    for (int n = 1; n < DT_NODES_REMEMBERED; n++) {
        snprintf(name, sizeof name, "n%d", n);
        note(&x, name, CRASH, "", 0);
    }
    CHECK_EQ(x.nodes.count, DT_NODES_REMEMBERED + 1);
    CHECK_EQ(note(&x, "new", CRASH, "", 1), DT_EXCLUDE_NO_MEMORY);
    CHECK_EQ(note(&x, "n2", CRASH, "", 1), DT_EXCLUDE_STRIKE); /* who is known is */
    CHECK_EQ(note(&x, "new", CRASH, "", HOUR), DT_EXCLUDE_STRIKE);
    CHECK_EQ(x.nodes.count, DT_NODES_REMEMBERED + 1);
    CHECK(is_out(&x, "drained", HOUR));
    CHECK_EQ(strikes_of(&x, "n2"), 2);
    CHECK_EQ(dt_exclude_find(&x, "banned")->bans, 1);
    dt_exclude_finish(&x);
}

static void fill_with_drained(struct dt_exclude *x)
{
    char name[16];
    for (int n = 0; n < DT_NODES_REMEMBERED; n++) {
        snprintf(name, sizeof name, "d%d", n);
        CHECK_EQ(dt_exclude_drain(x, name, false, "", 0), 0);
    }
}

/* Neither those that did something nor those that a person drained take the room of the others. */
TEST(strikes_and_people_are_counted_apart)
{
    struct dt_exclude x;
    char name[16];
    dt_exclude_init(&x, 1);
    fill_with_drained(&x);
    CHECK_EQ(dt_exclude_drain(&x, "new", false, "", 0), -1);
    CHECK_EQ(dt_exclude_drain(&x, "d7", false, "again", 0), 0);
    for (int n = 0; n < DT_NODES_REMEMBERED; n++) {
        snprintf(name, sizeof name, "n%d", n);
        CHECK_EQ(note(&x, name, CRASH, "", 0), DT_EXCLUDE_STRIKE);
    }
    CHECK_EQ(note(&x, "new", CRASH, "", 1), DT_EXCLUDE_NO_MEMORY);
    CHECK_EQ(dt_exclude_drain(&x, "n7", false, "", 1), -1);
    CHECK_EQ(dt_exclude_drain(&x, "d7", true, NULL, 1), 0);
    CHECK(!dt_exclude_find(&x, "d7"));
    CHECK_EQ(dt_exclude_drain(&x, "new", false, "", 1), 0);
    dt_exclude_finish(&x);
}

TEST(a_name_too_long_is_one_node_all_the_same)
{
    struct dt_exclude x;
    char name[DT_NODE_NAME_MAX + 50];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    dt_exclude_init(&x, 1);
    CHECK_EQ(note(&x, name, CRASH, "", 0), DT_EXCLUDE_STRIKE);
    CHECK_EQ(note(&x, name, CRASH, "", 1), DT_EXCLUDE_STRIKE);
    CHECK_EQ(note(&x, name, CRASH, "", 2), DT_EXCLUDE_BANNED);
    CHECK_EQ(x.nodes.count, 1);
    dt_exclude_finish(&x);
}

/* A node with all a record can hold: it was out, came back, is out again for a strike, has another,
 * and then somebody drained it. */
static void fill(struct dt_exclude *x)
{
    dt_exclude_init(x, 1);
    dt_ms back = ban(x, "a", 0);
    note(x, "a", CRASH, "s", back + 1);
    note(x, "a", CRASH, "t", back + 2);
    dt_exclude_drain(x, "a", false, "dust", back + 3);
}

static struct dt_buf saved(const struct dt_exclude *x, const char *node, dt_ms now)
{
    struct dt_buf out = {0};
    dt_exclude_save(dt_exclude_find(x, node), &out, now);
    CHECK(!out.bad);
    return out;
}

static struct dt_bytes bytes_of(const struct dt_buf *b)
{
    return (struct dt_bytes){b->at, b->len};
}

TEST(a_record_comes_back_as_it_was_under_another_clock)
{
    struct dt_exclude x, y;
    fill(&x);
    dt_exclude_init(&y, 2);
    dt_ms then = LONGEST_JITTERED + MINUTE, now = 17;
    struct dt_buf record = saved(&x, "a", then);
    CHECK(dt_exclude_restore(&y, bytes_of(&record), now, 0));
    const struct dt_excluded *a = dt_exclude_find(&x, "a"), *b = dt_exclude_find(&y, "a");
    CHECK_EQ(b->until - now, a->until - then);
    CHECK_EQ(b->since - now, a->since - then);
    CHECK_EQ(b->probation - now, a->probation - then);
    CHECK_EQ(b->bans, 2);
    CHECK_STR(b->why, a->why);
    CHECK_STR(b->drained_why, "dust");
    CHECK(b->drained);
    CHECK_EQ(b->strikes, 2);
    CHECK_EQ(b->strike[1].at - now, a->strike[1].at - then);
    CHECK_EQ(b->strike[1].signature, a->strike[1].signature);
    CHECK_EQ(dt_exclude_next(&y, now), b->until);
    struct dt_buf again = saved(&y, "a", now);
    CHECK_BYTES(again.at, again.len, record.at, record.len);
    dt_buf_finish(&record);
    dt_buf_finish(&again);
    dt_exclude_finish(&x);
    dt_exclude_finish(&y);
}

TEST(time_goes_by_while_the_server_is_away)
{
    enum { OUT = 1, PROBATION = 2, STRIKES = 4 };
    static const struct {
        dt_ms away;
        int still;
    } rows[] = {
        {-HOUR, OUT | PROBATION | STRIKES}, /* the wall clock was set back */
        {0, OUT | PROBATION | STRIKES},
        {9 * MINUTE, OUT | PROBATION | STRIKES},
        {12 * MINUTE, PROBATION | STRIKES},
        {HOUR, PROBATION},
        {DT_PROBATION, PROBATION},
        {DT_PROBATION + 12 * MINUTE, 0},
        {INT64_MAX, 0},
        {INT64_MIN, OUT | PROBATION | STRIKES},
    };
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    for (int n = 0; n < 3; n++)
        note(&x, "a", CRASH, "s", HOUR);
    struct dt_buf record = saved(&x, "a", HOUR);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("away for %lld ms", (long long)rows[i].away);
        struct dt_exclude y;
        dt_exclude_init(&y, 2);
        CHECK(dt_exclude_restore(&y, bytes_of(&record), 3, rows[i].away));
        const struct dt_excluded *e = dt_exclude_find(&y, "a");
        CHECK_EQ(is_out(&y, "a", 3), (rows[i].still & OUT) != 0);
        CHECK_EQ(dt_exclude_next(&y, 3) != DT_FOREVER, (rows[i].still & OUT) != 0);
        CHECK_EQ(e->probation > 3, (rows[i].still & PROBATION) != 0);
        CHECK_EQ(e->strikes, rows[i].still & STRIKES ? 3 : 0);
        CHECK_EQ(e->bans, 1);
        dt_exclude_finish(&y);
    }
    dt_buf_finish(&record);
    dt_exclude_finish(&x);
}

TEST(a_strike_is_known_for_the_same_after_a_restart)
{
    struct dt_exclude x, y;
    dt_exclude_init(&x, 1);
    dt_exclude_init(&y, 2);
    for (int n = 0; n < 3; n++)
        note(&x, "a", CRASH, "s", n);
    struct dt_buf record = saved(&x, "a", 3);
    CHECK(dt_exclude_restore(&y, bytes_of(&record), 1000, 5));
    note(&y, "b", CRASH, "s", 1001);
    CHECK(is_out(&y, "a", 1001));
    CHECK_EQ(note(&y, "c", CRASH, "s", 1002), DT_EXCLUDE_FORGIVEN);
    CHECK(!is_out(&y, "a", 1002));
    dt_buf_finish(&record);
    dt_exclude_finish(&x);
    dt_exclude_finish(&y);
}

TEST(the_later_record_of_a_node_counts)
{
    struct dt_exclude x, y;
    dt_exclude_init(&x, 1);
    dt_exclude_init(&y, 2);
    note(&x, "a", CRASH, "", 0);
    struct dt_buf blank = saved(&x, "a", HOUR); /* the strike is too old to count */
    ban(&x, "a", 0);
    struct dt_buf banned = saved(&x, "a", 1);
    for (int n = 0; n < 2; n++) {
        CHECK(dt_exclude_restore(&y, bytes_of(&banned), 0, 0));
        CHECK(is_out(&y, "a", 0));
    }
    CHECK(dt_exclude_restore(&y, bytes_of(&blank), 0, 0));
    CHECK(!is_out(&y, "a", 0));
    CHECK_EQ(dt_exclude_next(&y, 0), DT_FOREVER);
    CHECK_EQ(y.nodes.count, 1);
    dt_buf_finish(&banned);
    dt_buf_finish(&blank);
    dt_exclude_finish(&x);
    dt_exclude_finish(&y);
}

static int count_drained(const struct dt_exclude *x)
{
    int count = 0;
    dt_list_each(&x->drained, n) count +=
        dt_container_of(n, struct dt_excluded, in_drained)->drained;
    CHECK_EQ(x->drained_count, count);
    return count;
}

/* The rendezvous counts by the list what a look-up would tell it of each node. */
TEST(who_is_drained_is_on_the_list_once_however_it_came_there)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    dt_exclude_drain(&x, "a", false, "", 0);
    dt_exclude_drain(&x, "a", false, "another reason", 1);
    dt_exclude_drain(&x, "b", false, "", 2);
    CHECK_EQ(count_drained(&x), 2);
    struct dt_buf drained = saved(&x, "a", 3);
    CHECK(dt_exclude_restore(&x, bytes_of(&drained), 3, 0));
    CHECK_EQ(count_drained(&x), 2);
    dt_exclude_drain(&x, "a", true, NULL, 4);
    CHECK_EQ(count_drained(&x), 1);
    CHECK(dt_exclude_restore(&x, bytes_of(&drained), 5, 0));
    CHECK_EQ(count_drained(&x), 2);
    dt_buf_finish(&drained);
    dt_exclude_finish(&x);
}

TEST(a_record_that_is_cut_anywhere_is_none)
{
    struct dt_exclude x, y;
    fill(&x);
    dt_exclude_init(&y, 2);
    struct dt_buf record = saved(&x, "a", LONGEST_JITTERED + MINUTE);
    for (size_t len = 0; len < record.len; len++) {
        CHECK_ROW("%zu of %zu bytes", len, record.len);
        uint8_t *cut = malloc(len ? len : 1); /* its own, so that a sanitizer sees reading on */
        memcpy(cut, record.at, len);
        CHECK(!dt_exclude_restore(&y, (struct dt_bytes){cut, len}, 0, 0));
        free(cut);
    }
    CHECK_EQ(y.nodes.count, 0);
    dt_buf_put_u8(&record, 0);
    CHECK(!dt_exclude_restore(&y, bytes_of(&record), 0, 0)); /* nor one with a tail */
    dt_buf_finish(&record);
    dt_exclude_finish(&x);
    dt_exclude_finish(&y);
}

TEST(how_long_a_node_is_out_is_said_and_how_to_end_it)
{
    struct dt_exclude x;
    char text[DT_WHY_MAX];
    dt_exclude_init(&x, 1);
    dt_exclude_describe(&x, "a", 0, text, sizeof text);
    CHECK_STR(text, "");
    dt_exclude_reject(&x, "a", "no data", 2, 0);
    dt_exclude_describe(&x, "a", 1, text, sizeof text);
    CHECK_STR(text,
              "for 1 ms (\"dtrun-ctl node undrain a\" ends that): it failed as soon as it had "
              "joined: no data");
    dt_exclude_describe(&x, "a", 2, text, sizeof text);
    CHECK_STR(text, "");
    dt_exclude_drain(&x, "a", false, "a loud fan", 3);
    dt_exclude_describe(&x, "a", 3, text, sizeof text);
    CHECK_STR(text, "until \"dtrun-ctl node undrain a\": a loud fan");
    dt_exclude_finish(&x);
}

TEST(who_fails_as_a_newcomer_is_out_at_once_and_longer_each_time)
{
    struct dt_exclude x;
    const char *why;
    dt_ms now = HOUR;
    dt_exclude_init(&x, 1);
    for (int times = 1; times <= 4; times *= 2) {
        CHECK_EQ(dt_exclude_reject(&x, "a", "no data", MINUTE, now), DT_EXCLUDE_BANNED);
        CHECK(dt_exclude_is_out(&x, "a", now + times * MINUTE - 1, &why));
        CHECK_STR(why, "it failed as soon as it had joined: no data");
        now += times * MINUTE * 9 / 8 + 1;
        CHECK(!dt_exclude_is_out(&x, "a", now, NULL));
    }
    CHECK_EQ(dt_exclude_drain(&x, "a", true, "", now), 0);
    CHECK_EQ(dt_exclude_reject(&x, "a", "no data", MINUTE, now), DT_EXCLUDE_BANNED);
    CHECK(!dt_exclude_is_out(&x, "a", now + MINUTE * 9 / 8 + 1, NULL));
    dt_exclude_finish(&x);
}

/* Every byte, every bit: refused, or something that can be saved and read again. */
TEST(a_record_with_a_flipped_bit_is_none_or_a_sound_one)
{
    struct dt_exclude x;
    int refused = 0, taken = 0;
    fill(&x);
    struct dt_buf record = saved(&x, "a", LONGEST_JITTERED + MINUTE);
    for (size_t bit = 0; bit < record.len * 8; bit++) {
        CHECK_ROW("byte %zu, bit %zu", bit / 8, bit % 8);
        struct dt_exclude y;
        dt_exclude_init(&y, 2);
        record.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (!dt_exclude_restore(&y, bytes_of(&record), 0, MINUTE)) {
            refused++;
            CHECK_EQ(y.nodes.count, 0);
        } else {
            size_t cursor = 0;
            const struct dt_excluded *e = dt_map_next(&y.nodes, &cursor);
            struct dt_buf again = {0};
            taken++;
            dt_exclude_save(e, &again, 0);
            CHECK(dt_exclude_restore(&y, bytes_of(&again), 0, 0));
            dt_buf_finish(&again);
        }
        record.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        dt_exclude_finish(&y);
    }
    CHECK(refused > 100 && taken > 100);
    dt_buf_finish(&record);
    dt_exclude_finish(&x);
}
