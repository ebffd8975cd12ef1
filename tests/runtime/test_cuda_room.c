/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/memory/room.h"

#include "tests/lib/check.h"

#define GIB ((size_t)1 << 30)

struct look {
    dt_ms at;
    size_t left; /* GiB of 80 */
    bool waits;
};

static void check_looks(const struct look *looks, size_t n)
{
    struct dt_cuda_room room;
    dt_cuda_room_begin(&room, 5000);
    for (size_t i = 0; i < n; i++) {
        CHECK_ROW("after %d ms %d GiB are free", (int)looks[i].at, (int)looks[i].left);
        CHECK_EQ(dt_cuda_room_waits(&room, looks[i].left * GIB, 80 * GIB, 5000 + looks[i].at),
                 looks[i].waits);
    }
}

#define LOOKS(...)                                                                                 \
    check_looks((struct look[]){__VA_ARGS__},                                                      \
                sizeof((struct look[]){__VA_ARGS__}) / sizeof(struct look))

TEST(an_empty_gpu_is_not_waited_for)
{
    LOOKS({0, 79, false});
}

TEST(memory_that_is_being_freed_is_waited_for_until_it_is_there)
{
    LOOKS({0, 5, true}, {100, 5, true}, {900, 30, true}, {1800, 60, true}, {2700, 79, false});
}

TEST(who_shares_a_gpu_waits_a_second_for_what_does_not_come)
{
    LOOKS({0, 60, true}, {500, 60, true}, {999, 60, true}, {1000, 60, false});
}

TEST(memory_that_rises_to_a_share_is_enough_a_second_after)
{
    LOOKS({0, 20, true}, {2000, 20, true}, {3000, 60, true}, {3900, 60, true}, {4000, 60, false});
}

TEST(a_gpu_that_stays_full_is_waited_for_ten_seconds_and_no_more)
{
    LOOKS({0, 5, true}, {5000, 5, true}, {9999, 5, true}, {10000, 5, false});
}

TEST(falling_memory_is_no_reason_to_wait)
{
    LOOKS({0, 60, true}, {500, 50, true}, {1000, 45, false});
}

TEST(what_a_desktop_takes_is_not_worth_a_word)
{
    CHECK(!dt_cuda_room_is_shared(79 * GIB, 80 * GIB));
    CHECK(!dt_cuda_room_is_shared(7 * GIB, 8 * GIB));
    CHECK(dt_cuda_room_is_shared(60 * GIB, 80 * GIB));
    CHECK(dt_cuda_room_is_shared(0, 80 * GIB));
}

/* A device that does not tell is taken as it is. */
TEST(no_figures_are_no_reason_to_wait)
{
    struct dt_cuda_room room;
    dt_cuda_room_begin(&room, 0);
    CHECK(!dt_cuda_room_waits(&room, 0, 0, 0));
}
