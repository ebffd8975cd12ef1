/* SPDX-License-Identifier: Apache-2.0 */
/* What owns handles ends once, when the last of them has closed. */
#include "base/loop/ending.h"
#include "base/list.h"
#include "tests/lib/check.h"

struct owner {
    uv_loop_t loop;
    uv_timer_t timer;
    uv_idle_t idle;
    struct dt_ending ending;
    char told[8]; /* r(eleased), c(losed) */
};

static void note(struct owner *o, char what)
{
    o->told[strlen(o->told)] = what;
}

static void release(void *owner)
{
    note(owner, 'r');
}

static void on_closed(void *arg)
{
    note(arg, 'c');
}

static void begin(struct owner *o)
{
    *o = (struct owner){0};
    uv_loop_init(&o->loop);
    uv_timer_init(&o->loop, &o->timer);
    uv_idle_init(&o->loop, &o->idle);
}

static void end(struct owner *o)
{
    uv_run(&o->loop, UV_RUN_DEFAULT);
    CHECK_EQ(uv_loop_close(&o->loop), 0);
}

TEST(an_owner_is_released_and_then_told_of_once_all_is_closed)
{
    struct owner o;
    begin(&o);
    dt_ending_begin(&o.ending, release, &o, on_closed, &o);
    dt_ending_close(&o.ending, &o.timer);
    dt_ending_close(&o.ending, &o.idle);
    CHECK_STR(o.told, "");
    end(&o);
    CHECK_STR(o.told, "rc");
}

TEST(what_closes_before_the_end_begins_is_no_end)
{
    struct owner o;
    begin(&o);
    dt_ending_close(&o.ending, &o.timer);
    uv_run(&o.loop, UV_RUN_DEFAULT);
    CHECK_STR(o.told, "");
    dt_ending_begin(&o.ending, release, &o, on_closed, &o);
    dt_ending_close(&o.ending, &o.idle);
    end(&o);
    CHECK_STR(o.told, "rc");
}

TEST(a_member_that_closes_by_itself_is_waited_for)
{
    struct owner o;
    begin(&o);
    struct dt_ending *member = dt_ending_add(&o.ending);
    dt_ending_begin(&o.ending, NULL, NULL, on_closed, &o);
    dt_ending_close(&o.ending, &o.timer);
    dt_ending_close(&o.ending, &o.idle);
    end(&o);
    CHECK_STR(o.told, "");
    dt_ending_step(member);
    CHECK_STR(o.told, "c");
}

TEST(nobody_has_to_be_told)
{
    struct owner o;
    begin(&o);
    dt_ending_begin(&o.ending, release, &o, NULL, NULL);
    dt_ending_close(&o.ending, &o.timer);
    dt_ending_close(&o.ending, &o.idle);
    end(&o);
    CHECK_STR(o.told, "r");
}
