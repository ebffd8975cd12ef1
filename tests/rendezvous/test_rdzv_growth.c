/* SPDX-License-Identifier: Apache-2.0 */
/* Stories about one run: it takes nodes in that come while it runs. */
#include "tests/rendezvous/rdzv_story.h"

TEST(workers_of_a_round_that_grows_stop_together)
{
    begin_running(2, 2, 3);
    join(1002);
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(told[1], "stop-together ");
    end();
}

TEST(growth_ends_the_round_at_once_or_when_it_may)
{
    begin_running(2, 2, 3);
    run->spec.grow_interval = 60 * DT_SECOND;
    join(1002);
    CHECK_STR(told[2], "park ");
    CHECK_STR(told[0], "");
    pass(60 * DT_SECOND, 7, 1);
    CHECK_STR(told[0], "stop-together ");
    join(1000);
    join(1001);
    CHECK_STR(told[2], "park world 1:2/3 ");
    CHECK_EQ(world[0].restarts, 0);
    end();
}

TEST(nodes_that_come_one_after_the_other_are_taken_in_together)
{
    begin_running(2, 2, 8);
    run->spec.grow_interval = 5 * DT_SECOND;
    for (uint64_t i = 2; i < 6; i++) {
        join(1000 + i);
        CHECK_STR(told[i], "park ");
        CHECK(strstr(why[i], "joins it in about 5 s") != NULL);
        pass(1500, (2u << i) - 1, 1);
        CHECK_STR(told[0], "");
    }
    pass(3400, 0x3f, 1);
    CHECK_STR(told[0], "");
    pass(100, 0x3f, 1);
    CHECK_STR(told[0], "stop-together ");
    CHECK_STR(why[0], "node2 and 3 other nodes join");
    join(1000);
    join(1001);
    CHECK_STR(told[0], "stop-together world 1:0/6 ");
    end();
}

TEST(nobody_more_is_waited_for_when_a_growing_job_is_full)
{
    begin_running(2, 2, 4);
    run->spec.grow_interval = 5 * DT_SECOND;
    pass(5 * DT_SECOND, 3, 1);
    join(1002);
    CHECK_STR(told[0], "");
    join(1003);
    CHECK_STR(told[0], "stop-together ");
    end();
}

TEST(a_growing_job_waits_no_longer_than_a_last_call)
{
    begin_running(2, 2, 16);
    run->spec.grow_interval = 5 * DT_SECOND;
    run->spec.last_call = 10 * DT_SECOND;
    join(1002);
    for (uint64_t i = 3; i < 6; i++) {
        pass(3 * DT_SECOND, (1u << i) - 1, 1);
        join(1000 + i);
    }
    CHECK_STR(told[0], "");
    pass(DT_SECOND, 0x3f, 1);
    CHECK_STR(told[0], "stop-together ");
    end();
}

TEST(a_spare_that_missed_a_beat_is_taken_in_when_it_is_heard_again)
{
    begin(2, 3);
    spec.grow_interval = 100 * DT_SECOND;
    dt_exclude_drain(&exclude, "node3", false, "a fan is broken", now);
    join(1000);
    join(1001);
    pass(31 * DT_SECOND, 3, 1);
    join(1002);
    join(1003);
    pass(90 * DT_SECOND, 0xf, 1);
    pass(10 * DT_SECOND, 0xb, 1); /* node 2 is not heard of when its time has come */
    CHECK_STR(told[0], "world 0:0/2 ");
    beat(1002);
    CHECK_STR(told[0], "world 0:0/2 stop-together ");
    end();
}
