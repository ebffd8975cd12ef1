/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/pipeline/simulate.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/train/stages.h"

#include "tests/lib/check.h"

static const struct dt_shape gpt2 = {.family = DT_GPT2,
                                     .layers = 12,
                                     .heads = 12,
                                     .kv_heads = 12,
                                     .width = 768,
                                     .head_dim = 64,
                                     .inner = 3072,
                                     .positions = 1024,
                                     .vocabulary = 50257,
                                     .tied = true};

static struct dt_config config_of(enum dt_pipe_schedule schedule, int stages)
{
    return (struct dt_config){.model.shape = gpt2,
                              .data.positions = 1024,
                              .parallel = {.pipeline = stages, .schedule = schedule}};
}

static void check_text(enum dt_pipe_schedule schedule, int stages, int micros, const char *wanted)
{
    struct dt_config c = config_of(schedule, stages);
    struct dt_buf out = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_estimate_print_pipeline(&c, micros, &out, &err), err);
    CHECK_STR(dt_buf_cstr(&out), wanted);
    dt_buf_finish(&out);
}

TEST(each_stage_has_a_row)
{
    check_text(DT_PIPE_1F1B, 2, 16,
               "\n"
               "a pipeline of 2 stages by 1F1B, 16 micro-batches in a step:\n"
               "\n"
               "  stage  layers                            parameters  micro-batches      idle\n"
               "  0      embedding, blocks 0 to 7              96.1 M              2    14.2 %\n"
               "  1      blocks 8 to 11, head                  67.0 M              1     5.4 %\n"
               "\n"
               "on average they are idle for 9.8 % of a step, products alone counted\n");
}

/* Each stage holds two micro-batches until weights have had theirs. */
TEST(stages_that_go_back_in_halves_wait_less)
{
    check_text(DT_PIPE_ZB_H1, 2, 16,
               "\n"
               "a pipeline of 2 stages by ZB-H1, 16 micro-batches in a step:\n"
               "\n"
               "  stage  layers                            parameters  micro-batches      idle\n"
               "  0      embedding, blocks 0 to 7              96.1 M              2    12.8 %\n"
               "  1      blocks 8 to 11, head                  67.0 M              2     3.8 %\n"
               "\n"
               "on average they are idle for 8.3 % of a step, products alone counted\n");
}

/* In percent of a step in which a backward takes as long as two forwards. */
static int idle_of(const struct dt_pipe_plan *p)
{
    static const struct dt_pipe_times alike[] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1},
                                                 {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    size_t count = dt_pipe_op_count(p);
    struct dt_pipe_op *ops = calloc(count * (size_t)p->stages, sizeof *ops);
    struct dt_pipe_use use[6];
    struct dt_pipe_trial t = {.plan = *p, .ops = ops, .times = alike, .room = -1};
    struct dt_err err = {0};
    double makespan;
    for (int stage = 0; stage < p->stages; stage++)
        dt_pipe_list(p, stage, ops + (size_t)stage * count);
    CHECK_OK(dt_pipe_simulate(&t, use, &makespan, &err), err);
    free(ops);
    return (int)(100 * (makespan - use[0].busy) / makespan + 1e-9);
}

TEST(what_a_run_says_of_idle_stages_is_what_a_simulation_says)
{
    static const enum dt_pipe_schedule schedules[] = {DT_PIPE_1F1B, DT_PIPE_GPIPE, DT_PIPE_ZB_H1};
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++)
        for (int stages = 2; stages <= 6; stages++)
            for (int micros = 1; micros <= 13; micros++) {
                struct dt_config c = config_of(schedules[i], stages);
                struct dt_pipe_plan p = dt_stages_plan(&c, micros);
                CHECK_ROW("%s, %d stages, %d micro-batches", dt_pipe_schedule_name(p.schedule),
                          stages, micros);
                CHECK_EQ(dt_stages_idle(&c, micros), idle_of(&p));
            }
}

/* What is held is a chunk's, with half of a stage's blocks. */
TEST(a_stage_in_chunks_has_a_row_too)
{
    struct dt_config c = config_of(DT_PIPE_INTERLEAVED, 2);
    struct dt_buf out = {0};
    struct dt_err err = {0};
    c.parallel.chunks = 2;
    CHECK_OK(dt_estimate_print_pipeline(&c, 16, &out, &err), err);
    CHECK_STR(dt_buf_cstr(&out),
              "\n"
              "a pipeline of 2 stages by interleaved 1F1B, 16 micro-batches in a step:\n"
              "\n"
              "  stage  layers                            parameters    held chunks      idle\n"
              "  0      embedding, blocks 0-2, 6-10           96.1 M              5    12.5 %\n"
              "  1      blocks 3-5, 11, head                  67.0 M              3     3.4 %\n"
              "\n"
              "on average they are idle for 7.9 % of a step, products alone counted\n");
    CHECK_FAIL(dt_estimate_print_pipeline(&c, 3, &out, &err), err,
               "takes a multiple of its 2 stages as the number of micro-batches of a step, not 3");
    dt_buf_finish(&out);
}

/* The head costs 4.8 blocks, so no way to share 12 blocks among four stages is even. */
TEST(the_slowest_stage_is_named)
{
    check_text(DT_PIPE_GPIPE, 4, 2,
               "\n"
               "a pipeline of 4 stages by GPipe, 2 micro-batches in a step:\n"
               "\n"
               "  stage  layers                            parameters  micro-batches      idle\n"
               "  0      embedding, blocks 0 to 1              53.6 M              2    84.2 %\n"
               "  1      blocks 2 to 6                         35.4 M              2    60.5 %\n"
               "  2      blocks 7 to 10                        28.4 M              2    68.4 %\n"
               "  3      block 11, head                        45.7 M              2    54.0 %\n"
               "\n"
               "on average they are idle for 66.8 % of a step, products alone counted\n"
               "stage 3 takes 1.39 times as long as the mean: with any number of micro-batches\n"
               "the others wait for it\n");
}

/* So many are not simulated; what can be said without is. */
TEST(a_step_that_is_too_long_has_no_idle_times)
{
    struct dt_config c = config_of(DT_PIPE_1F1B, 256);
    struct dt_buf out = {0};
    struct dt_err err = {0};
    c.model.shape.layers = 256;
    CHECK_OK(dt_estimate_print_pipeline(&c, 65536, &out, &err), err);
    CHECK(
        strstr(dt_buf_cstr(&out), "block 255, head                       45.7 M              1\n"));
    CHECK(strstr(dt_buf_cstr(&out), " %") == NULL);
    dt_buf_finish(&out);
}

TEST(what_cannot_be_has_no_table)
{
    struct dt_config c = config_of(DT_PIPE_1F1B, 13);
    struct dt_buf out = {0};
    struct dt_err err = {0};
    CHECK_FAIL(dt_estimate_print_pipeline(&c, 0, &out, &err), err,
               "a step of a pipeline has 1 to 65536 micro-batches, not 0");
    CHECK_FAIL(dt_estimate_print_pipeline(&c, 4, &out, &err), err,
               "a pipeline of 13 stages takes a model of as many blocks at least");
    CHECK_FAIL(dt_estimate_print_pipeline(&c, INT64_MAX, &out, &err), err,
               "a step has 65536 micro-batches at most, not 9223372036854775807");
    CHECK_EQ(out.len, 0);
    dt_buf_finish(&out);
}
