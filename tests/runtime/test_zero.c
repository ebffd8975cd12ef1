/* SPDX-License-Identifier: Apache-2.0 */
/* The stages against each other, against other worlds, and against AdamW written out. */
#include "tests/runtime/zero_story.h"
#include "worker_runtime/zero/update.h"

static void check_stages(int world, int accumulation)
{
    CHECK_ROW("world %d, accumulation %d", world, accumulation);
    struct outcome *plain = story_run(story_of(0, world, accumulation));
    CHECK_EQ(plain->steps, STORY_STEPS);
    for (int stage = 0; stage < (accumulation == 1 ? 4 : 3); stage++)
        check_ways(story_of(stage, world, accumulation), plain);
    if (accumulation > 1 && world == 1) {
        struct outcome *third = story_run(story_of(3, world, accumulation));
        check_same_bits(third, plain);
        outcome_destroy(third);
    }
    if (accumulation > 1 && world > 1) { /* adds up in another order, the same in all its ways */
        struct outcome *third = story_run(story_of(3, world, accumulation));
        struct story second = story_of(2, world, accumulation);
        second.o.full_gradients = false;
        check_close(third, plain);
        check_ways(story_of(3, world, accumulation), third);
        check_ways(second, third);
        outcome_destroy(third);
    }
    outcome_destroy(plain);
}

TEST(all_stages_have_the_same_bits_alone)
{
    check_stages(1, 1);
    check_stages(1, 3);
}

TEST(all_stages_have_the_same_bits_with_two_ranks)
{
    check_stages(2, 1);
    check_stages(2, 3);
}

TEST(all_stages_have_the_same_bits_with_three_ranks)
{
    check_stages(3, 1);
    check_stages(3, 3);
}

TEST(all_stages_have_the_same_bits_with_four_ranks)
{
    check_stages(4, 1);
    check_stages(4, 3);
}

TEST(the_number_of_ranks_and_micro_steps_makes_no_difference_to_speak_of)
{
    struct outcome *one = story_run(story_of(0, 1, 1));
    for (int world = 1; world <= 4; world++)
        for (int accumulation = 1; accumulation <= 3; accumulation += 2) {
            CHECK_ROW("world %d, accumulation %d", world, accumulation);
            struct outcome *other = story_run(story_of(1, world, accumulation));
            check_close(one, other);
            outcome_destroy(other);
        }
    outcome_destroy(one);
}

static bool decays(size_t i)
{
    size_t at = 0, p = 0;
    while (i >= at + story_params[p].count)
        at += story_params[p++].count;
    return story_params[p].decay;
}

/* AdamW written out, in double, one parameter at a time. */
static void plain_adamw(const struct story *s, double *p)
{
    double m[STORY_SIZE] = {0}, v[STORY_SIZE] = {0}, g[STORY_SIZE];
    for (size_t i = 0; i < STORY_SIZE; i++)
        p[i] = (double)story_first(i);
    for (int step = 0; step < STORY_STEPS; step++) {
        double square = 0;
        for (size_t i = 0; i < STORY_SIZE; i++) {
            double sum = 0;
            for (int sample = 0; sample < STORY_SAMPLES; sample++)
                sum += 2 * (p[i] - (double)story_target(i)) +
                       (double)story_noise((uint64_t)step + 10, (uint64_t)sample, i);
            g[i] = sum / STORY_SAMPLES;
            square += g[i] * g[i];
        }
        double clip = (double)s->clip > 0 ? fmin(1, (double)s->clip / (sqrt(square) + 1e-6)) : 1;
        for (size_t i = 0; i < STORY_SIZE; i++) {
            double grad = g[i] * clip, lr = (double)s->lr;
            m[i] = 0.9 * m[i] + 0.1 * grad;
            v[i] = 0.999 * v[i] + 0.001 * grad * grad;
            if (decays(i))
                p[i] -= lr * (double)s->o.weight_decay * p[i];
            p[i] -= lr * (m[i] / (1 - pow(0.9, step + 1))) /
                    (sqrt(v[i] / (1 - pow(0.999, step + 1))) + 1e-8);
        }
    }
}

static void check_adamw(struct story s)
{
    double wanted[STORY_SIZE];
    plain_adamw(&s, wanted);
    struct outcome *got = story_run(s);
    for (size_t i = 0; i < STORY_SIZE; i++) {
        CHECK_ROW("element %zu: %.9g, wanted %.9g", i, (double)got->params[i], wanted[i]);
        CHECK(fabs((double)got->params[i] - wanted[i]) < 2e-6);
    }
    outcome_destroy(got);
}

TEST(it_is_adamw)
{
    check_adamw(story_of(0, 1, 1));
    check_adamw(story_of(1, 3, 1));
    check_adamw(story_of(3, 2, 3));
}

TEST(gradients_are_clipped_to_a_norm_of_all)
{
    for (int stage = 0; stage < 4; stage++) {
        CHECK_ROW("stage %d", stage);
        struct story s = story_of(stage, 3, 1);
        s.clip = 5; /* of some 90 */
        check_adamw(s);
    }
}

TEST(the_loss_scale_changes_nothing)
{
    struct outcome *plain = story_run(story_of(2, 2, 1));
    struct story s = story_of(2, 2, 1);
    s.loss_scale = 1024;
    struct outcome *scaled = story_run(s);
    check_close(plain, scaled);
    for (int i = 0; i < STORY_STEPS; i++)
        CHECK(fabs(plain->norm[i] - scaled->norm[i]) < 1e-6 * plain->norm[i]);
    outcome_destroy(plain);
    outcome_destroy(scaled);
}

TEST(ranks_may_have_other_numbers_of_micro_steps)
{
    struct story s = story_of(0, 2, 1);
    s.uneven = 3;
    struct outcome *plain = story_run(s);
    for (int stage = 1; stage < 3; stage++) {
        s.o.stage = stage;
        s.o.full_gradients = true;
        check_ways(s, plain);
    }
    struct outcome *even = story_run(story_of(0, 2, 1));
    check_close(plain, even);
    outcome_destroy(even);
    outcome_destroy(plain);
}

TEST(a_model_may_hold_all_gradients_at_once)
{
    struct story s = story_of(0, 2, 1);
    struct outcome *plain = story_run(s);
    s.hold_all = true;
    for (s.o.stage = 1; s.o.stage < 4; s.o.stage++)
        check_ways(s, plain);
    outcome_destroy(plain);
}

TEST(a_rank_without_work_takes_part)
{
    struct story s = story_of(0, 3, 1);
    s.idle = 2;
    struct outcome *plain = story_run(s);
    for (s.o.stage = 1; s.o.stage < 4; s.o.stage++) {
        s.hold_all = s.o.stage == 3; /* so that buffers are asked for in other orders */
        check_ways(s, plain);
    }
    outcome_destroy(plain);
}

TEST(parameters_of_16_bits_have_a_master_copy)
{
    static const enum dt_dtype types[] = {DT_BF16, DT_F16};
    for (size_t t = 0; t < 2; t++) {
        CHECK_ROW("type %d", (int)types[t]);
        struct story s = story_of(0, 3, 1);
        s.o.model_type = s.o.comm_type = types[t];
        struct outcome *plain = story_run(s);
        CHECK(memcmp(plain->params, plain->master, sizeof plain->params) != 0);
        dt_ops_reference.round_to(STORY_SIZE, plain->master, types[t], NULL);
        CHECK_BYTES(plain->params, sizeof plain->params, plain->master, sizeof plain->master);
        outcome_destroy(plain);
        plain = story_run(s);
        for (int stage = 1; stage < 4; stage++) {
            s.o.stage = stage;
            check_ways(s, plain);
        }
        outcome_destroy(plain);
    }
}

/* As on a GPU that computes with bfloat16: sums are made in it, and all that a rank keeps is float.
 */
TEST(a_device_may_compute_with_16_bits)
{
    struct story s = story_of(0, 3, 1);
    s.half = true;
    s.o.model_type = DT_BF16;
    struct outcome *plain = story_run(s), *exact = story_run(story_of(0, 3, 1));
    for (size_t i = 0; i < STORY_SIZE; i++) {
        CHECK_ROW("element %zu: %.9g and %.9g", i, (double)plain->master[i],
                  (double)exact->master[i]);
        CHECK(fabsf(plain->master[i] - exact->master[i]) < 0.01f);
    }
    for (s.o.stage = 1; s.o.stage < 4; s.o.stage++)
        check_ways(s, plain);
    outcome_destroy(exact);
    outcome_destroy(plain);
}

static struct story half_story(int stage, int world, int accumulation, bool float_sums)
{
    struct story s = story_of(stage, world, accumulation);
    s.half = true;
    s.o.model_type = DT_BF16;
    s.o.float_sums = float_sums;
    return s;
}

TEST(a_device_with_16_bits_adds_up_micro_steps)
{
    for (int floats = 0; floats < 2; floats++) {
        struct story s = half_story(2, 2, 3, floats);
        s.o.full_gradients = false;
        struct outcome *second = story_run(s);
        s.o.stage = 3;
        check_ways(s, second);
        outcome_destroy(second);
        struct outcome *plain = story_run(half_story(0, 2, 3, floats));
        for (int stage = 0; stage < 3; stage++)
            check_ways(half_story(stage, 2, 3, floats), plain);
        outcome_destroy(plain);
    }
}

/* The length of what a step's gradients are off by, where a device computes with floats from the
 * same parameters, by the length of these. */
static double gradients_off(struct story s)
{
    struct story floats = s;
    s.steps = floats.steps = 1;
    floats.half = floats.o.float_sums = false;
    floats.world = floats.accumulation = 1;
    struct outcome *is = story_run(s), *wanted = story_run(floats);
    double off = 0, all = 0;
    for (size_t i = 0; i < STORY_SIZE; i++) {
        off += pow((double)is->exp_avg[i] - (double)wanted->exp_avg[i], 2);
        all += pow((double)wanted->exp_avg[i], 2);
    }
    outcome_destroy(is);
    outcome_destroy(wanted);
    return sqrt(off / all);
}

/* Each adds a rounding of its own, to a sum that grows. In float none does, and those of the
 * micro-steps themselves cancel out for the most part. */
TEST(many_micro_steps_are_as_good_as_one_where_they_are_added_up_in_float)
{
    for (int stage = 0; stage < 4; stage++) {
        double one = gradients_off(half_story(stage, 1, 1, false));
        double many = gradients_off(half_story(stage, 1, 36, false));
        double in_float = gradients_off(half_story(stage, 1, 36, true));
        double of_two = gradients_off(half_story(stage, 2, 18, true));
        CHECK_ROW("stage %d: one %g, 36 %g, in float %g, of 2 ranks %g", stage, one, many, in_float,
                  of_two);
        CHECK(many > 3 * one);
        CHECK(in_float < one && of_two < one);
    }
}

/* Two units in one dt_zero, and each in one of its own. Gradients are whole numbers, so that
 * squares add up to the same in any order. */
enum { TWO_UNITS = 2, UNIT_SIZE = 37 };
static const struct dt_param two_params[] = {{"a", UNIT_SIZE, true}, {"b", UNIT_SIZE, true}};
static const struct dt_unit two_units[] = {{"first", two_params, 1}, {"second", two_params + 1, 1}};

static void give_gradients(struct dt_zero *z, size_t unit, float first)
{
    struct dt_err err = {0};
    float *grads = dt_zero_grads(z, unit, &err);
    CHECK_OK(grads ? 0 : -1, err);
    for (size_t i = 0; i < UNIT_SIZE; i++)
        grads[i] += first + (float)i;
    CHECK_OK(dt_zero_reduce(z, unit, &err), err);
}

static void check_same_params(struct dt_zero *a, size_t unit, struct dt_zero *b, size_t other)
{
    struct dt_err err = {0};
    const void *x = dt_zero_gather(a, unit, &err), *y = dt_zero_gather(b, other, &err);
    CHECK(x != NULL && y != NULL);
    CHECK_BYTES(x, UNIT_SIZE * sizeof(float), y, UNIT_SIZE * sizeof(float));
    dt_zero_release(a, unit);
    dt_zero_release(b, other);
}

/* A step of both models; BROKEN: with an infinite gradient in the second unit. */
static void step_both(struct dt_zero *whole, struct dt_zero **part, bool broken)
{
    struct dt_err err = {0};
    struct dt_zero_update u = {.lr = 0.01f, .loss_scale = 4, .clip = 3};
    struct dt_zero_updated done, done_apart;
    double square = 0, one;
    dt_zero_begin(whole, true, true);
    for (size_t i = 0; i < TWO_UNITS; i++) {
        float first = broken && i == 1 ? INFINITY : (float)i;
        dt_zero_begin(part[i], true, true);
        give_gradients(whole, i, first);
        give_gradients(part[i], 0, first);
        CHECK_OK(dt_zero_norm(part[i], &one, &err), err);
        square += one;
    }
    CHECK_OK(dt_zero_step(whole, &u, &done, &err), err);
    double factor = dt_zero_factor(&u, square, &done_apart);
    CHECK_EQ(done.overflow, broken);
    CHECK_EQ(done_apart.overflow, broken);
    CHECK(broken || done.grad_norm == done_apart.grad_norm);
    for (size_t i = 0; i < TWO_UNITS; i++)
        CHECK_OK(broken ? dt_zero_skip(part[i], &err) : dt_zero_apply(part[i], u.lr, factor, &err),
                 err);
}

static void joined(struct rank_self *me)
{
    struct dt_err err = {0};
    struct dt_device *device = dt_device_open_cpu(1, &err);
    CHECK_OK(device ? 0 : -1, err);
    struct dt_coll *coll = rank_open(me);
    struct dt_zero_place place = {.device = device, .group = coll, .sharing = 2};
    struct dt_zero_options o;
    struct dt_zero *whole, *part[TWO_UNITS];
    dt_zero_defaults(&o);
    o.stage = *(const int *)me->arg;
    whole = dt_zero_create_on(&place, two_units, TWO_UNITS, &o, &err);
    CHECK_OK(whole ? 0 : -1, err);
    for (size_t i = 0; i < TWO_UNITS; i++) {
        part[i] = dt_zero_create_on(&place, two_units + i, 1, &o, &err);
        CHECK_OK(part[i] ? 0 : -1, err);
    }
    for (int step = 0; step < 4; step++)
        step_both(whole, part, step == 2);
    CHECK_EQ(dt_zero_steps(whole), 3);
    dt_zero_begin(whole, false, false);
    for (size_t i = 0; i < TWO_UNITS; i++) {
        dt_zero_begin(part[i], false, false);
        check_same_params(whole, i, part[i], 0);
        dt_zero_destroy(part[i]);
    }
    dt_zero_destroy(whole);
    dt_coll_destroy(coll);
    dt_device_close(device);
}

TEST(parts_of_a_model_are_clipped_by_one_norm)
{
    for (int stage = 0; stage < 4; stage++) {
        CHECK_ROW("stage %d", stage);
        ranks_run(2, joined, &stage);
    }
}

static struct dt_coll *split(struct dt_coll *world, int colour)
{
    struct dt_err err = {0};
    struct dt_coll *c = NULL;
    CHECK_OK(dt_coll_split(world, colour, dt_coll_rank(world), &c, &err), err);
    return c;
}

static struct dt_zero *open_alone(struct dt_device *device, struct dt_coll *alone, int stage)
{
    struct dt_err err = {0};
    struct dt_zero_place place = {.device = device, .group = alone, .sharing = 1};
    struct dt_zero_options o;
    dt_zero_defaults(&o);
    o.stage = stage;
    struct dt_zero *z = dt_zero_create_on(&place, two_units, TWO_UNITS, &o, &err);
    CHECK_OK(z ? 0 : -1, err);
    return z;
}

/* Four ranks of a parameter that is the same on all: two teams of two, and across them two more. */
static void in_parts(struct rank_self *me)
{
    struct dt_err err = {0};
    struct dt_zero_update u = {.lr = 0.01f, .loss_scale = 1, .clip = 3};
    struct dt_zero_updated done[2];
    struct dt_coll *world = rank_open(me), *alone = split(world, me->rank);
    struct dt_coll *team[] = {split(world, me->rank / 2), split(world, me->rank % 2)};
    struct dt_device *device = dt_device_open_cpu(1, &err);
    CHECK_OK(device ? 0 : -1, err);
    struct dt_zero *part = open_alone(device, alone, *(const int *)me->arg);
    struct dt_zero *whole = open_alone(device, alone, *(const int *)me->arg);
    for (int i = 0; i < 2; i++)
        dt_zero_sum_over(part, 1, 0, team[i]);
    dt_zero_begin(part, true, true);
    dt_zero_begin(whole, true, true);
    for (int rank = 0; rank < me->size; rank++)
        give_gradients(whole, 1, (float)rank);
    give_gradients(part, 1, (float)me->rank);
    give_gradients(whole, 0, (float)me->rank);
    give_gradients(part, 0, (float)me->rank);
    CHECK_OK(dt_zero_step(part, &u, &done[0], &err), err);
    CHECK_OK(dt_zero_step(whole, &u, &done[1], &err), err);
    CHECK(done[0].grad_norm == done[1].grad_norm);
    dt_zero_begin(part, false, false);
    dt_zero_begin(whole, false, false);
    for (size_t i = 0; i < TWO_UNITS; i++)
        check_same_params(part, i, whole, i);
    dt_zero_destroy(part);
    dt_zero_destroy(whole);
    dt_device_close(device);
    dt_coll_destroy(team[0]);
    dt_coll_destroy(team[1]);
    dt_coll_destroy(alone);
    dt_coll_destroy(world);
}

TEST(gradients_that_two_teams_have_in_parts_are_summed_over_both)
{
    for (int stage = 0; stage < 2; stage++) {
        CHECK_ROW("stage %d", stage);
        ranks_run(4, in_parts, &stage);
    }
}
