/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/train/cost.h"

#include <math.h>
#include <string.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define GIGA 1e9

static struct dt_shape gpt(size_t layers, size_t width, size_t heads)
{
    return (struct dt_shape){.family = DT_GPT2,
                             .layers = layers,
                             .heads = heads,
                             .kv_heads = heads,
                             .width = width,
                             .head_dim = width / heads,
                             .inner = 4 * width,
                             .positions = 2048,
                             .vocabulary = 51200,
                             .tied = true};
}

static struct dt_shape llama(size_t layers, size_t width, size_t heads, size_t inner)
{
    return (struct dt_shape){.family = DT_LLAMA,
                             .layers = layers,
                             .heads = heads,
                             .kv_heads = 8,
                             .width = width,
                             .head_dim = 128,
                             .inner = inner,
                             .positions = 8192,
                             .vocabulary = 128256};
}

static struct dt_machine machine(const char *words)
{
    struct dt_machine m;
    struct dt_err err = {0};
    dt_machine_init(&m, 2, 1, (size_t)1 << 34);
    CHECK_OK(dt_machine_read(&m, words, &err), err);
    return m;
}

static struct dt_plan plan_of(int tensor, int stages, int data, int64_t accumulation)
{
    return (struct dt_plan){.mesh = {{[DT_MESH_PP] = stages,
                                      [DT_MESH_DP] = data,
                                      [DT_MESH_CP] = 1,
                                      [DT_MESH_EP] = 1,
                                      [DT_MESH_TP] = tensor}},
                            .micro = 1,
                            .accumulation = accumulation};
}

static struct dt_shape part_of(const struct dt_shape *s, const struct dt_plan *p)
{
    struct dt_shape part;
    struct dt_err err = {0};
    CHECK_OK(dt_shape_cut(s, (size_t)p->mesh.size[DT_MESH_TP], &part, &err), err);
    return part;
}

static struct dt_cost cost_of(const struct dt_shape *s, size_t positions, const struct dt_plan *p,
                              const struct dt_machine *m)
{
    struct dt_shape part = part_of(s, p);
    struct dt_step_work work = {
        .shape = s, .part = &part, .positions = positions, .elem = m->gpus ? 2 : 4};
    return dt_plan_cost(&work, p, m);
}

/* With samples of 1024 positions, in floats. */
static struct dt_traffic traffic_of(const struct dt_shape *s, const struct dt_plan *p,
                                    const char *words)
{
    struct dt_machine m = machine(words);
    struct dt_shape part = part_of(s, p);
    struct dt_step_work work = {.shape = s, .part = &part, .positions = 1024, .elem = 4};
    return dt_plan_traffic(&work, p, &m);
}

/* What Megatron's authors have published (arXiv 2104.04473, table 1), on A100s with all blocks
 * recomputed, which their share counts: the constants of cost.c are such that all of this comes out
 * within a quarter. Their pipelines of 35 and 64 stages are interleaved, and idle for less. */
TEST(published_runs_of_another_program_come_out_within_a_quarter)
{
    static const struct {
        size_t layers, width, heads;
        int tensor, stages, gpus;
        int64_t batch;
        double share; /* of 312e12 FLOPs a second */
    } rows[] = {
        {24, 2304, 24, 1, 1, 32, 512, 0.44},        {36, 4096, 32, 4, 1, 128, 512, 0.46},
        {40, 6144, 48, 8, 1, 256, 1024, 0.43},      {48, 8192, 64, 8, 2, 512, 1536, 0.44},
        {60, 10240, 80, 8, 4, 1024, 1792, 0.45},    {80, 12288, 96, 8, 8, 1536, 2304, 0.47},
        {96, 16384, 128, 8, 16, 1920, 2160, 0.50},  {105, 20480, 128, 8, 35, 2520, 2520, 0.52},
        {128, 25600, 160, 8, 64, 3072, 3072, 0.52},
    };
    struct dt_machine m = machine("gpus=8,gpu=A100");
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_shape s = gpt(rows[i].layers, rows[i].width, rows[i].heads);
        int data = rows[i].gpus / rows[i].tensor / rows[i].stages;
        struct dt_plan p = plan_of(rows[i].tensor, rows[i].stages, data, rows[i].batch / data);
        p.recompute = true;
        m.hosts = rows[i].gpus / 8;
        double share = cost_of(&s, 2048, &p, &m).mfu * 4 / 3;
        CHECK_ROW("width %zu: %.3f beside %.3f", rows[i].width, share, rows[i].share);
        CHECK(share > rows[i].share * 0.8 && share < rows[i].share * 1.25);
    }
}

/* And torchtitan's, tokens a second of an H100: 8B on 8 of them, without and with its compiler, and
 * 70B on 256. */
TEST(so_do_those_of_a_third)
{
    struct dt_machine m = machine("gpus=8,gpu=H100");
    struct dt_shape s = llama(32, 4096, 32, 14336);
    struct dt_plan p = plan_of(1, 1, 8, 1);
    p.micro = 2;
    p.stage = 3;
    p.recompute = true;
    double speed = 2 * 8192 / cost_of(&s, 8192, &p, &m).seconds;
    CHECK_ROW("8B: %.0f", speed);
    CHECK(speed > 5762 && speed < 6667 * 1.1);
    s = llama(80, 8192, 64, 28672);
    m = machine("hosts=32,gpus=8,gpu=H100");
    p = plan_of(8, 1, 32, 1);
    p.micro = 16;
    p.stage = 3;
    p.recompute = true;
    speed = 16 * 8192 / cost_of(&s, 8192, &p, &m).seconds / 8;
    CHECK_ROW("70B: %.0f", speed);
    CHECK(speed > 597 * 0.8 && speed < 652 * 1.1);
}

/* A = 4 * 1024 * 256 floats. */
TEST(a_rank_sends_what_theory_says)
{
    const double a = 4.0 * 1024 * 256 * 4;
    struct dt_shape s = gpt(6, 256, 8);
    struct dt_plan p = plan_of(2, 1, 1, 3);
    p.micro = 4;
    struct dt_traffic t = traffic_of(&s, &p, "ranks=4");
    CHECK_EQ((int64_t)t.bytes[DT_MESH_TP],
             (int64_t)(3 * (6 * 4 + 2) * a)); /* 4 sums, 2 (t-1)/t of each */
    CHECK_EQ((int64_t)t.bytes[DT_MESH_DP], 0);
    p.recompute = true;
    t = traffic_of(&s, &p, "ranks=4");
    CHECK_EQ((int64_t)t.bytes[DT_MESH_TP], (int64_t)(3 * (6 * 6 + 2) * a));
    p = plan_of(1, 2, 1, 3);
    p.micro = 4;
    t = traffic_of(&s, &p, "ranks=4");
    CHECK_EQ((int64_t)t.bytes[DT_MESH_PP], (int64_t)(3 * 2 * a));
    p = plan_of(1, 1, 1, 3);
    p.mesh.size[DT_MESH_CP] = 2;
    t = traffic_of(&s, &p, "ranks=4");
    CHECK_EQ((int64_t)t.bytes[DT_MESH_CP], (int64_t)3 * 6 * 6 * 256 * 512 * 4);
}

/* Of 8 experts each row goes to 2, half of them the other rank's, and comes back; on the way back
 * likewise. What is no expert both sum up once a step. */
TEST(rows_go_to_their_experts_and_back)
{
    struct dt_shape s = llama(4, 256, 8, 512), part;
    struct dt_err err = {0};
    s.experts = 8;
    s.expert_picks = 2;
    s.expert_inner = 64;
    struct dt_plan p = plan_of(1, 1, 1, 3);
    p.mesh.size[DT_MESH_EP] = 2;
    p.micro = 4;
    const double a = 4.0 * 1024 * 256 * 4;
    CHECK_OK(dt_shape_share_experts(&s, 2, &part, &err), err);
    double away = (double)(dt_shape_params(&s) - dt_shape_params(&part));
    double common = (double)dt_shape_params(&part) - away;
    struct dt_traffic t = traffic_of(&s, &p, "ranks=4");
    CHECK_EQ((int64_t)t.bytes[DT_MESH_EP], (int64_t)(3 * 4 * 4 * a + common * 4));
    CHECK_EQ((int64_t)t.bytes[DT_MESH_DP], 0);
    p.recompute = true;
    t = traffic_of(&s, &p, "ranks=4");
    CHECK_EQ((int64_t)t.bytes[DT_MESH_EP], (int64_t)(3 * 4 * 6 * a + common * 4));
}

/* Four ranks, three micro-batches: each sum and each gathering sends three quarters. At stage 3
 * both are made in each micro-batch; and on one host without GPUs all read one copy. */
TEST(data_ranks_sum_gradients_and_gather_what_they_lack)
{
    static const struct {
        const char *words;
        int stage, times;
    } rows[] = {
        {"gpus=4,gpu=A100", 0, 2}, {"gpus=4,gpu=A100", 1, 2}, {"gpus=4,gpu=A100", 2, 2},
        {"gpus=4,gpu=A100", 3, 9}, {"hosts=2,ranks=2", 1, 2}, {"hosts=2,ranks=2", 3, 9},
        {"ranks=4", 0, 2},         {"ranks=4", 1, 1},         {"ranks=4", 2, 1},
        {"ranks=4", 3, 3},
    };
    struct dt_shape s = gpt(6, 256, 8);
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_plan p = plan_of(1, 1, 4, 3);
        p.stage = rows[i].stage;
        CHECK_ROW("%s, stage %d", rows[i].words, p.stage);
        CHECK_EQ((int64_t)traffic_of(&s, &p, rows[i].words).bytes[DT_MESH_DP],
                 (int64_t)dt_shape_params(&s) * 4 * rows[i].times * 3 / 4);
    }
}

/* Where micro-batches of 16-bit numbers are added up in float, that is what ranks sum; at stage 0
 * the sums are gathered, too, and at stages 1 and 2 parameters. Stage 3 sums each micro-batch as it
 * was computed, and so does a step of one. */
TEST(gradients_are_sent_in_float_where_they_are_added_up_so)
{
    static const struct {
        int stage, micro_batches, bytes;
    } rows[] = {{0, 3, 4 + 4}, {1, 3, 4 + 2}, {2, 3, 4 + 2}, {3, 3, 9 * 2}, {0, 1, 2 + 2}};
    struct dt_machine m = machine("gpus=4,gpu=A100");
    struct dt_shape s = gpt(6, 256, 8);
    struct dt_step_work work = {
        .shape = &s, .part = &s, .positions = 1024, .elem = 2, .float_sums = true};
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_plan p = plan_of(1, 1, 4, rows[i].micro_batches);
        p.stage = rows[i].stage;
        CHECK_ROW("stage %d, %d micro-batches", p.stage, rows[i].micro_batches);
        CHECK_EQ((int64_t)dt_plan_traffic(&work, &p, &m).bytes[DT_MESH_DP],
                 (int64_t)dt_shape_params(&s) * rows[i].bytes * 3 / 4);
    }
}

/* A thousand parameters are trained: these are summed, and updated. Of the model beside them a rank
 * gathers what it does not keep. */
TEST(adapters_are_what_is_summed_and_updated)
{
    struct dt_machine m = machine("gpus=4,gpu=A100");
    struct dt_shape s = gpt(6, 256, 8);
    struct dt_step_work work = {.shape = &s, .part = &s, .positions = 1024, .elem = 2};
    struct dt_plan p = plan_of(1, 1, 4, 3);
    double whole = dt_plan_cost(&work, &p, &m).seconds;
    double update = (double)dt_shape_params(&s) * 28 / m.memory_speed;
    work.adapters = 1000;
    work.frozen = 1e6;
    CHECK_EQ((int64_t)dt_plan_traffic(&work, &p, &m).bytes[DT_MESH_DP], 2 * 2000 * 3 / 4);
    CHECK(dt_plan_cost(&work, &p, &m).seconds < whole - update * 0.99);
    p.stage = 3;
    CHECK_EQ((int64_t)dt_plan_traffic(&work, &p, &m).bytes[DT_MESH_DP],
             (9 * 2000 + 6 * 1000000) * 3 / 4);
}

/* 1F1B: the stages before it and behind it idle for (p-1) of m + p-1 turns. */
TEST(a_pipeline_is_idle_while_it_fills_and_empties)
{
    struct dt_machine m = machine("hosts=16,gpus=8,gpu=A100");
    struct dt_shape s = gpt(64, 1024, 16);
    struct dt_plan p = plan_of(1, 64, 2, 128);
    CHECK_EQ((int64_t)(cost_of(&s, 2048, &p, &m).idle * 1000), 329);
    p = plan_of(1, 1, 128, 2);
    CHECK(cost_of(&s, 2048, &p, &m).idle == 0);
}

/* A head worth four blocks: four stages of 7, 7, 7 and 3 take as long as 7 blocks each, and not as
 * 6 with 10 in the last. */
TEST(the_stage_with_the_head_has_fewer_blocks)
{
    struct dt_machine m = machine("ranks=4");
    struct dt_shape s = gpt(24, 1024, 16), small = s;
    struct dt_plan p = plan_of(1, 4, 1, 8);
    s.vocabulary = 4 * 12 * 1024;
    small.vocabulary = 64;
    double ratio = cost_of(&s, 64, &p, &m).seconds / cost_of(&small, 64, &p, &m).seconds;
    CHECK_ROW("%g", ratio);
    CHECK(ratio > 7.0 / 6 && ratio < 7.0 / 6 * 1.1);
}

TEST(a_faster_network_makes_nothing_slower)
{
    struct dt_machine slow = machine("hosts=8,gpus=8,gpu=H100,network=100");
    struct dt_machine fast = machine("hosts=8,gpus=8,gpu=H100,network=3200");
    struct dt_shape s = llama(32, 4096, 32, 14336);
    for (int tensor = 1; tensor <= 8; tensor *= 2)
        for (int stages = 1; stages <= 8; stages *= 2) {
            struct dt_plan p = plan_of(tensor, stages, 64 / tensor / stages, 16);
            CHECK_ROW("tensor %d, pipeline %d", tensor, stages);
            CHECK(cost_of(&s, 8192, &p, &fast).seconds <= cost_of(&s, 8192, &p, &slow).seconds);
            CHECK(isfinite(cost_of(&s, 8192, &p, &fast).seconds));
        }
    struct dt_plan all = plan_of(1, 1, 64, 1);
    CHECK(cost_of(&s, 8192, &all, &fast).seconds < cost_of(&s, 8192, &all, &slow).seconds);
}

TEST(a_plan_is_said_in_the_words_of_a_configuration)
{
    char text[96];
    struct dt_plan p = plan_of(8, 2, 4, 1);
    p.stage = 1;
    CHECK_STR(dt_plan_say(&p, text, sizeof text), "tensor 8, pipeline 2, data 4, stage 1");
    p = plan_of(1, 1, 4, 1);
    p.mesh.size[DT_MESH_CP] = 2;
    p.recompute = true;
    CHECK_STR(dt_plan_say(&p, text, sizeof text),
              "context 2, data 4, stage 0, activation_checkpointing");
    CHECK_STR(dt_plan_say(&p, text, 9), "context ");
}
