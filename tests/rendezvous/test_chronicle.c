/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/events/chronicle.h"
#include "tests/lib/check.h"

static void add(struct dt_chronicle *c, int round, const char *words)
{
    struct dt_event e = {.round = round, .rank = -1, .run = "a", .words = words};
    dt_chronicle_add(c, &e);
    CHECK_EQ(e.number, c->last);
}

TEST(events_are_numbered_and_found_again)
{
    struct dt_chronicle c;
    char words[] = "one";
    CHECK_EQ(dt_chronicle_init(&c), 0);
    CHECK(dt_chronicle_after(&c, 0) == NULL);
    add(&c, 1, words);
    words[0] = 'X'; /* the chronicle has a copy */
    add(&c, 2, "two");
    const struct dt_event *e = dt_chronicle_after(&c, 0);
    CHECK(e != NULL);
    CHECK_EQ(e->number, 1);
    CHECK_EQ(e->round, 1);
    CHECK_STR(e->words, "one");
    CHECK_STR(e->run, "a");
    CHECK(e->node == NULL);
    e = dt_chronicle_after(&c, e->number);
    CHECK(e != NULL);
    CHECK_EQ(e->number, 2);
    CHECK_STR(e->words, "two");
    CHECK(dt_chronicle_after(&c, 2) == NULL);
    CHECK(dt_chronicle_after(&c, UINT64_MAX) == NULL);
    dt_chronicle_finish(&c);
}

TEST(the_oldest_of_too_many_go)
{
    struct dt_chronicle c;
    int more = DT_CHRONICLE_MOST + DT_CHRONICLE_MOST / 2;
    CHECK_EQ(dt_chronicle_init(&c), 0);
    for (int i = 1; i <= more; i++)
        add(&c, i, "");
    CHECK_EQ(c.len, DT_CHRONICLE_MOST);
    uint64_t number = (uint64_t)(more - DT_CHRONICLE_MOST);
    CHECK_EQ(dt_chronicle_after(&c, 0)->number, number + 1);
    for (const struct dt_event *e; (e = dt_chronicle_after(&c, number)); number++) {
        CHECK_EQ(e->number, number + 1);
        CHECK_EQ(e->round, (int)number + 1);
    }
    CHECK_EQ(number, more);
    dt_chronicle_finish(&c);
}

TEST(the_oldest_go_when_bytes_are_too_many)
{
    struct dt_chronicle c;
    static char words[64 << 10];
    memset(words, 'w', sizeof words - 1);
    CHECK_EQ(dt_chronicle_init(&c), 0);
    for (int i = 1; i <= 100; i++) {
        add(&c, i, words);
        CHECK(c.bytes <= DT_CHRONICLE_MOST_BYTES);
    }
    CHECK_EQ(c.len, DT_CHRONICLE_MOST_BYTES / (64 << 10) - 1);
    CHECK_EQ(dt_chronicle_after(&c, 99)->number, 100);
    dt_chronicle_finish(&c);
}

struct listener {
    struct dt_chronicle_follower follower;
    int heard, leave_at;
    uint64_t last;
};

static void on_event(struct dt_chronicle_follower *f, const struct dt_event *e)
{
    struct listener *l = dt_container_of(f, struct listener, follower);
    l->last = e->number;
    if (++l->heard == l->leave_at)
        dt_chronicle_unfollow(f);
}

TEST(who_follows_hears_of_all_that_is_new)
{
    struct dt_chronicle c;
    struct listener first = {.follower.on_event = on_event, .leave_at = 1};
    struct listener second = {.follower.on_event = on_event}, never = {.heard = 0};
    CHECK_EQ(dt_chronicle_init(&c), 0);
    add(&c, 1, "before");
    dt_chronicle_follow(&c, &first.follower);
    dt_chronicle_follow(&c, &second.follower);
    add(&c, 2, "both");
    add(&c, 3, "one");
    CHECK_EQ(first.heard, 1);
    CHECK_EQ(first.last, 2);
    CHECK_EQ(second.heard, 2);
    CHECK_EQ(second.last, 3);
    dt_chronicle_unfollow(&second.follower);
    dt_chronicle_unfollow(&second.follower);
    dt_chronicle_unfollow(&never.follower);
    add(&c, 4, "none");
    CHECK_EQ(second.heard, 2);
    dt_chronicle_follow(&c, &second.follower);
    dt_chronicle_finish(&c);
    dt_chronicle_unfollow(&second.follower); /* who leaves late does no harm */
    dt_chronicle_finish(&c);
}

TEST(numbers_go_on_behind_what_is_restored)
{
    struct dt_chronicle c;
    struct dt_event e = {.number = 7, .round = 1, .rank = -1, .words = "old"};
    CHECK_EQ(dt_chronicle_init(&c), 0);
    CHECK(dt_chronicle_restore(&c, &e));
    CHECK(!dt_chronicle_restore(&c, &e));
    e.number = 6;
    CHECK(!dt_chronicle_restore(&c, &e));
    add(&c, 2, "new");
    CHECK_STR(dt_chronicle_after(&c, 0)->words, "old");
    CHECK_EQ(dt_chronicle_after(&c, 7)->number, 8);
    dt_chronicle_finish(&c);
}
