/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/comeback.h"
#include "tests/lib/check.h"

TEST(a_run_that_was_never_there_is_not_waited_for)
{
    struct dt_ctl_comeback c = {0};
    CHECK(!dt_ctl_comeback_may(&c, 10, 1000));
}

TEST(a_run_that_was_there_is_waited_for_so_long)
{
    struct dt_ctl_comeback c = {0};
    dt_ctl_comeback_seen(&c);
    CHECK(dt_ctl_comeback_may(&c, 10, 1000));
    CHECK(dt_ctl_comeback_may(&c, 10, 1009));
    CHECK(!dt_ctl_comeback_may(&c, 10, 1010));
    dt_ctl_comeback_seen(&c);
    CHECK(dt_ctl_comeback_may(&c, 10, 1020));
}

TEST(the_time_in_which_nobody_answers_does_not_count)
{
    struct dt_ctl_comeback c = {0};
    dt_ctl_comeback_seen(&c);
    CHECK(dt_ctl_comeback_may(&c, 10, 1000));
    dt_ctl_comeback_away(&c);
    CHECK(dt_ctl_comeback_may(&c, 10, 5000));
    CHECK(!dt_ctl_comeback_may(&c, 10, 5010));
}
