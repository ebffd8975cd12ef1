/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of a pair of answers, and how it moves. */
#include "tests/lib/check.h"
#include "worker_runtime/optim/dpo.h"

#include <math.h>

static const struct dt_dpo plain = {.on = true, .beta = 0.1};

static struct dt_dpo_pair pair_of(double chosen, double rejected)
{
    return (struct dt_dpo_pair){.chosen = {chosen, -20, 4}, .rejected = {rejected, -31, 7}};
}

static bool near(double a, double b, double error)
{
    return fabs(a - b) <= error * fmax(1, fabs(b));
}

TEST(a_model_that_is_its_reference_has_a_loss_of_ln_2)
{
    struct dt_dpo_pair p = pair_of(-20, -31);
    struct dt_dpo_verdict v = dt_dpo_judge(&plain, &p);
    CHECK(near(v.loss, M_LN2, 1e-15));
    CHECK(v.reward_chosen == 0 && v.reward_rejected == 0);
    CHECK(!v.right); /* neither has more */
    CHECK(near(v.weight_chosen, 0.05, 1e-15));
    CHECK(near(v.weight_rejected, -0.05, 1e-15));
}

TEST(rewards_are_measured_against_the_reference)
{
    struct dt_dpo_pair p = pair_of(-17, -36);
    struct dt_dpo_verdict v = dt_dpo_judge(&plain, &p);
    CHECK(near(v.reward_chosen, 0.3, 1e-12));
    CHECK(near(v.reward_rejected, -0.5, 1e-12));
    CHECK(v.right);
    CHECK(near(v.loss, log1p(exp(-0.8)), 1e-12));
    p = pair_of(-22, -30);
    CHECK(!dt_dpo_judge(&plain, &p).right);
}

TEST(the_loss_moves_by_the_weights)
{
    static const struct dt_dpo rows[] = {
        {true, 0.1, 0, 0}, {true, 2, 0, 0},      {true, 0.5, 0.3, 0},
        {true, 0.1, 0, 1}, {true, 1, 0.5, 0.25},
    };
    static const double off[] = {-60, -3, -0.5, 0, 0.25, 4, 60};
    const double h = 1e-5;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof off / sizeof *off; k++) {
            struct dt_dpo_pair p = pair_of(-20 + off[k], -31), up = p, down = p;
            struct dt_dpo_verdict v = dt_dpo_judge(&rows[i], &p);
            up.chosen.policy += h;
            down.chosen.policy -= h;
            double slope =
                (dt_dpo_judge(&rows[i], &up).loss - dt_dpo_judge(&rows[i], &down).loss) / (2 * h);
            CHECK_ROW("row %zu, %g off: slope %g, weight %g", i, off[k], slope, v.weight_chosen);
            CHECK(near(-slope, v.weight_chosen, 1e-8));
            up = down = p;
            up.rejected.policy += h;
            down.rejected.policy -= h;
            slope =
                (dt_dpo_judge(&rows[i], &up).loss - dt_dpo_judge(&rows[i], &down).loss) / (2 * h);
            CHECK_ROW("row %zu, %g off: slope %g, weight %g", i, off[k], slope, v.weight_rejected);
            CHECK(near(-slope, v.weight_rejected, 1e-8));
        }
}

TEST(answers_that_are_far_apart_have_a_loss_that_is_a_number)
{
    static const double off[] = {-1e6, -1e3, 1e3, 1e6};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        struct dt_dpo_pair p = pair_of(-20 + off[i], -31);
        struct dt_dpo_verdict v = dt_dpo_judge(&plain, &p);
        CHECK_ROW("%g: loss %g", off[i], v.loss);
        CHECK(isfinite(v.loss) && isfinite(v.weight_chosen) && isfinite(v.weight_rejected));
        CHECK(near(v.loss, off[i] < 0 ? -0.1 * off[i] : 0, 1e-12));
    }
    struct dt_dpo_pair p = pair_of(NAN, -31);
    CHECK(isnan(dt_dpo_judge(&plain, &p).loss)); /* and is not hidden */
    CHECK(isnan(dt_dpo_judge(&plain, &p).weight_rejected));
}

TEST(label_smoothing_doubts_what_is_learned)
{
    struct dt_dpo half = {.on = true, .beta = 0.1, .label_smoothing = 0.5};
    struct dt_dpo_pair p = pair_of(-20, -31);
    CHECK(near(dt_dpo_judge(&half, &p).weight_chosen, 0, 1e-15));
    p = pair_of(-10, -31); /* and pulls back what went too far */
    CHECK(dt_dpo_judge(&half, &p).weight_chosen < 0);
}
