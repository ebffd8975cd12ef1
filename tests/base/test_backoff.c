/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"
#include "tests/lib/check.h"

TEST(pauses_grow_within_half_to_one_and_a_half_and_stop_growing)
{
    struct dt_backoff b = {.first = 100, .most = 1000, .seed = 7};
    for (int i = 0; i < 50; i++) {
        dt_ms middle = b.next ? b.next : b.first, before = middle;
        dt_ms pause = dt_backoff_next(&b);
        CHECK_ROW("attempt %d", i);
        CHECK(pause >= middle / 2 && pause <= middle / 2 + middle);
        CHECK(b.next > before || b.next == 1000);
    }
    CHECK_EQ(b.next, 1000);
    dt_backoff_reset(&b);
    dt_ms again = dt_backoff_next(&b);
    CHECK(again >= 50 && again <= 150);
}

TEST(two_seeds_do_not_march_in_step)
{
    struct dt_backoff a = {.first = 100, .most = 60000, .seed = 1},
                      b = {.first = 100, .most = 60000, .seed = 2};
    int same = 0;
    for (int i = 0; i < 20; i++)
        same += dt_backoff_next(&a) == dt_backoff_next(&b);
    CHECK(same < 10);
}

TEST(a_pause_is_never_nothing)
{
    struct dt_backoff b = {.first = 1, .most = 1, .seed = 3};
    for (int i = 0; i < 100; i++)
        CHECK(dt_backoff_next(&b) >= 1);
}
