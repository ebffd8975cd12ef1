/* SPDX-License-Identifier: Apache-2.0 */
#include "base/transfer/pace.h"

#include "tests/lib/check.h"

#define SECOND ((int64_t)1000000000)
#define RATE ((uint64_t)1 << 20)

/* What SENDERS get from FROM to UNTIL, each of which asks for WANT whenever it may. */
static uint64_t sent(struct dt_pace *p, int senders, size_t want, int64_t from, int64_t until)
{
    uint64_t all = 0;
    for (int64_t now = from; now < until; now += SECOND / 1000)
        for (int i = 0; i < senders; i++)
            all += dt_pace_take(p, RATE, want, now);
    return all;
}

TEST(all_who_send_share_one_limit)
{
    static const struct {
        int senders;
        size_t want;
    } rows[] = {{1, 100}, {1, 1 << 19}, {4, 1 << 19}, {4, 1000}, {9, 16384}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_pace p = {0};
        uint64_t n = sent(&p, rows[i].senders, rows[i].want, 5 * SECOND, 15 * SECOND);
        uint64_t asked = (uint64_t)rows[i].senders * rows[i].want * 10000;
        uint64_t want = asked < 10 * RATE ? asked : 10 * RATE;
        CHECK(n <= 10 * RATE + RATE / 8);
        CHECK(n >= want - want / 100);
    }
}

TEST(time_in_which_nobody_sent_is_not_made_up_for)
{
    struct dt_pace p = {0};
    sent(&p, 1, 1 << 19, SECOND, 2 * SECOND);
    CHECK(sent(&p, 1, 1 << 19, 100 * SECOND, 101 * SECOND) <= RATE + RATE / 8);
}

TEST(a_tiny_limit_is_a_byte_at_a_time)
{
    struct dt_pace p = {0};
    CHECK_EQ(dt_pace_take(&p, 1, 1000, 10 * SECOND), 1);
    CHECK_EQ(dt_pace_take(&p, 1, 1000, 10 * SECOND + SECOND / 2), 0);
    CHECK_EQ(dt_pace_take(&p, 1, 1000, 11 * SECOND), 1);
}
