/* SPDX-License-Identifier: Apache-2.0 */
/* ZeRO between hosts, of which this machine plays two. */
#include "tests/runtime/zero_story.h"

TEST(all_stages_have_the_same_bits_on_two_hosts_of_two)
{
    struct story s = story_of(0, 4, 1);
    s.per_host = 2;
    struct outcome *plain = story_run(s), *one_host = story_run(story_of(0, 4, 1));
    check_close(plain, one_host);
    for (s.o.stage = 1; s.o.stage < 4; s.o.stage++)
        check_ways(s, plain);
    outcome_destroy(one_host);
    outcome_destroy(plain);
}
