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
