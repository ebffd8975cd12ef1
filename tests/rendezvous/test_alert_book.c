/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/book.h"
#include "tests/lib/check.h"

#define COOLDOWN (300 * DT_SECOND)

static struct told {
    struct dt_notice at[512];
    size_t len;
} told;

static void on_notice(void *arg, const struct dt_notice *n)
{
    struct told *t = arg;
    t->at[t->len++] = *n;
}

static struct dt_alert_book open_book(enum dt_event_weight least)
{
    struct dt_alert_book b = {
        .cooldown = COOLDOWN, .least = least, .on_notice = on_notice, .arg = &told};
    told.len = 0;
    CHECK_EQ(dt_alert_book_init(&b), 0);
    return b;
}

static void happen(struct dt_alert_book *b, enum dt_event_kind kind, const char *run,
                   const char *node, dt_ms now)
{
    dt_alert_book_take(b,
                       &(struct dt_event){.kind = kind,
                                          .run = run,
                                          .node = node,
                                          .round = 1,
                                          .rank = -1,
                                          .at_us = now * 1000,
                                          .words = "words"},
                       now);
}

/* The rule and state of notice N since the start, as "rule state run". */
static const char *said(size_t n)
{
    static const char *const states[] = {"raised", "over", "test"};
    static char text[256];
    if (n >= told.len)
        return "nothing";
    const struct dt_notice *at = &told.at[n];
    snprintf(text, sizeof text, "%s %s %s", at->rule, states[at->state], at->run);
    return text;
}

TEST(an_alert_is_told_once_and_once_when_it_is_over)
{
    struct dt_alert_book b = open_book(DT_EVENT_INFO);
    happen(&b, DT_EVENT_HANG, "a", NULL, 1000);
    happen(&b, DT_EVENT_HANG, "a", NULL, 2000);
    CHECK_EQ(told.len, 1);
    CHECK_STR(said(0), "hang raised a");
    CHECK_EQ(told.at[0].raised_us, 1000000);
    CHECK_EQ(told.at[0].over_us, 0);
    happen(&b, DT_EVENT_HANG_OVER, "b", NULL, 3000); /* another run's */
    CHECK_EQ(told.len, 1);
    happen(&b, DT_EVENT_HANG_OVER, "a", NULL, 3000);
    CHECK_EQ(told.len, 2);
    CHECK_STR(said(1), "hang over a");
    CHECK_EQ(told.at[1].raised_us, 1000000);
    CHECK_EQ(told.at[1].over_us, 3000000);
    dt_alert_book_finish(&b);
}

TEST(what_comes_and_goes_is_told_again_after_the_cooldown_only)
{
    struct dt_alert_book b = open_book(DT_EVENT_INFO);
    for (int i = 0; i < 10; i++) {
        happen(&b, DT_EVENT_NODE_LOST, "a", "n", i * 1000);
        happen(&b, DT_EVENT_ROUND_BEGAN, "a", NULL, i * 1000 + 500);
    }
    CHECK_EQ(told.len, 2); /* the first, and its end */
    CHECK_EQ(dt_alert_book_next(&b), DT_FOREVER);
    happen(&b, DT_EVENT_NODE_LOST, "a", "n", 20000);
    CHECK_EQ(told.len, 2);
    CHECK_EQ(dt_alert_book_next(&b), COOLDOWN); /* it is so still, and must not be forgotten */
    dt_alert_book_tick(&b, COOLDOWN - 1);
    CHECK_EQ(told.len, 2);
    dt_alert_book_tick(&b, COOLDOWN);
    CHECK_EQ(told.len, 3);
    CHECK_STR(said(2), "node_lost raised a");
    CHECK_EQ(dt_alert_book_next(&b), DT_FOREVER);
    dt_alert_book_finish(&b);
}

TEST(what_is_over_before_its_cooldown_is_not_told_at_all)
{
    struct dt_alert_book b = open_book(DT_EVENT_INFO);
    happen(&b, DT_EVENT_NODE_LOST, "a", "n", 0);
    happen(&b, DT_EVENT_ROUND_BEGAN, "a", NULL, 1);
    happen(&b, DT_EVENT_NODE_LOST, "a", "n", 2);
    happen(&b, DT_EVENT_ROUND_BEGAN, "a", NULL, 3);
    dt_alert_book_tick(&b, COOLDOWN * 2);
    CHECK_EQ(told.len, 2);
    dt_alert_book_finish(&b);
}

TEST(many_nodes_of_one_run_are_one_alert)
{
    static const enum dt_event_kind kinds[] = {DT_EVENT_NODE_LOST, DT_EVENT_PREFLIGHT_FAILED};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct dt_alert_book b = open_book(DT_EVENT_INFO);
        CHECK_ROW("%s", dt_event_kind_name(kinds[k]));
        for (int i = 0; i < 1000; i++) {
            char name[16];
            snprintf(name, sizeof name, "node%d", i);
            happen(&b, kinds[k], "a", name, 0);
        }
        CHECK_EQ(told.len, 1);
        dt_alert_book_tick(&b, COOLDOWN);
        CHECK_EQ(told.len, 2);
        CHECK_EQ(told.at[1].times, 999);
        dt_alert_book_tick(&b, 3 * COOLDOWN);
        CHECK_EQ(told.len, 2);
        dt_alert_book_finish(&b);
    }
}

TEST(a_restart_storm_needs_three_failures_in_ten_minutes)
{
    struct dt_alert_book b = open_book(DT_EVENT_ERROR);
    dt_ms minute = 60 * DT_SECOND;
    happen(&b, DT_EVENT_WORKER_FAILED, "a", NULL, 0);
    happen(&b, DT_EVENT_WORKER_FAILED, "a", NULL, 6 * minute);
    happen(&b, DT_EVENT_WORKER_FAILED, "b", NULL, 6 * minute);
    happen(&b, DT_EVENT_WORKER_FAILED, "a", NULL, 11 * minute); /* the first is too old by now */
    CHECK_EQ(told.len, 0);
    happen(&b, DT_EVENT_WORKER_FAILED, "a", NULL, 16 * minute);
    CHECK_EQ(told.len, 1);
    CHECK_STR(said(0), "restart_storm raised a");
    happen(&b, DT_EVENT_RUN_ENDED_WELL, "a", NULL, 17 * minute);
    CHECK_STR(said(1), "restart_storm over a");
    CHECK_EQ(told.len, 2); /* a good end is lighter than what was asked for */
    dt_alert_book_finish(&b);
}

TEST(spares_have_a_minute_to_come)
{
    struct dt_alert_book b = open_book(DT_EVENT_INFO);
    happen(&b, DT_EVENT_SPARES_EXHAUSTED, "a", NULL, 1000);
    CHECK_EQ(told.len, 0);
    CHECK_EQ(dt_alert_book_next(&b), 61000);
    happen(&b, DT_EVENT_SPARES_THERE, "a", NULL, 2000);
    CHECK_EQ(dt_alert_book_next(&b), DT_FOREVER);
    happen(&b, DT_EVENT_SPARES_EXHAUSTED, "a", NULL, 3000);
    dt_alert_book_tick(&b, 62999);
    CHECK_EQ(told.len, 0);
    dt_alert_book_tick(&b, 63000);
    CHECK_EQ(told.len, 1);
    CHECK_STR(said(0), "spares_exhausted raised a");
    dt_alert_book_finish(&b);
}

TEST(a_deserted_run_leaves_no_alert_open)
{
    struct dt_alert_book b = open_book(DT_EVENT_INFO);
    happen(&b, DT_EVENT_NODE_LOST, "a", "n", 0);
    happen(&b, DT_EVENT_BELOW_MIN, "a", NULL, 1);
    happen(&b, DT_EVENT_RUN_DESERTED, "a", NULL, 2);
    CHECK_EQ(told.len, 4);
    CHECK_STR(said(3), "below_min over a");
    dt_alert_book_finish(&b);
}

TEST(a_moment_has_no_end)
{
    struct dt_alert_book b = open_book(DT_EVENT_INFO);
    happen(&b, DT_EVENT_RUN_ENDED_BADLY, "a", NULL, 0);
    happen(&b, DT_EVENT_RUN_ENDED_BADLY, "a", NULL, 10);
    CHECK_EQ(told.len, 1);
    dt_alert_book_tick(&b, COOLDOWN);
    CHECK_EQ(told.len, 2);
    CHECK_STR(said(1), "run_ended_badly raised a");
    dt_alert_book_tick(&b, 3 * COOLDOWN);
    CHECK_EQ(told.len, 2);
    dt_alert_book_finish(&b);
}

TEST(the_oldest_of_too_many_alerts_gives_way)
{
    struct dt_alert_book b = open_book(DT_EVENT_ERROR);
    char run[16];
    for (int i = 0; i < DT_ALERTS_MOST + 10; i++) {
        snprintf(run, sizeof run, "run%d", i);
        happen(&b, DT_EVENT_HANG, run, NULL, i);
    }
    CHECK_EQ(told.len, DT_ALERTS_MOST + 10);
    happen(&b, DT_EVENT_HANG_OVER, "run3", NULL, 1000); /* forgotten */
    CHECK_EQ(told.len, DT_ALERTS_MOST + 10);
    happen(&b, DT_EVENT_HANG_OVER, "run77", NULL, 1000); /* its place is taken first */
    happen(&b, DT_EVENT_HANG, "late", NULL, 1001);
    CHECK_STR(said(told.len - 1), "hang raised late");
    happen(&b, DT_EVENT_HANG_OVER, "run10", NULL, 1002);
    CHECK_STR(said(told.len - 1), "hang over run10");
    dt_alert_book_finish(&b);
}

TEST(each_rule_is_raised_by_its_event_and_says_what_to_do)
{
    for (size_t i = 0; i < dt_alert_rules_len; i++) {
        const struct dt_alert_rule *r = &dt_alert_rules[i];
        CHECK(*r->name && *r->advice);
        CHECK(!(r->ended_by & UINT64_C(1) << r->raised_by));
        CHECK_EQ(r->times > 0, r->within > 0);
        CHECK(r->times <= DT_ALERT_TIMES_MOST);
        struct dt_alert_book b = open_book(DT_EVENT_INFO);
        for (int n = 0; n < 5; n++)
            happen(&b, r->raised_by, "a", "n", n);
        dt_alert_book_tick(&b, 4 + r->lasting);
        bool found = false;
        for (size_t n = 0; n < told.len; n++)
            found |= strcmp(told.at[n].rule, r->name) == 0;
        CHECK(found);
        CHECK_EQ(dt_alert_book_count(&b, r), r->ended_by ? 1 : found);
        dt_alert_book_finish(&b);
    }
}

/* The rules of those that NEXT finds, "hang straggler ". */
static const char *raised(const struct dt_alert_book *b)
{
    static char text[256];
    struct dt_notice n;
    size_t len = 0;
    text[0] = '\0';
    for (size_t cursor = 0; dt_alert_book_next_raised(b, &cursor, &n);)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s ", n.rule);
    return text;
}

TEST(what_is_raised_now_can_be_asked_for)
{
    struct dt_alert_book b = open_book(DT_EVENT_INFO);
    CHECK_STR(raised(&b), "");
    happen(&b, DT_EVENT_HANG, "a", NULL, 1000);
    happen(&b, DT_EVENT_STRAGGLER, "b", NULL, 1000);
    happen(&b, DT_EVENT_RUN_ENDED_BADLY, "c", NULL, 1000); /* a moment */
    happen(&b, DT_EVENT_SPARES_EXHAUSTED, "a", NULL, 1000);
    CHECK_STR(raised(&b), "hang straggler ");
    happen(&b, DT_EVENT_HANG_OVER, "a", NULL, 2000);
    CHECK_STR(raised(&b), "straggler ");
    dt_alert_book_tick(&b, 61000); /* no spare has come for a minute */
    CHECK_STR(raised(&b), "straggler spares_exhausted ");
    dt_alert_book_finish(&b);
}
