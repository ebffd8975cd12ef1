/* SPDX-License-Identifier: Apache-2.0 */
/* How often a step is kept, by what copies and steps take. */
#include "tests/lib/check.h"
#include "worker_runtime/vault/pace.h"

TEST(copies_take_no_more_than_their_share)
{
    static const struct {
        const char *name;
        double copy[5], step; /* seconds */
        int64_t every;
    } rows[] = {
        {"cheap", {0.01, 0.01, 0.01, 0.01, 0.01}, 1, 1},
        {"just what it may", {0.02, 0.02, 0.02, 0.02, 0.02}, 1, 1},
        {"three times that", {0.06, 0.06, 0.06, 0.06, 0.06}, 1, 3},
        {"a little more", {0.061, 0.061, 0.061, 0.061, 0.061}, 1, 4},
        {"memory is new to the first two", {9, 9, 0.01, 0.01, 0.01}, 1, 1},
        {"their mean counts", {0, 0, 0.01, 0.02, 0.03}, 1, 1},
        {"longer than a step", {1, 1, 1, 1, 1}, 0.1, 500},
        {"nothing but copies", {1, 1, 1, 1, 1}, 1e-9, DT_VAULT_EVERY_MOST},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        CHECK_ROW("%s", rows[r].name);
        struct dt_vault_pace p;
        dt_vault_pace_init(&p, 0);
        for (int i = 0; i < 5; i++) {
            CHECK_EQ(p.every, 1);
            double copy = rows[r].copy[i] > 0 ? rows[r].copy[i] : 5;
            CHECK_EQ(dt_vault_pace_note(&p, copy, rows[r].step), i == 4);
        }
        CHECK_EQ(p.every, rows[r].every);
        CHECK(!dt_vault_pace_note(&p, 100, 1)); /* it stays */
        CHECK_EQ(p.every, rows[r].every);
    }
}

TEST(what_was_not_measured_does_not_count)
{
    struct dt_vault_pace p;
    dt_vault_pace_init(&p, 0);
    for (int i = 0; i < 20; i++)
        CHECK(!dt_vault_pace_note(&p, i % 2 ? 0 : 1, i % 2 ? 1 : 0));
    CHECK(!p.settled);
}

TEST(what_a_person_asked_for_stays)
{
    struct dt_vault_pace p;
    dt_vault_pace_init(&p, 7);
    for (int i = 0; i < 20; i++)
        CHECK(!dt_vault_pace_note(&p, 1, 1));
    CHECK_EQ(p.every, 7);
}
