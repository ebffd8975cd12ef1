/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/collapse.h"

#include "tests/lib/check.h"

#define MOMENT 50

struct said {
    struct dt_collapse *c;
    struct dt_buf out;
};

static void note(void *arg, struct dt_bytes line, const int *ranks, size_t count)
{
    struct said *s = arg;
    for (size_t i = 0; i < count; i++)
        dt_buf_printf(&s->out, "%d", ranks[i]);
    dt_buf_put_u8(&s->out, ':');
    dt_buf_put(&s->out, line.at, line.len);
    dt_buf_put_u8(&s->out, ' ');
}

static void say(struct said *s, int rank, const char *line, dt_ms now)
{
    dt_collapse_put(s->c, rank, dt_bytes_of(line), now, note, s);
}

static void check_said(struct said *s, const char *wanted)
{
    CHECK_STR(dt_buf_cstr(&s->out), wanted);
    dt_buf_clear(&s->out);
}

static struct said begin(int ranks)
{
    return (struct said){.c = dt_collapse_create(ranks, MOMENT)};
}

static void end(struct said *s)
{
    dt_collapse_destroy(s->c);
    dt_buf_finish(&s->out);
}

TEST(what_all_say_is_said_once_and_at_once)
{
    struct said s = begin(3);
    CHECK_EQ(dt_collapse_due(s.c), DT_FOREVER);
    say(&s, 2, "hello", 1000);
    say(&s, 0, "hello", 1010);
    check_said(&s, "");
    CHECK_EQ(dt_collapse_due(s.c), 1000 + MOMENT);
    say(&s, 1, "hello", 1020);
    check_said(&s, "012:hello ");
    CHECK_EQ(dt_collapse_due(s.c), DT_FOREVER);
    end(&s);
}

TEST(what_some_say_waits_a_moment_for_the_others)
{
    struct said s = begin(4);
    say(&s, 3, "a", 0);
    say(&s, 1, "a", 49);
    dt_collapse_pass_due(s.c, 49, note, &s);
    check_said(&s, "");
    say(&s, 0, "a", 50);
    check_said(&s, "13:a ");
    dt_collapse_pass_due(s.c, 100, note, &s);
    check_said(&s, "0:a ");
    end(&s);
}

TEST(a_ranks_lines_keep_their_order)
{
    struct said s = begin(2);
    say(&s, 0, "a", 0);
    say(&s, 0, "b", 1);
    say(&s, 0, "a", 2); /* not the first one: that was before b */
    say(&s, 1, "b", 3); /* b is complete now, but a is before it */
    say(&s, 1, "a", 4); /* the one behind b */
    check_said(&s, "");
    dt_collapse_pass_due(s.c, MOMENT, note, &s);
    check_said(&s, "0:a 01:b 01:a ");
    end(&s);
}

TEST(a_flood_is_passed_on_and_not_held)
{
    struct said s = begin(2);
    struct dt_buf wanted = {0};
    char line[20];
    for (int i = 0; i < 10000; i++) {
        snprintf(line, sizeof line, "%d", i);
        say(&s, 0, line, 0);
        dt_buf_printf(&wanted, "0:%d ", i);
    }
    CHECK(s.out.len > wanted.len / 2);
    dt_collapse_pass_all(s.c, note, &s);
    CHECK_BYTES(s.out.at, s.out.len, wanted.at, wanted.len);
    dt_buf_finish(&wanted);
    end(&s);
}
