/* SPDX-License-Identifier: Apache-2.0 */
/* Stage 3 between hosts: which units are whole, when, and for how long. */
#include "tests/runtime/zero_story.h"
#include "worker_runtime/zero/trace.h"

static void use(struct dt_trace *t, const char *units)
{
    struct dt_err err = {0};
    dt_trace_begin(t);
    for (; *units; units++)
        CHECK_OK(dt_trace_note(t, (size_t)(*units - 'a'), &err), err);
}

static size_t note(struct dt_trace *t, char unit, const size_t *sizes)
{
    struct dt_err err = {0};
    CHECK_OK(dt_trace_note(t, (size_t)(unit - 'a'), &err), err);
    return dt_trace_distance(t, (size_t)(unit - 'a'), sizes);
}

TEST(the_order_of_a_micro_step_foretells_the_next)
{
    struct dt_trace t = {0};
    static const size_t sizes[] = {100, 10, 1};
    size_t next = 99;
    use(&t, "abc");
    CHECK(!dt_trace_ahead(&t, 0, &next));
    use(&t, "abccba");
    CHECK(!dt_trace_ahead(&t, 0, &next)); /* it was to end there */
    dt_trace_begin(&t);
    CHECK(dt_trace_ahead(&t, 0, &next));
    CHECK_EQ(next, 0);
    CHECK_EQ(note(&t, 'a', sizes), 10 + 1 + 1 + 10);
    CHECK_EQ(note(&t, 'b', sizes), 2);
    CHECK_EQ(note(&t, 'c', sizes), 0);
    CHECK_EQ(note(&t, 'c', sizes), SIZE_MAX); /* not again */
    CHECK(dt_trace_ahead(&t, 1, &next));
    CHECK_EQ(next, 0);
    CHECK(!dt_trace_ahead(&t, 2, &next));
    dt_trace_finish(&t);
}

TEST(a_model_that_does_otherwise_is_followed_again_from_the_next_micro_step_on)
{
    struct dt_trace t = {0};
    size_t next;
    use(&t, "abc");
    use(&t, "ac");
    CHECK(!dt_trace_ahead(&t, 0, &next));
    dt_trace_begin(&t);
    CHECK(dt_trace_ahead(&t, 1, &next));
    CHECK_EQ(next, 2);
    dt_trace_finish(&t);
}

static struct story apart(void)
{
    struct story s = story_of(3, 2, 1);
    s.apart = true;
    s.o.prefetch = 0;
    return s;
}

/* Gathers in a run: all units are used twice a micro-step, the first three times, and once at the
 * end, when parameters are read. */
enum { USES = STORY_STEPS * (2 * STORY_UNITS + 1) + STORY_UNITS };

static size_t gathers_of(struct story s, size_t *most_live)
{
    struct outcome *o = story_run(s);
    size_t gathers = o->gathers;
    if (most_live)
        *most_live = o->most_live;
    outcome_destroy(o);
    return gathers;
}

TEST(without_reuse_each_use_is_a_gather)
{
    struct story s = apart();
    size_t live;
    s.o.max_reuse_distance = 1;
    CHECK_EQ(gathers_of(s, &live), USES);
    CHECK(live < 2 * 448);
}

TEST(what_is_soon_used_again_stays)
{
    struct story s = apart(), t = apart();
    s.o.max_reuse_distance = 0; /* no limit */
    t.o.max_reuse_distance = 1;
    /* The first micro-step does not know yet; then all units are gathered once in each. */
    CHECK_EQ(gathers_of(s, NULL),
             (2 * STORY_UNITS + 1) + (STORY_STEPS - 1) * STORY_UNITS + STORY_UNITS);
    CHECK(gathers_of(s, NULL) < gathers_of(t, NULL));
}

TEST(max_live_bounds_what_is_whole)
{
    struct story s = apart();
    size_t live, gathers, unbounded = gathers_of(s, &live);
    CHECK(live >= STORY_SIZE); /* in the end, all of it */
    s.o.max_live = 600;
    s.o.prefetch = 1000;
    gathers = gathers_of(s, &live);
    CHECK(live <= 600);
    CHECK(gathers > unbounded);
}

TEST(small_units_stay_always)
{
    struct story s = apart();
    s.o.max_reuse_distance = 1;
    s.o.persist_below = 50; /* embed and tail, five of the uses of a step */
    size_t spared = STORY_STEPS * 5 + 2;
    CHECK_EQ(gathers_of(s, NULL), USES - spared + 2 * (1 + STORY_STEPS)); /* once behind each */
}

/* After one gather of a micro-step that is known, more than that unit is whole or on its way. */
static void peeks(struct rank_self *me)
{
    struct actor a;
    story_open(&a, me);
    story_step(&a, 0);
    dt_zero_begin(a.z, true, true);
    story_gather(&a, 0);
    size_t live = dt_slots_live(a.z->slots), first = a.z->layout.unit[0].padded;
    if (a.s->o.prefetch == 0)
        CHECK_EQ(live, first);
    else
        CHECK_EQ(live, first + a.z->layout.unit[1].padded); /* 160 and no more fit in 200 */
    dt_zero_release(a.z, 0);
    story_close(&a);
}

TEST(prefetch_reaches_as_far_as_it_may)
{
    for (size_t prefetch = 0; prefetch <= 200; prefetch += 200) {
        struct story s = apart();
        CHECK_ROW("prefetch %zu", prefetch);
        s.o.prefetch = prefetch;
        s.out = outcome_create();
        ranks_run(s.world, peeks, &s);
        outcome_destroy(s.out);
    }
}
