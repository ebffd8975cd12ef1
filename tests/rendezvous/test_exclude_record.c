/* SPDX-License-Identifier: Apache-2.0 */
/* Records of nodes, as the journal keeps them over a restart. */
#include "tests/rendezvous/exclude_story.h"

/* A node with all a record can hold: it was out, came back, is out again for a strike, has another,
 * and then somebody drained it. */
static void fill(struct dt_exclude *x)
{
    dt_exclude_init(x, 1);
    dt_ms back = ban(x, "a", 0);
    note(x, "a", CRASH, "s", back + 1);
    note(x, "a", CRASH, "t", back + 2);
    dt_exclude_drain(x, "a", false, "dust", back + 3);
}

static struct dt_buf saved(const struct dt_exclude *x, const char *node, dt_ms now)
{
    struct dt_buf out = {0};
    dt_exclude_save(dt_exclude_find(x, node), &out, now);
    CHECK(!out.bad);
    return out;
}

static struct dt_bytes bytes_of(const struct dt_buf *b)
{
    return (struct dt_bytes){b->at, b->len};
}

TEST(a_record_comes_back_as_it_was_under_another_clock)
{
    struct dt_exclude x, y;
    fill(&x);
    dt_exclude_init(&y, 2);
    dt_ms then = LONGEST_JITTERED + MINUTE, now = 17;
    struct dt_buf record = saved(&x, "a", then);
    CHECK(dt_exclude_restore(&y, bytes_of(&record), now, 0));
    const struct dt_excluded *a = dt_exclude_find(&x, "a"), *b = dt_exclude_find(&y, "a");
    CHECK_EQ(b->until - now, a->until - then);
    CHECK_EQ(b->since - now, a->since - then);
    CHECK_EQ(b->probation - now, a->probation - then);
    CHECK_EQ(b->bans, 2);
    CHECK_STR(b->why, a->why);
    CHECK_STR(b->drained_why, "dust");
    CHECK(b->drained);
    CHECK_EQ(b->strikes, 2);
    CHECK_EQ(b->strike[1].at - now, a->strike[1].at - then);
    CHECK_EQ(b->strike[1].signature, a->strike[1].signature);
    CHECK_EQ(dt_exclude_next(&y, now), b->until);
    struct dt_buf again = saved(&y, "a", now);
    CHECK_BYTES(again.at, again.len, record.at, record.len);
    dt_buf_finish(&record);
    dt_buf_finish(&again);
    dt_exclude_finish(&x);
    dt_exclude_finish(&y);
}

TEST(time_goes_by_while_the_server_is_away)
{
    enum { OUT = 1, PROBATION = 2, STRIKES = 4 };
    static const struct {
        dt_ms away;
        int still;
    } rows[] = {
        {-HOUR, OUT | PROBATION | STRIKES}, /* the wall clock was set back */
        {0, OUT | PROBATION | STRIKES},
        {9 * MINUTE, OUT | PROBATION | STRIKES},
        {12 * MINUTE, PROBATION | STRIKES},
        {HOUR, PROBATION},
        {DT_PROBATION, PROBATION},
        {DT_PROBATION + 12 * MINUTE, 0},
        {INT64_MAX, 0},
        {INT64_MIN, OUT | PROBATION | STRIKES},
    };
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    for (int n = 0; n < 3; n++)
        note(&x, "a", CRASH, "s", HOUR);
    struct dt_buf record = saved(&x, "a", HOUR);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("away for %lld ms", (long long)rows[i].away);
        struct dt_exclude y;
        dt_exclude_init(&y, 2);
        CHECK(dt_exclude_restore(&y, bytes_of(&record), 3, rows[i].away));
        const struct dt_excluded *e = dt_exclude_find(&y, "a");
        CHECK_EQ(is_out(&y, "a", 3), (rows[i].still & OUT) != 0);
        CHECK_EQ(dt_exclude_next(&y, 3) != DT_FOREVER, (rows[i].still & OUT) != 0);
        CHECK_EQ(e->probation > 3, (rows[i].still & PROBATION) != 0);
        CHECK_EQ(e->strikes, rows[i].still & STRIKES ? 3 : 0);
        CHECK_EQ(e->bans, 1);
        dt_exclude_finish(&y);
    }
    dt_buf_finish(&record);
    dt_exclude_finish(&x);
}

TEST(a_strike_is_known_for_the_same_after_a_restart)
{
    struct dt_exclude x, y;
    dt_exclude_init(&x, 1);
    dt_exclude_init(&y, 2);
    for (int n = 0; n < 3; n++)
        note(&x, "a", CRASH, "s", n);
    struct dt_buf record = saved(&x, "a", 3);
    CHECK(dt_exclude_restore(&y, bytes_of(&record), 1000, 5));
    note(&y, "b", CRASH, "s", 1001);
    CHECK(is_out(&y, "a", 1001));
    CHECK_EQ(note(&y, "c", CRASH, "s", 1002), DT_EXCLUDE_FORGIVEN);
    CHECK(!is_out(&y, "a", 1002));
    dt_buf_finish(&record);
    dt_exclude_finish(&x);
    dt_exclude_finish(&y);
}

TEST(the_later_record_of_a_node_counts)
{
    struct dt_exclude x, y;
    dt_exclude_init(&x, 1);
    dt_exclude_init(&y, 2);
    note(&x, "a", CRASH, "", 0);
    struct dt_buf blank = saved(&x, "a", HOUR); /* the strike is too old to count */
    ban(&x, "a", 0);
    struct dt_buf banned = saved(&x, "a", 1);
    for (int n = 0; n < 2; n++) {
        CHECK(dt_exclude_restore(&y, bytes_of(&banned), 0, 0));
        CHECK(is_out(&y, "a", 0));
    }
    CHECK(dt_exclude_restore(&y, bytes_of(&blank), 0, 0));
    CHECK(!is_out(&y, "a", 0));
    CHECK_EQ(dt_exclude_next(&y, 0), DT_FOREVER);
    CHECK_EQ(y.nodes.count, 1);
    dt_buf_finish(&banned);
    dt_buf_finish(&blank);
    dt_exclude_finish(&x);
    dt_exclude_finish(&y);
}

static int count_drained(const struct dt_exclude *x)
{
    int count = 0;
    dt_list_each(&x->drained, n) count +=
        dt_container_of(n, struct dt_excluded, in_drained)->drained;
    CHECK_EQ(x->drained_count, count);
    return count;
}

/* The rendezvous counts by the list what a look-up would tell it of each node. */
TEST(who_is_drained_is_on_the_list_once_however_it_came_there)
{
    struct dt_exclude x;
    dt_exclude_init(&x, 1);
    dt_exclude_drain(&x, "a", false, "", 0);
    dt_exclude_drain(&x, "a", false, "another reason", 1);
    dt_exclude_drain(&x, "b", false, "", 2);
    CHECK_EQ(count_drained(&x), 2);
    struct dt_buf drained = saved(&x, "a", 3);
    CHECK(dt_exclude_restore(&x, bytes_of(&drained), 3, 0));
    CHECK_EQ(count_drained(&x), 2);
    dt_exclude_drain(&x, "a", true, NULL, 4);
    CHECK_EQ(count_drained(&x), 1);
    CHECK(dt_exclude_restore(&x, bytes_of(&drained), 5, 0));
    CHECK_EQ(count_drained(&x), 2);
    dt_buf_finish(&drained);
    dt_exclude_finish(&x);
}

TEST(a_record_that_is_cut_anywhere_is_none)
{
    struct dt_exclude x, y;
    fill(&x);
    dt_exclude_init(&y, 2);
    struct dt_buf record = saved(&x, "a", LONGEST_JITTERED + MINUTE);
    for (size_t len = 0; len < record.len; len++) {
        CHECK_ROW("%zu of %zu bytes", len, record.len);
        uint8_t *cut = malloc(len ? len : 1); /* its own, so that a sanitizer sees reading on */
        memcpy(cut, record.at, len);
        CHECK(!dt_exclude_restore(&y, (struct dt_bytes){cut, len}, 0, 0));
        free(cut);
    }
    CHECK_EQ(y.nodes.count, 0);
    dt_buf_put_u8(&record, 0);
    CHECK(!dt_exclude_restore(&y, bytes_of(&record), 0, 0)); /* nor one with a tail */
    dt_buf_finish(&record);
    dt_exclude_finish(&x);
    dt_exclude_finish(&y);
}

/* Every byte, every bit: refused, or something that can be saved and read again. */
TEST(a_record_with_a_flipped_bit_is_none_or_a_sound_one)
{
    struct dt_exclude x;
    int refused = 0, taken = 0;
    fill(&x);
    struct dt_buf record = saved(&x, "a", LONGEST_JITTERED + MINUTE);
    for (size_t bit = 0; bit < record.len * 8; bit++) {
        CHECK_ROW("byte %zu, bit %zu", bit / 8, bit % 8);
        struct dt_exclude y;
        dt_exclude_init(&y, 2);
        record.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (!dt_exclude_restore(&y, bytes_of(&record), 0, MINUTE)) {
            refused++;
            CHECK_EQ(y.nodes.count, 0);
        } else {
            size_t cursor = 0;
            const struct dt_excluded *e = dt_map_next(&y.nodes, &cursor);
            struct dt_buf again = {0};
            taken++;
            dt_exclude_save(e, &again, 0);
            CHECK(dt_exclude_restore(&y, bytes_of(&again), 0, 0));
            dt_buf_finish(&again);
        }
        record.at[bit / 8] ^= (uint8_t)(1 << bit % 8);
        dt_exclude_finish(&y);
    }
    CHECK(refused > 100 && taken > 100);
    dt_buf_finish(&record);
    dt_exclude_finish(&x);
}
