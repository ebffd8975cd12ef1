/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/fleet/roll.h"
#include "tests/lib/check.h"

static struct dt_roll begun(size_t count, size_t least, size_t wanted)
{
    struct dt_roll r;
    struct dt_err err;
    CHECK_OK(dt_roll_init(&r, count, least, wanted, &err), err);
    for (size_t i = 0; i < count; i++) {
        CHECK(!dt_roll_is_complete(&r));
        dt_roll_note_here(&r, i);
    }
    CHECK(dt_roll_is_complete(&r));
    for (size_t i = 0; i < count; i++)
        dt_roll_note_begins(&r, i);
    return r;
}

TEST(a_job_that_goes_well)
{
    struct dt_roll r = begun(3, 3, 3);
    for (size_t i = 0; i < 3; i++) {
        CHECK(!dt_roll_is_empty(&r));
        dt_roll_note_left(&r, i, 0, false);
        CHECK(!dt_roll_is_short(&r));
    }
    CHECK(dt_roll_is_empty(&r));
    CHECK_EQ(dt_roll_status(&r), 0);
    dt_roll_finish(&r);
}

/* How hosts leave, in this order: the number of a host and how it ended, a status or x for one that
 * was cut off; "?" is when all are told that the job is lost, "!" when they are told to end. */
static void play(struct dt_roll *r, const char *story)
{
    for (const char *s = story; *s; s += strcspn(s, " "), s += *s == ' ') {
        if (*s == '!')
            dt_roll_note_dismissed(r);
        else if (*s == '?')
            dt_roll_note_lost(r);
        else
            dt_roll_note_left(r, (size_t)(*s - '0'), s[2] == 'x' ? 255 : s[2] - '0', s[2] == 'x');
    }
}

TEST(which_failure_counts)
{
    static const struct {
        size_t hosts, least;
        const char *story;
        int status, first;
    } rows[] = {
        {2, 2, "1:3 0:1", 3, 1},     {2, 2, "0:1 1:3", 3, 1}, /* 1 may only say that another one
                                                                 failed */
        {2, 2, "0:1 1:1", 1, 0},     {3, 3, "2:4 0:3 1:1", 4, 2}, {2, 2, "0:2 1:0", 2, 0},
        {2, 2, "1:5 ! 0:7", 5, 1}, /* that was our doing */
        {2, 2, "0:1 ? 1:7", 7, 1},   {2, 2, "0:x ? 1:7", 7, 1},   {2, 2, "0:x ? 1:1", 1, 2},
        {2, 2, "! 0:1 1:1", 1, 2},   {2, 2, "! 0:0 1:0", 0, 2},   {2, 2, "0:x 1:1", 1, 1},
        {2, 2, "0:x 1:0", 1, 2}, /* nobody knows how a host ended that the job needed */
        {3, 2, "0:x 1:0 2:0", 0, 3}, {3, 2, "0:x 1:x 2:0", 1, 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].story);
        struct dt_roll r = begun(rows[i].hosts, rows[i].least, rows[i].least);
        play(&r, rows[i].story);
        CHECK(dt_roll_is_empty(&r));
        CHECK_EQ(dt_roll_status(&r), rows[i].status);
        CHECK_EQ(r.first, rows[i].first);
        dt_roll_finish(&r);
    }
}

TEST(a_job_is_short_when_too_few_are_left)
{
    struct dt_roll r = begun(3, 2, 2);
    dt_roll_note_left(&r, 0, 255, true);
    CHECK(!dt_roll_is_short(&r));
    dt_roll_note_left(&r, 1, 0, false); /* it has done its work */
    CHECK(!dt_roll_is_short(&r));
    dt_roll_note_left(&r, 2, 255, true);
    CHECK(dt_roll_is_short(&r));
    CHECK_EQ(dt_roll_left_over(&r), 1);
    dt_roll_finish(&r);
}

TEST(a_host_that_never_came)
{
    struct dt_roll r;
    struct dt_err err;
    CHECK_OK(dt_roll_init(&r, 2, 2, 2, &err), err);
    dt_roll_note_here(&r, 0);
    dt_roll_note_left(&r, 1, 127, false); /* a shell's word for a missing program */
    CHECK(!dt_roll_is_complete(&r));
    dt_roll_note_dismissed(&r);
    dt_roll_note_left(&r, 0, -15, true);
    CHECK(dt_roll_is_empty(&r));
    CHECK_EQ(dt_roll_status(&r), 1);
    dt_roll_finish(&r);
}

/* Nobody is needed to go on, and all are wanted for a good end. */
TEST(a_doctor)
{
    static const struct {
        const char *story;
        int status;
    } rows[] = {
        {"0:0 1:0", 0}, {"0:3 1:3", 3}, {"0:1 1:1", 1}, {"0:0 1:x", 1},   {"0:3 1:1", 1},
        {"0:1 1:3", 1}, {"0:3 1:0", 3}, {"0:x 1:x", 1}, {"! 0:1 1:1", 1}, {"0:0 ! 1:1", 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].story);
        struct dt_roll r = begun(2, 0, 2);
        r.vague = 3; /* a warning */
        play(&r, rows[i].story);
        CHECK(!dt_roll_is_short(&r));
        CHECK_EQ(dt_roll_status(&r), rows[i].status);
        dt_roll_finish(&r);
    }
}

TEST(a_doctor_whose_host_never_came)
{
    struct dt_roll r;
    struct dt_err err;
    CHECK_OK(dt_roll_init(&r, 2, 0, 2, &err), err);
    dt_roll_note_here(&r, 0);
    dt_roll_note_left(&r, 1, 255, true);
    dt_roll_note_dismissed(&r);
    dt_roll_note_left(&r, 0, -15, true);
    CHECK_EQ(dt_roll_status(&r), 1);
    dt_roll_finish(&r);
}
