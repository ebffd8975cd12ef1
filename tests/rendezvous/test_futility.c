/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/futility.h"
#include "tests/lib/check.h"

#define MAY DT_RETRY_MAY_HELP
#define SELDOM DT_RETRY_SELDOM_HELPS
#define CANNOT DT_RETRY_CANNOT_HELP

TEST(what_fails_twice_in_the_same_way_at_the_same_place_before_any_step_does_so_again)
{
    static const struct {
        const char *story;
        struct dt_result first, second;
        enum dt_futility_answer wanted;
    } rows[] = {
    /* clang-format off */
#define FAILS(retry_, early_, place_, signature_) \
    {.retry = retry_, .early = early_, .place = place_, .signature = signature_}
        {"the same twice",     FAILS(SELDOM, true, "a.py:3", "exit 1: E"), FAILS(SELDOM, true, "a.py:3", "exit 1: E"), DT_FUTILITY_REPEATED},
        {"another error",      FAILS(SELDOM, true, "a.py:3", "exit 1: E"), FAILS(SELDOM, true, "a.py:3", "exit 1: F"), DT_FUTILITY_NOT_KNOWN},
        {"another place",      FAILS(SELDOM, true, "a.py:3", "exit 1: E"), FAILS(SELDOM, true, "a.py:4", "exit 1: E"), DT_FUTILITY_NOT_KNOWN},
        {"no place",           FAILS(SELDOM, true, "", "SIGSEGV"),         FAILS(SELDOM, true, "", "SIGSEGV"),         DT_FUTILITY_NOT_KNOWN},
        {"after a step",       FAILS(SELDOM, false, "a.py:3", "exit 1: E"), FAILS(SELDOM, false, "a.py:3", "exit 1: E"), DT_FUTILITY_NOT_KNOWN},
        {"then after a step",  FAILS(SELDOM, true, "a.py:3", "exit 1: E"), FAILS(SELDOM, false, "a.py:3", "exit 1: E"), DT_FUTILITY_NOT_KNOWN},
        {"what comes and goes", FAILS(MAY, true, "a.py:3", "exit 1: E"),   FAILS(MAY, true, "a.py:3", "exit 1: E"),    DT_FUTILITY_NOT_KNOWN},
        {"no script",          FAILS(MAY, true, "", ""),                   FAILS(CANNOT, true, "", "exit 2"),          DT_FUTILITY_OF_KIND},
        {"a late module",      FAILS(MAY, true, "", ""),                   FAILS(CANNOT, false, "a.py:3", "exit 1"),   DT_FUTILITY_NOT_KNOWN},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_futility f = {0};
        CHECK_ROW("%s", rows[i].story);
        CHECK_EQ(dt_futility_note(&f, &rows[i].first), DT_FUTILITY_NOT_KNOWN);
        CHECK_EQ(dt_futility_note(&f, &rows[i].second), rows[i].wanted);
    }
}

TEST(another_failure_between_two_begins_anew)
{
    static const struct dt_result same = FAILS(SELDOM, true, "a.py:3", "exit 1: E");
    static const struct dt_result other = FAILS(MAY, true, "", "SIGKILL");
    struct dt_futility f = {0};
    CHECK_EQ(dt_futility_note(&f, &same), DT_FUTILITY_NOT_KNOWN);
    CHECK_EQ(dt_futility_note(&f, &other), DT_FUTILITY_NOT_KNOWN);
    CHECK_EQ(dt_futility_note(&f, &same), DT_FUTILITY_NOT_KNOWN);
    CHECK_EQ(dt_futility_note(&f, &same), DT_FUTILITY_REPEATED);
}

TEST(each_answer_names_the_way_back)
{
    CHECK_STR(dt_futility_text(DT_FUTILITY_NOT_KNOWN), "");
    CHECK(strstr(dt_futility_text(DT_FUTILITY_OF_KIND), "--retry-deterministic"));
    CHECK(strstr(dt_futility_text(DT_FUTILITY_REPEATED), "--retry-deterministic"));
}
