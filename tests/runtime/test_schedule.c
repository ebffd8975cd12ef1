/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/optim/schedule.h"

#include <math.h>

static const struct dt_schedule constant = {.kind = DT_SCHEDULE_CONSTANT, .lr = 0.5};
static const struct dt_schedule log_100 = {
    .kind = DT_WARMUP, .warmup_type = DT_WARMUP_LOG, .min_lr = 1, .max_lr = 3, .warmup_steps = 100};
static const struct dt_schedule linear_100 = {.kind = DT_WARMUP,
                                              .warmup_type = DT_WARMUP_LINEAR,
                                              .min_lr = 1,
                                              .max_lr = 3,
                                              .warmup_steps = 100};
static const struct dt_schedule short_log = {
    .kind = DT_WARMUP, .warmup_type = DT_WARMUP_LOG, .max_lr = 1, .warmup_steps = 1};
static const struct dt_schedule decay = {.kind = DT_WARMUP_DECAY,
                                         .warmup_type = DT_WARMUP_LINEAR,
                                         .min_lr = 1,
                                         .max_lr = 3,
                                         .warmup_steps = 10,
                                         .total_steps = 30};
static const struct dt_schedule decay_at_once = {.kind = DT_WARMUP_DECAY,
                                                 .warmup_type = DT_WARMUP_LINEAR,
                                                 .max_lr = 1,
                                                 .warmup_steps = 10,
                                                 .total_steps = 5};
static const struct dt_schedule cosine = {.kind = DT_WARMUP_COSINE,
                                          .warmup_type = DT_WARMUP_LINEAR,
                                          .lr = 2,
                                          .warmup_steps = 10,
                                          .total_steps = 30,
                                          .warmup_min_ratio = 0.5,
                                          .cos_min_ratio = 0.1};
static const struct dt_schedule cosine_log = {.kind = DT_WARMUP_COSINE,
                                              .warmup_type = DT_WARMUP_LOG,
                                              .lr = 2,
                                              .warmup_steps = 10,
                                              .total_steps = 30,
                                              .cos_min_ratio = 0.1};

/* AT is last_batch_iteration. The wanted rates were worked out by hand from the formulas. */
static const struct row {
    const char *what;
    const struct dt_schedule *s;
    int64_t at;
    double rate;
} rows[] = {
    /* clang-format off */
    {"constant, before the first", &constant, -1, 0.5},
    {"constant, much later", &constant, 1000000, 0.5},
    {"log, before the first step", &log_100, -1, 1},
    {"log, at 0", &log_100, 0, 1},
    {"log, at 9: half of ln(100)", &log_100, 9, 2},
    {"log, at 98: ln(99) / ln(100)", &log_100, 98, 1 + 2 * 0.9978175973},
    {"log, one before the end: already there", &log_100, 99, 3},
    {"log, at the end", &log_100, 100, 3},
    {"log, behind it", &log_100, 100000, 3},
    {"linear, before the first step", &linear_100, -1, 1},
    {"linear, at 0", &linear_100, 0, 1},
    {"linear, at 50", &linear_100, 50, 2},
    {"linear, at 99", &linear_100, 99, 2.98},
    {"linear, at the end", &linear_100, 100, 3},
    {"a warm-up of 1 is one of 2, at 0", &short_log, 0, 0},
    {"a warm-up of 1 is one of 2, at 1", &short_log, 1, 1},
    {"decay, before the first step", &decay, -1, 1},
    {"decay, warming up", &decay, 5, 2},
    {"decay, at the top", &decay, 10, 3},
    {"decay, half down", &decay, 20, 2},
    {"decay, at the total", &decay, 30, 1},
    {"decay, beyond the total", &decay, 31, 1},
    {"decay that is over before the warm-up", &decay_at_once, 9, 0.9},
    {"decay that is over before the warm-up, at its end", &decay_at_once, 10, 0},
    {"cosine, before the first step", &cosine, -1, 0},
    {"cosine, at 0", &cosine, 0, 1},
    {"cosine, warming up", &cosine, 5, 1.5},
    {"cosine, half down", &cosine, 19, 2 * 0.55},
    {"cosine, a step behind the top", &cosine, 10, 2 * (0.1 + 0.9 * (1 + 0.9876883406) / 2)},
    {"cosine, at the bottom", &cosine, 29, 0.2},
    {"cosine, at the total", &cosine, 30, 0.2},
    {"cosine, beyond it", &cosine, 3000, 0.2},
    {"cosine by log, at 0", &cosine_log, 0, 0},
    {"cosine by log, at 9", &cosine_log, 9, 2},
    {"cosine by log, half down", &cosine_log, 19, 2 * 0.55},
    /* clang-format on */
};

TEST(rates_are_those_of_the_formulas)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double rate = dt_schedule_rate(rows[i].s, rows[i].at + 1);
        CHECK_ROW("%s: %.12g, wanted %.12g", rows[i].what, rate, rows[i].rate);
        CHECK(fabs(rate - rows[i].rate) < 1e-9);
    }
}

#define RULE(KIND, ...)                                                                            \
    {                                                                                              \
        .kind = DT_RULE_##KIND, .lr = 2, .warmup_steps = 4, .total_steps = 24, __VA_ARGS__         \
    }

static const struct dt_schedule warmup = RULE(WARMUP);
static const struct dt_schedule linear = RULE(LINEAR);
static const struct dt_schedule short_linear = {.kind = DT_RULE_LINEAR, .lr = 2, .total_steps = 1};
static const struct dt_schedule half_wave = RULE(COSINE, .cycles = 0.5);
static const struct dt_schedule whole_wave = RULE(COSINE, .cycles = 1);
static const struct dt_schedule floored = RULE(COSINE, .cycles = 0.5, .min_ratio = 0.2);
static const struct dt_schedule restarts = RULE(RESTARTS, .cycles = 2);
static const struct dt_schedule square = RULE(POLYNOMIAL, .power = 2, .min_lr = 0.4);
static const struct dt_schedule no_fall = {
    .kind = DT_RULE_POLYNOMIAL, .lr = 2, .warmup_steps = 4, .total_steps = 4, .min_lr = 0.5};
static const struct dt_schedule root = RULE(INVERSE_SQRT);
static const struct dt_schedule slow_root = RULE(INVERSE_SQRT, .timescale = 16);
static const struct dt_schedule cold_root = {.kind = DT_RULE_INVERSE_SQRT, .lr = 2};
static const struct dt_schedule plateau =
    RULE(STABLE, .cycles = 0.5, .fall = DT_RAMP_COSINE, .stable_steps = -1, .decay_steps = 10);
static const struct dt_schedule roots = RULE(STABLE, .rise = DT_RAMP_SQRT, .fall = DT_RAMP_SQRT,
                                             .min_ratio = 0.5, .stable_steps = 2, .decay_steps = 4);
static const struct dt_schedule waves = RULE(STABLE, .rise = DT_RAMP_COSINE, .fall = DT_RAMP_LINEAR,
                                             .stable_steps = 2, .decay_steps = 4);

/* AT is the number of updates before this one. The wanted rates were worked out by hand. */
static const struct row rules[] = {
    /* clang-format off */
    {"the first update of a warm-up", &warmup, 0, 0},
    {"warming up", &warmup, 3, 1.5},
    {"at the top", &warmup, 4, 2},
    {"ever after", &warmup, 100000, 2},
    {"linear, warming up", &linear, 1, 0.5},
    {"linear, at the top", &linear, 4, 2},
    {"linear, a quarter down", &linear, 9, 1.5},
    {"linear, the last step of the run", &linear, 23, 0.1},
    {"linear, at the total", &linear, 24, 0},
    {"linear, beyond it", &linear, 25, 0},
    {"linear of one step", &short_linear, 0, 2},
    {"cosine, warming up", &half_wave, 2, 1},
    {"cosine, at the top", &half_wave, 4, 2},
    {"cosine, a quarter of the way", &half_wave, 4 + 20 / 4, 1 + 0.70710678118654752},
    {"cosine, half down", &half_wave, 14, 1},
    {"cosine, at the total", &half_wave, 24, 0},
    {"a whole wave, half way", &whole_wave, 14, 0},
    {"a whole wave, at the total", &whole_wave, 24, 2},
    {"with a floor, warming up from 0", &floored, 0, 0},
    {"with a floor, half down", &floored, 14, 1.2},
    {"with a floor, at the total", &floored, 24, 0.4},
    {"restarts, at the top", &restarts, 4, 2},
    {"restarts, half down the first", &restarts, 9, 1},
    {"restarts, at the top again", &restarts, 14, 2},
    {"restarts, half down the second", &restarts, 19, 1},
    {"restarts, at the total", &restarts, 24, 0},
    {"a square, at the top", &square, 4, 2},
    {"a square, half way", &square, 14, 0.8},
    {"a square, at the total", &square, 24, 0.4},
    {"a square, beyond it", &square, 25, 0.4},
    {"nothing to fall over", &no_fall, 4, 0.5},
    {"a root, warming up", &root, 2, 1},
    {"a root, at the top", &root, 4, 2},
    {"a root, at four times the warm-up", &root, 16, 1},
    {"a slower root, at the top", &slow_root, 4, 2},
    {"a slower root, at four times its scale", &slow_root, 4 + 48, 1},
    {"a root without a warm-up, at once", &cold_root, 0, 2},
    {"a root without a warm-up, at 30,000", &cold_root, 30000, 1},
    {"stable, warming up", &plateau, 2, 1},
    {"stable, before it falls", &plateau, 13, 2},
    {"stable, where it begins to fall", &plateau, 14, 2},
    {"stable, half down", &plateau, 19, 1},
    {"stable, at the total", &plateau, 24, 0},
    {"roots, at first", &roots, 0, 1},
    {"roots, three quarters up", &roots, 3, 1.5},
    {"roots, a quarter down", &roots, 7, 1.5},
    {"roots, behind it", &roots, 10, 1},
    {"waves, half up", &waves, 2, 1},
    {"waves, half down", &waves, 8, 1},
    /* clang-format on */
};

TEST(rules_are_those_of_hugging_face_s)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        double rate = dt_schedule_rate(rules[i].s, rules[i].at);
        CHECK_ROW("%s: %.12g, wanted %.12g", rules[i].what, rate, rules[i].rate);
        CHECK(fabs(rate - rules[i].rate) < 1e-9);
    }
}
