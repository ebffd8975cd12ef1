/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that are not made, states that move between worlds, and what all of it weighs. */
#include "tests/runtime/zero_story.h"
#include "worker_runtime/zero/update.h"

TEST(one_infinite_gradient_on_one_rank_stops_the_step_on_all)
{
    for (int stage = 0; stage < 4; stage++) {
        CHECK_ROW("stage %d", stage);
        struct story s = story_of(stage, 3, 1);
        s.broken_step = 3;
        s.broken_rank = 1;
        struct outcome *got = story_run(s);
        for (int step = 0; step < STORY_STEPS; step++)
            CHECK_EQ(got->overflow[step], step + 1 == s.broken_step);
        CHECK_EQ(got->steps, STORY_STEPS - 1);
        for (size_t i = 0; i < STORY_SIZE; i++)
            CHECK(isfinite(got->params[i]) && isfinite(got->exp_avg_sq[i]));
        outcome_destroy(got);
    }
}

TEST(a_step_that_is_not_made_leaves_no_trace)
{
    struct story s = story_of(2, 2, 1);
    s.steps = 2;
    struct outcome *two = story_run(s);
    s.steps = 3;
    s.broken_step = 3;
    struct outcome *three = story_run(s);
    CHECK(three->overflow[2]);
    three->norm[2] = 0;
    check_same_bits(two, three);
    outcome_destroy(two);
    outcome_destroy(three);
}

TEST(gradients_too_large_for_the_wire_are_an_overflow)
{
    struct story s = story_of(1, 2, 1);
    s.boost = 1e6f;
    s.steps = 1;
    s.o.comm_type = DT_F16;
    struct outcome *got = story_run(s);
    CHECK(got->overflow[0]);
    CHECK_EQ(got->steps, 0);
    outcome_destroy(got);
    s.o.comm_type = DT_BF16;
    got = story_run(s);
    CHECK(!got->overflow[0]);
    outcome_destroy(got);
}

static struct outcome *interrupted(struct story before, struct story after)
{
    before.steps = 2;
    struct outcome *saved = story_run(before);
    after.steps = STORY_STEPS - 2;
    after.first_step = 2;
    after.from = saved;
    struct outcome *done = story_run(after);
    outcome_destroy(saved);
    return done;
}

/* The norms of the outcome are those of its own steps. */
static void check_went_on(const struct outcome *done, const struct outcome *whole)
{
    CHECK_EQ(done->steps, STORY_STEPS);
    for (int i = 0; i + 2 < STORY_STEPS; i++)
        CHECK(done->norm[i] == whole->norm[i + 2]);
    CHECK_BYTES(done->params, sizeof done->params, whole->params, sizeof whole->params);
    CHECK_BYTES(done->exp_avg_sq, sizeof done->exp_avg_sq, whole->exp_avg_sq,
                sizeof whole->exp_avg_sq);
}

TEST(a_state_goes_on_at_any_stage_of_its_world_bit_for_bit)
{
    struct outcome *whole = story_run(story_of(1, 3, 1));
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            CHECK_ROW("from stage %d to %d", from, to);
            struct outcome *done = interrupted(story_of(from, 3, 1), story_of(to, 3, 1));
            check_went_on(done, whole);
            outcome_destroy(done);
        }
    outcome_destroy(whole);
}

TEST(a_state_of_16_bit_parameters_keeps_their_master_copy)
{
    struct story s = story_of(2, 3, 1), t = story_of(3, 3, 1);
    s.o.model_type = t.o.model_type = DT_BF16;
    t.apart = true;
    t.o.persist_below = 100;
    struct outcome *whole = story_run(s), *done = interrupted(s, t);
    check_went_on(done, whole);
    outcome_destroy(done);
    outcome_destroy(whole);
}

TEST(a_state_goes_on_in_another_world)
{
    static const struct {
        int stage, world;
    } rows[] = {{3, 2}, {0, 1}, {1, 4}, {2, 2}};
    struct outcome *whole = story_run(story_of(2, 3, 1));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("to stage %d of %d ranks", rows[i].stage, rows[i].world);
        struct outcome *done =
            interrupted(story_of(2, 3, 1), story_of(rows[i].stage, rows[i].world, 1));
        CHECK_EQ(done->steps, STORY_STEPS);
        check_close(done, whole);
        outcome_destroy(done);
    }
    outcome_destroy(whole);
}

static size_t total(const struct outcome *o)
{
    const struct dt_zero_memory *m = &o->memory[1];
    return m->params + m->grads + m->optimizer;
}

TEST(each_stage_keeps_less)
{
    struct outcome *at[4];
    for (int stage = 0; stage < 4; stage++) {
        struct story s = story_of(stage, 4, 1);
        s.apart = stage == 3; /* in a host's memory, parameters are shared from stage 1 on */
        at[stage] = story_run(s);
    }
    size_t all = at[0]->memory[0].params;
    CHECK(all >= STORY_SIZE * sizeof(float));
    CHECK_EQ(at[0]->memory[0].grads, all);
    CHECK_EQ(at[0]->memory[0].optimizer, 2 * all); /* float parameters are their master copy */
    CHECK_EQ(at[1]->memory[0].params, all / 4);
    CHECK_EQ(at[1]->memory[0].optimizer, 2 * all / 4);
    CHECK_EQ(at[1]->memory[0].grads, all);
    CHECK_EQ(at[2]->memory[0].grads, all / 4);
    CHECK_EQ(at[3]->memory[0].params, all / 4);
    CHECK(total(at[0]) > total(at[1]) && total(at[1]) > total(at[2]));
    CHECK_EQ(at[1]->memory[0].scratch, 0);
    CHECK(at[2]->memory[0].scratch > 0);
    CHECK(at[3]->memory[0].scratch > at[2]->memory[0].scratch);
    for (int stage = 0; stage < 4; stage++)
        outcome_destroy(at[stage]);
}

/* Rank 1 ends in the middle of its second step, and nobody waits for it in vain. */
static void loses_one(struct rank_self *me)
{
    struct actor a;
    struct dt_err err = {0};
    struct dt_zero_update u = {.lr = 0.01f, .loss_scale = 1};
    struct dt_zero_updated done;
    story_open(&a, me);
    story_step(&a, 0);
    if (me->rank == 1)
        raise(SIGKILL);
    int rc = 0;
    dt_zero_begin(a.z, true, true);
    for (size_t n = STORY_UNITS; rc == 0 && n-- > 0;)
        rc = dt_zero_grads(a.z, n, &err) ? dt_zero_reduce(a.z, n, &err) : -1;
    if (rc == 0)
        rc = dt_zero_step(a.z, &u, &done, &err);
    CHECK_FAIL(rc, err, "rank 1");
    story_close(&a);
}

TEST(a_rank_that_dies_is_named_to_the_others)
{
    for (int stage = 0; stage < 4; stage++)
        for (int apart = 0; apart < 2; apart++) {
            CHECK_ROW("stage %d%s", stage, apart ? ", apart" : "");
            struct story s = story_of(stage, 3, 1);
            s.apart = apart;
            s.o.reduce_bucket = 100;
            s.out = outcome_create();
            struct ranks *r = ranks_start(3, loses_one, &s);
            r->wanted[1] = SIGKILL;
            ranks_end(r);
            outcome_destroy(s.out);
        }
}

static void only_reads(struct rank_self *me)
{
    struct dt_err err = {0};
    struct actor a;
    double square;
    story_open(&a, me);
    dt_zero_begin(a.z, true, true);
    CHECK_FAIL(dt_zero_grads(a.z, 0, &err) ? 0 : -1, err, "frozen");
    CHECK_FAIL(dt_zero_reduce(a.z, 0, &err), err, "frozen");
    CHECK_FAIL(dt_zero_norm(a.z, &square, &err), err, "frozen");
    story_read(&a);
    story_close(&a);
}

/* Whatever the stage and the type, what was filled in is there, and no memory for anything else. */
TEST(frozen_parameters_are_all_there_is)
{
    for (int row = 0; row < 16; row++) {
        int stage = row & 3;
        struct story s = story_of(stage, 3, 1);
        s.o.frozen = true;
        s.apart = row & 4;
        s.half = row & 8;
        s.o.model_type = s.half ? DT_BF16 : DT_F32;
        s.out = outcome_create();
        CHECK_ROW("stage %d%s%s", stage, s.apart ? ", apart" : "", s.half ? ", half" : "");
        ranks_run(3, only_reads, &s);
        const struct dt_zero_memory *m = &s.out->memory[1];
        for (size_t i = 0; i < STORY_SIZE; i++) {
            float wanted = story_first(i);
            dt_ops_reference.round_to(1, &wanted, s.o.model_type, NULL);
            CHECK(s.out->params[i] == wanted);
        }
        CHECK(m->params > 0 && m->grads == 0 && m->optimizer == 0);
        outcome_destroy(s.out);
    }
}

TEST(nonsense_is_refused)
{
    struct dt_zero_options o;
    struct dt_zero_place nowhere = {0};
    struct dt_unit nothing = {.name = "void"};
    struct dt_err err = {0};
    dt_zero_defaults(&o);
    o.stage = 4;
    CHECK_FAIL(dt_zero_create_on(&nowhere, story_units, 1, &o, &err) ? 0 : -1, err, "4 is not a");
    o.stage = 1;
    CHECK_FAIL(dt_zero_create_on(&nowhere, &nothing, 1, &o, &err) ? 0 : -1, err, "unit void");
    o.stage = 3;
    struct dt_unit some[] = {story_units[0], nothing};
    CHECK_FAIL(dt_zero_create_on(&nowhere, some, 2, &o, &err) ? 0 : -1, err, "unit void has no");
    o.stage = 1;
    CHECK_FAIL(dt_zero_create_on(&nowhere, &nothing, 0, &o, &err) ? 0 : -1, err, "without units");
    o.model_type = DT_I64;
    CHECK_FAIL(dt_zero_create_on(&nowhere, story_units, 1, &o, &err) ? 0 : -1, err, "bfloat16");
}
