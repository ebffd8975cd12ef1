/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that a person drains, and lets in again. */
#include "tests/rendezvous/exclude_story.h"

TEST(a_person_drains_and_lets_in_again)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    CHECK_EQ(dt_exclude_drain(&x, "a", false, "memory is being replaced", 0), 0);
    CHECK_EQ(dt_exclude_drain(&x, "b", false, "", 0), 0);
    CHECK(dt_exclude_is_drained(&x, "a"));
    CHECK(is_out(&x, "a", 1000 * HOUR)); /* nothing but a person ends it */
    CHECK_STR(why_of(&x, "a", 0), "memory is being replaced");
    CHECK_STR(why_of(&x, "b", 0), "drained, and no reason was given");
    CHECK_EQ(note(&x, "a", OFFLINE, "", 1), DT_EXCLUDE_NOTHING); /* it is being worked on */
    CHECK_EQ(dt_exclude_drain(&x, "a", true, NULL, 2), 0);
    CHECK(!dt_exclude_is_drained(&x, "a"));
    CHECK(!is_out(&x, "a", 2));
    CHECK(is_out(&x, "b", 2));
    dt_exclude_finish(&x);
}

TEST(letting_in_takes_a_quarantine_back_with_all_that_led_to_it)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    for (int n = 0; n < 3; n++)
        note(&x, "a", CRASH, "", n);
    CHECK(is_out(&x, "a", 3));
    CHECK_EQ(dt_exclude_drain(&x, "a", true, NULL, 4), 0);
    CHECK(!is_out(&x, "a", 4));
    CHECK_EQ(dt_exclude_next(&x, 4), DT_FOREVER);
    CHECK_EQ(note(&x, "a", CRASH, "", 5), DT_EXCLUDE_STRIKE);
    CHECK(ban(&x, "a", 6) - 6 <= LONGEST_JITTERED);
    CHECK_EQ(dt_exclude_drain(&x, "never seen", true, NULL, 7), 0);
    CHECK(!dt_exclude_find(&x, "never seen"));
    dt_exclude_finish(&x);
}

static void fill_with_drained(struct dt_exclude *x)
{
    char name[16];
    for (int n = 0; n < DT_NODES_REMEMBERED; n++) {
        snprintf(name, sizeof name, "d%d", n);
        CHECK_EQ(dt_exclude_drain(x, name, false, "", 0), 0);
    }
}

/* Neither those that did something nor those that a person drained take the room of the others. */
TEST(strikes_and_people_are_counted_apart)
{
    struct dt_exclude x;
    char name[16];
    dt_exclude_init(&x, 1);
    fill_with_drained(&x);
    CHECK_EQ(dt_exclude_drain(&x, "new", false, "", 0), -1);
    CHECK_EQ(dt_exclude_drain(&x, "d7", false, "again", 0), 0);
    for (int n = 0; n < DT_NODES_REMEMBERED; n++) {
        snprintf(name, sizeof name, "n%d", n);
        CHECK_EQ(note(&x, name, CRASH, "", 0), DT_EXCLUDE_STRIKE);
    }
    CHECK_EQ(note(&x, "new", CRASH, "", 1), DT_EXCLUDE_NO_MEMORY);
    CHECK_EQ(dt_exclude_drain(&x, "n7", false, "", 1), -1);
    CHECK_EQ(dt_exclude_drain(&x, "d7", true, NULL, 1), 0);
    CHECK(!dt_exclude_find(&x, "d7"));
    CHECK_EQ(dt_exclude_drain(&x, "new", false, "", 1), 0);
    dt_exclude_finish(&x);
}
