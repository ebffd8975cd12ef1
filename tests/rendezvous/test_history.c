/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/history.h"
#include "tests/lib/check.h"

static void add(struct dt_history *h, int round)
{
    struct dt_past_round past = {
        .round = round, .ended_us = 7, .lasted = 9, .lost = -1, .first_step = -1, .last_step = 41};
    snprintf(past.cause, sizeof past.cause, "node%d failed", round);
    CHECK(dt_history_add(h, &past) != NULL);
}

TEST(the_latest_rounds_are_kept)
{
    struct dt_history h = {0};
    CHECK(dt_history_last(&h) == NULL);
    for (int i = 0; i < 3 * DT_HISTORY_MOST; i++) {
        add(&h, i);
        CHECK_EQ(dt_history_last(&h)->round, i);
    }
    CHECK_EQ(h.len, DT_HISTORY_MOST);
    CHECK_EQ(h.at[0].round, 2 * DT_HISTORY_MOST);
    dt_history_finish(&h);
}

TEST(what_is_saved_is_there_again)
{
    struct dt_history h = {0}, again = {0};
    struct dt_buf saved = {0};
    for (int i = 0; i < 5; i++)
        add(&h, i);
    dt_history_save(&h, &saved);
    struct dt_reader in = dt_reader_over(saved.at, saved.len);
    CHECK(dt_history_restore(&again, &in));
    CHECK_EQ(dt_reader_left(&in), 0);
    CHECK_EQ(again.len, 5);
    CHECK_EQ(again.at[3].last_step, 41);
    CHECK_EQ(again.at[3].lost, -1);
    CHECK_STR(again.at[4].cause, "node4 failed");
    dt_history_finish(&again);
    dt_history_finish(&h);
    dt_buf_finish(&saved);
}

TEST(what_was_never_saved_is_refused)
{
    struct dt_history h = {0};
    struct dt_buf saved = {0};
    add(&h, 1);
    dt_history_save(&h, &saved);
    for (size_t cut = 0; cut < saved.len; cut++) {
        struct dt_history got = {0};
        struct dt_reader in = dt_reader_over(saved.at, cut);
        CHECK(!dt_history_restore(&got, &in));
        dt_history_finish(&got);
    }
    dt_buf_set_u32(&saved, 0, DT_HISTORY_MOST + 1);
    struct dt_history got = {0};
    struct dt_reader in = dt_reader_over(saved.at, saved.len);
    CHECK(!dt_history_restore(&got, &in));
    dt_history_finish(&got);
    dt_history_finish(&h);
    dt_buf_finish(&saved);
}
