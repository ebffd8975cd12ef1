/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/train/next_mesh.h"

#include <string.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define GIB ((size_t)1 << 30)

#define MODEL(positions)                                                                           \
    "\"data\": {\"sequence_length\": " #positions "}, \"model\": {\"config\": {\"model_type\": "   \
    "\"llama\", \"vocab_size\": 320, \"max_position_embeddings\": 8192, \"hidden_size\": 48, "     \
    "\"intermediate_size\": 80, \"num_hidden_layers\": 4, \"num_attention_heads\": 4, "            \
    "\"num_key_value_heads\": 4, \"rms_norm_eps\": 1e-5}}"
#define SMALL MODEL(32)
/* 700 million parameters: one rank wants 10 GiB and more at stage 0. */
#define LARGE                                                                                      \
    "\"data\": {\"sequence_length\": 1024}, \"model\": {\"config\": {\"model_type\": \"llama\", "  \
    "\"vocab_size\": 32000, \"max_position_embeddings\": 1024, \"hidden_size\": 2048, "            \
    "\"intermediate_size\": 5504, \"num_hidden_layers\": 12, \"num_attention_heads\": 16, "        \
    "\"num_key_value_heads\": 16, \"rms_norm_eps\": 1e-5}}"

static struct dt_config parsed(const char *text)
{
    struct dt_config c;
    struct dt_err err = {0};
    CHECK_OK(dt_config_parse(&c, text, strlen(text), "text", "", NULL, &err), err);
    return c;
}

static struct dt_next_world world(int hosts, int local, size_t memory)
{
    return (struct dt_next_world){.ranks = hosts * local,
                                  .least_local = local,
                                  .most_local = local,
                                  .threads = 1,
                                  .memory = memory};
}

static struct dt_plan chosen(const struct dt_config *c, const struct dt_next_world *w)
{
    struct dt_machine m;
    struct dt_plan p = {0};
    struct dt_err err = {0};
    dt_next_mesh_machine(w, NULL, &m);
    CHECK_OK(dt_next_mesh_choose(c, &m, w->batch, &p, &err), err);
    return p;
}

TEST(the_configured_mesh_fits_or_says_why_not)
{
    static const struct {
        struct dt_config_parallel p;
        int ranks, local;
        const char *why; /* NULL: it fits */
    } rows[] = {
        {{.tensor = 2, .pipeline = 2, .context = 1, .expert = 1}, 4, 2, NULL},
        {{.tensor = 2, .pipeline = 2, .context = 1, .expert = 1},
         2,
         2,
         "parallel.pipeline: 2 does not divide what parallel.tensor leaves of the ranks, 1"},
        {{.tensor = 2, .pipeline = 1, .context = 1, .expert = 1},
         4,
         1,
         "parallel.tensor: 2 does not divide the number of this host's ranks, 1"},
        {{.tensor = 1, .pipeline = 1, .context = 2, .expert = 1},
         3,
         1,
         "parallel.context: 2 does not divide the number of ranks, 3"},
        {{.tensor = 1, .pipeline = 1, .context = 1, .expert = 2},
         4,
         1,
         "parallel.expert: 2 does not divide the number of ranks, 4, and of this host's, 1"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_err err = {0};
        CHECK_ROW("row %zu", i);
        int rc = dt_next_mesh_fits(&rows[i].p, rows[i].ranks, rows[i].local, &err);
        if (rows[i].why)
            CHECK_FAIL(rc, err, rows[i].why);
        else
            CHECK_OK(rc, err);
    }
}

TEST(hosts_of_unequal_sizes_are_hosts_of_one_rank)
{
    struct dt_next_world w = world(2, 4, 3 * GIB);
    struct dt_machine m;
    dt_next_mesh_machine(&w, NULL, &m);
    CHECK_EQ(m.hosts, 2);
    CHECK_EQ(m.local, 4);
    CHECK_EQ(dt_machine_room(&m), 3 * GIB);
    w.ranks = 6;
    w.least_local = 2;
    dt_next_mesh_machine(&w, NULL, &m);
    CHECK_EQ(m.hosts, 6);
    CHECK_EQ(m.local, 1);
    CHECK_EQ(dt_machine_room(&m), 3 * GIB);
}

TEST(each_rank_has_a_gpu_like_that_of_rank_0)
{
    struct dt_next_world w = world(2, 4, GIB);
    struct dt_gpu_memory gpu = {
        .name = "GPU 0, NVIDIA H100 80GB HBM3", .total = 80 * GIB, .free = 70 * GIB, .scratch = 1};
    struct dt_machine m;
    dt_next_mesh_machine(&w, &gpu, &m);
    CHECK(m.gpus);
    CHECK_EQ(m.hosts, 2);
    CHECK_EQ(m.local, 4);
    CHECK_EQ(dt_machine_room(&m), 70 * GIB);
    strcpy(gpu.name, "GPU 0, one that is new");
    dt_next_mesh_machine(&w, &gpu, &m);
    CHECK(m.tera > 0);
}

/* The step stays, and so do the stage of ZeRO and what is recomputed, whatever would be faster. */
TEST(what_is_taken_is_a_step_of_the_same_run)
{
    static const int worlds[][2] = {{1, 1}, {1, 2}, {3, 1}, {1, 3}, {2, 3}, {3, 2}, {1, 6}, {4, 3}};
    static const char *const texts[] = {
        "{\"train_batch_size\": 24, \"parallel\": {\"tensor\": 4, \"pipeline\": 2}, " SMALL "}",
        "{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 3, \"parallel\": "
        "{\"tensor\": 4, \"sequence\": true}, \"zero_optimization\": {\"stage\": 3}, " SMALL "}",
        "{\"train_batch_size\": 24, \"parallel\": {\"pipeline\": 4, \"schedule\": "
        "\"zb-h1\"}, \"zero_optimization\": {\"stage\": 2}, " SMALL "}",
        "{\"train_batch_size\": 24, \"parallel\": {\"context\": 8, \"context_by\": \"ring\"}, "
        "\"activation_checkpointing\": {}, \"zero_optimization\": {\"stage\": 1}, " SMALL "}",
    };
    for (size_t i = 0; i < ROWS(texts); i++) {
        struct dt_config c = parsed(texts[i]), other;
        for (size_t n = 0; n < ROWS(worlds); n++) {
            struct dt_next_world w = world(worlds[n][0], worlds[n][1], GIB);
            struct dt_plan p = chosen(&c, &w);
            struct dt_err err = {0};
            struct dt_batch b;
            CHECK_ROW("text %zu on %d x %d ranks", i, worlds[n][0], worlds[n][1]);
            CHECK_EQ(p.stage, c.zero.stage);
            CHECK_EQ(p.recompute, c.model.recompute);
            CHECK_OK(dt_next_mesh_put(&c, &p, 0, &other, &err), err);
            const struct dt_config_parallel *q = &other.parallel;
            CHECK_OK(dt_next_mesh_fits(q, w.ranks, w.least_local, &err), err);
            CHECK_OK(dt_batch_resolve(&b, &other.batch,
                                      w.ranks / q->tensor / q->pipeline / q->context, &err),
                     err);
            CHECK_EQ(b.train, 24);
            CHECK(c.zero.stage < 3 || q->pipeline == 1);
            CHECK_EQ((int)q->schedule, DT_PIPE_1F1B);
            CHECK_EQ((int)q->context_by, DT_BY_KEYS);
        }
        dt_config_finish(&c);
    }
}

/* Two ranks that have room for half of a model each share it in place of having one each. */
TEST(what_does_not_fit_is_not_taken)
{
    struct dt_config c = parsed("{\"train_batch_size\": 8, \"parallel\": {\"tensor\": 2, "
                                "\"pipeline\": 2}, " LARGE "}");
    struct dt_next_world roomy = world(1, 2, 64 * GIB), tight = world(1, 2, 10 * GIB);
    struct dt_next_world none = world(1, 2, GIB);
    struct dt_plan p = chosen(&c, &roomy);
    struct dt_machine m;
    struct dt_err err = {0};
    CHECK_EQ(p.mesh.size[DT_MESH_DP], 2);
    p = chosen(&c, &tight);
    CHECK_EQ(p.mesh.size[DT_MESH_TP] * p.mesh.size[DT_MESH_PP], 2);
    dt_next_mesh_machine(&none, NULL, &m);
    CHECK_FAIL(dt_next_mesh_choose(&c, &m, 0, &p, &err), err, "nothing fits: least is taken by");
    dt_config_finish(&c);
}

/* Of what each rank has alone, the world before says what a step was; if nobody knows it, these
 * numbers stay. */
TEST(the_batch_of_the_world_before)
{
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 3, "
                                "\"gradient_accumulation_steps\": 4, \"parallel\": {\"tensor\": 2, "
                                "\"pipeline\": 2}, " SMALL "}");
    struct dt_config other;
    struct dt_err err = {0};
    for (int64_t before = 0; before <= 12; before += 12) {
        struct dt_next_world w = world(1, 2, GIB);
        w.batch = before;
        struct dt_plan p = chosen(&c, &w);
        CHECK_ROW("%d samples before", (int)before);
        CHECK_OK(dt_next_mesh_put(&c, &p, before, &other, &err), err);
        CHECK_EQ(other.batch.train_batch, before);
        if (before == 0) {
            CHECK_EQ(other.batch.micro_batch, 3);
            CHECK_EQ(other.batch.accumulation, 4);
        } else {
            CHECK_EQ(other.batch.micro_batch * other.batch.accumulation * p.mesh.size[DT_MESH_DP],
                     before);
        }
    }
    dt_config_finish(&c);
}

/* A plan of somebody else's is looked at as a configuration is. */
TEST(a_mesh_that_cannot_be_is_refused)
{
    struct dt_config c = parsed("{\"train_batch_size\": 8, " SMALL "}"), other;
    struct dt_err err = {0};
    struct dt_plan p = {.mesh = {{[DT_MESH_PP] = 5,
                                  [DT_MESH_DP] = 1,
                                  [DT_MESH_CP] = 1,
                                  [DT_MESH_EP] = 1,
                                  [DT_MESH_TP] = 1}},
                        .micro = 1,
                        .accumulation = 8};
    CHECK_FAIL(dt_next_mesh_put(&c, &p, 0, &other, &err), err,
               "parallel.pipeline: 5 stages want a layer each at least, and this model has 4");
    dt_config_finish(&c);
}

TEST(what_is_said)
{
    static const struct {
        const char *configured;
        int tensor, pipeline, context, expert, data;
        const char *line;
    } rows[] = {
        {"{\"parallel\": {\"tensor\": 2, \"pipeline\": 2}, " SMALL "}", 2, 1, 1, 1, 1,
         "this world has 2 ranks, which cannot share tensors by 2 and layers by 2: tensor 2 from "
         "here on"},
        {"{\"parallel\": {\"tensor\": 2, \"pipeline\": 2, \"context\": 2}, " SMALL "}", 1, 3, 1, 1,
         2,
         "this world has 6 ranks, which cannot share tensors by 2, layers by 2 and samples by 2: "
         "pipeline 3, data 2 from here on"},
        {"{\"parallel\": {\"pipeline\": 2}, " SMALL "}", 1, 1, 1, 1, 1,
         "this world has 1 rank, which cannot share layers by 2: data 1 from here on"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_config c = parsed(rows[i].configured);
        struct dt_buf line = {0};
        const struct dt_plan p = {.mesh = {{[DT_MESH_PP] = rows[i].pipeline,
                                            [DT_MESH_DP] = rows[i].data,
                                            [DT_MESH_CP] = rows[i].context,
                                            [DT_MESH_EP] = rows[i].expert,
                                            [DT_MESH_TP] = rows[i].tensor}}};
        CHECK_ROW("row %zu", i);
        dt_next_mesh_say(&c, &p, &line);
        CHECK_STR(dt_buf_cstr(&line), rows[i].line);
        dt_buf_finish(&line);
        dt_config_finish(&c);
    }
}
