/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a node out, for how long, and which nodes are remembered. */
#include "tests/rendezvous/exclude_story.h"

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
