/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/check.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/train/suggest.h"

#include <string.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

#define LLAMA(width, inner, layers, heads)                                                         \
    "\"bf16\": {\"enabled\": true}, \"data\": {\"sequence_length\": 8192}, \"model\": "            \
    "{\"config\": "                                                                                \
    "{\"model_type\": \"llama\", \"vocab_size\": 128256, \"max_position_embeddings\": 8192, "      \
    "\"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-5, \"hidden_size\": " #width                 \
    ", \"intermediate_size\": " #inner ", \"num_hidden_layers\": " #layers                         \
    ", \"num_attention_heads\": " #heads "}}"
#define BIG LLAMA(8192, 28672, 80, 64)
#define MIDDLE LLAMA(4096, 14336, 32, 32)
#define SMALL                                                                                      \
    "\"model\": {\"config\": {\"model_type\": \"gpt2\", \"vocab_size\": 320, \"n_positions\": 64," \
    "\"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2, \"resid_pdrop\": 0, \"embd_pdrop\": 0, "       \
    "\"attn_pdrop\": 0}}"

#define MIXTRAL(width, inner, layers, heads, positions)                                            \
    "\"data\": {\"sequence_length\": " #positions "}, \"model\": {\"config\": "                    \
    "{\"model_type\": \"mixtral\", \"vocab_size\": 32000, \"max_position_embeddings\": 32768, "    \
    "\"num_key_value_heads\": 8, \"rms_norm_eps\": 1e-5, \"num_local_experts\": 8, "               \
    "\"num_experts_per_tok\": 2, \"hidden_size\": " #width ", \"intermediate_size\": " #inner      \
    ", \"num_hidden_layers\": " #layers ", \"num_attention_heads\": " #heads "}}"

static struct dt_config parsed(const char *text)
{
    struct dt_config c;
    struct dt_err err = {0};
    CHECK_OK(dt_config_parse(&c, text, strlen(text), "text", "", NULL, &err), err);
    return c;
}

static struct dt_machine machine(const char *words)
{
    struct dt_machine m;
    struct dt_err err = {0};
    dt_machine_init(&m, 2, 1, (size_t)1 << 34);
    CHECK_OK(dt_machine_read(&m, words, &err), err);
    return m;
}

static struct dt_suggestions suggested(const struct dt_config *c, const char *words)
{
    struct dt_machine m = machine(words);
    struct dt_suggestions s;
    struct dt_err err = {0};
    CHECK_OK(dt_suggest(c, &m, &s, &err), err);
    CHECK(s.count > 0);
    return s;
}

static const struct dt_suggestion *find(const struct dt_suggestions *s, int tensor, int stages,
                                        int context)
{
    for (size_t i = 0; i < s->count; i++) {
        const int *size = s->at[i].plan.mesh.size;
        if (size[DT_MESH_TP] == tensor && size[DT_MESH_PP] == stages && size[DT_MESH_CP] == context)
            return &s->at[i];
    }
    return NULL;
}

static int product(const struct dt_mesh_shape *s)
{
    int n = 1;
    for (int dim = 0; dim < DT_MESH_DIMS; dim++)
        n *= s->size[dim];
    return n;
}

/* What holds for each row of whatever is suggested. */
static void check_all(const struct dt_suggestions *s, const char *words)
{
    struct dt_machine m = machine(words);
    for (size_t i = 0; i < s->count; i++) {
        const struct dt_suggestion *one = &s->at[i];
        const int *size = one->plan.mesh.size;
        CHECK_ROW("suggestion %zu of %s", i, words);
        CHECK_EQ(product(&one->plan.mesh), m.hosts * m.local);
        CHECK_EQ(m.local % size[DT_MESH_TP], 0);
        CHECK_EQ(m.local / size[DT_MESH_TP] % size[DT_MESH_EP], 0);
        CHECK_EQ(one->plan.micro * one->plan.accumulation * size[DT_MESH_DP] * size[DT_MESH_EP],
                 s->batch);
        CHECK(one->memory > 0 && one->memory <= s->room);
        CHECK(i == 0 || one->cost.seconds >= s->at[i - 1].cost.seconds);
        CHECK(one->cost.idle >= 0 && one->cost.idle < 1 && one->cost.sent >= 0);
        CHECK(one->cost.mfu > 0 && one->cost.mfu < 1);
        CHECK(one->today);
    }
}

/* What fits on one rank with room to spare is shared by samples alone. */
TEST(a_small_model_gets_data_parallelism)
{
    static const char *const machines[] = {"ranks=2", "ranks=4", "hosts=2,ranks=8",
                                           "gpus=8,gpu=H100", "hosts=4,gpus=8,gpu=A100"};
    struct dt_config c = parsed("{\"train_batch_size\": 1024, " SMALL "}");
    for (size_t i = 0; i < ROWS(machines); i++) {
        struct dt_suggestions s = suggested(&c, machines[i]);
        check_all(&s, machines[i]);
        CHECK_ROW("%s", machines[i]);
        CHECK(s.best == s.fastest);
        CHECK_EQ(s.best->plan.mesh.size[DT_MESH_DP], product(&s.best->plan.mesh));
        CHECK(!s.best->plan.recompute);
        dt_suggest_finish(&s);
    }
    dt_config_finish(&c);
}

/* 8B on one host of H100s: others shard it over all of them. */
TEST(eight_billion_parameters_are_sharded_over_a_host)
{
    struct dt_config c = parsed("{\"train_batch_size\": 128, " MIDDLE "}");
    struct dt_suggestions s = suggested(&c, "gpus=8,gpu=H100");
    check_all(&s, "gpus=8,gpu=H100");
    CHECK(s.best == s.fastest);
    CHECK_EQ(s.best->plan.mesh.size[DT_MESH_DP], 8);
    CHECK(s.best->plan.stage >= 2);
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

/* 70B on 64 H100s: Megatron's guide says tensor 4, pipeline 4, context 2; torchtitan shards it
 * whole beside tensors. Both are within a tenth of the fastest; no replica of data alone is. */
TEST(seventy_billion_come_out_near_what_others_take)
{
    struct dt_config c = parsed("{\"train_batch_size\": 512, " BIG "}");
    struct dt_suggestions s = suggested(&c, "hosts=8,gpus=8,gpu=H100");
    check_all(&s, "hosts=8,gpus=8,gpu=H100");
    const struct dt_suggestion *guide = find(&s, 4, 4, 2), *shards = find(&s, 2, 1, 2);
    CHECK(guide && guide->cost.seconds < s.fastest->cost.seconds * 1.1);
    CHECK(shards && shards->cost.seconds < s.fastest->cost.seconds * 1.1);
    CHECK_EQ(shards->plan.stage, 3);
    CHECK(s.best == s.fastest);
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

/* Over a slow network ranks sum parameters seldom: a pipeline sends least. */
TEST(a_slow_network_wants_a_pipeline)
{
    struct dt_config c = parsed("{\"train_batch_size\": 512, " BIG "}");
    struct dt_suggestions s = suggested(&c, "hosts=8,gpus=8,gpu=H100,network=100");
    check_all(&s, "hosts=8,gpus=8,gpu=H100,network=100");
    CHECK(s.fastest->plan.mesh.size[DT_MESH_PP] > 1);
    CHECK(s.fastest->plan.stage < 2);
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

TEST(more_memory_never_makes_the_best_slower)
{
    static const char *const sizes[] = {"24G", "32G", "40G", "48G", "64G", "80G", "141G", "1T"};
    struct dt_config c = parsed("{\"train_batch_size\": 128, " MIDDLE "}");
    double before = 0;
    for (size_t i = 0; i < ROWS(sizes); i++) {
        char words[64];
        snprintf(words, sizeof words, "hosts=2,gpus=8,gpu=H100,memory=%s", sizes[i]);
        struct dt_suggestions s = suggested(&c, words);
        CHECK_ROW("%s: %g s", sizes[i], s.fastest->cost.seconds);
        CHECK(before == 0 || s.fastest->cost.seconds <= before);
        CHECK(s.best == s.fastest);
        before = s.fastest->cost.seconds;
        dt_suggest_finish(&s);
    }
    dt_config_finish(&c);
}

TEST(where_nothing_fits_it_says_what_is_missing)
{
    struct dt_config c = parsed("{\"train_batch_size\": 512, " BIG "}");
    struct dt_machine m = machine("gpus=8,gpu=H100");
    struct dt_suggestions s;
    struct dt_err err = {0};
    CHECK_FAIL(dt_suggest(&c, &m, &s, &err), err, "nothing fits: least is taken by ");
    CHECK(strstr(err.text, " of each rank, which has 75 GiB, so "));
    CHECK(strstr(err.text, " are missing; more hosts, "));
    CHECK_EQ(err.code, DT_E_RUNTIME);
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

TEST(what_cannot_be_shared_is_refused)
{
    /* clang-format off */
    static const struct { const char *text, *why; } rows[] = {
        {"{\"train_batch_size\": 7, \"lora\": {\"base\": \"nf4\"}, " SMALL "}", "train_batch_size: 7 samples cannot be shared evenly by 4 ranks"},
        {"{\"train_batch_size\": 8}", "there is neither model.config nor model.weights"},
        {"{\"train_batch_size\": 8, \"train\": {\"device\": \"cuda\"}, " SMALL "}", "train.device is \"cuda\", and there is no GPU on these hosts"},
        {"{" SMALL "}", "neither train_batch_size nor train_micro_batch_size_per_gpu"},
    };
    /* clang-format on */
    struct dt_machine m = machine("ranks=4");
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_config c = parsed(rows[i].text);
        struct dt_suggestions s;
        struct dt_err err = {0};
        CHECK_ROW("%s", rows[i].text);
        CHECK_FAIL(dt_suggest(&c, &m, &s, &err), err, rows[i].why);
        CHECK_EQ(err.code, DT_E_USAGE);
        dt_suggest_finish(&s);
        dt_config_finish(&c);
    }
}

TEST(a_gpu_that_nobody_knows_is_refused)
{
    struct dt_config c = parsed("{\"train_batch_size\": 8, " SMALL "}");
    struct dt_gpu_memory gpu = {"GPU 0, Tesla T4", (size_t)16 << 30, (size_t)15 << 30, 0};
    struct dt_machine m = machine("ranks=4");
    struct dt_suggestions s;
    struct dt_err err = {0};
    dt_machine_see(&m, 2, &gpu);
    CHECK_FAIL(dt_suggest(&c, &m, &s, &err), err, "\"GPU 0, Tesla T4\" computes and sends");
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

/* On processors all of it is in the host's memory anyway. */
TEST(what_is_offloaded_from_gpus_is_refused)
{
    struct dt_config c = parsed("{\"train_batch_size\": 8, \"zero_optimization\": {\"stage\": 2, "
                                "\"offload_optimizer\": {\"device\": \"cpu\"}}, " SMALL "}");
    struct dt_machine gpus = machine("gpus=2,gpu=H100");
    struct dt_suggestions s;
    struct dt_err err = {0};
    CHECK_FAIL(dt_suggest(&c, &gpus, &s, &err), err, "what zero_optimization.offload_optimizer ");
    CHECK_EQ(err.code, DT_E_USAGE);
    dt_suggest_finish(&s);
    s = suggested(&c, "ranks=2");
    check_all(&s, "ranks=2");
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

/* What no GPU computes so far is listed for what it would cost. */
TEST(what_gpus_do_not_run_is_not_suggested)
{
    struct dt_config c = parsed("{\"train_batch_size\": 8, " SMALL "}");
    c.model.shape.attention_dropout = 0.1f;
    struct dt_suggestions s = suggested(&c, "gpus=2,gpu=H100");
    struct dt_machine m = machine("gpus=2,gpu=H100");
    struct dt_buf text = {0};
    struct dt_err err = {0};
    CHECK(s.fastest && !s.fastest->today && !s.best);
    CHECK_OK(dt_suggest_print(&c, &m, &text, &err), err);
    CHECK(strstr(dt_buf_cstr(&text), "  not yet\n"));
    CHECK(strstr(dt_buf_cstr(&text), "which this version cannot run yet\n"));
    CHECK(strstr(dt_buf_cstr(&text), "none of these meshes runs with this version\n"));
    dt_buf_finish(&text);
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

static const struct dt_suggestion *find_experts(const struct dt_suggestions *s, int tensor,
                                                int experts)
{
    for (size_t i = 0; i < s->count; i++) {
        const int *size = s->at[i].plan.mesh.size;
        if (size[DT_MESH_TP] == tensor && size[DT_MESH_PP] == 1 && size[DT_MESH_CP] == 1 &&
            size[DT_MESH_EP] == experts)
            return &s->at[i];
    }
    return NULL;
}

/* Where there are experts, ranks may share them: 8 by 3 is no such mesh. */
TEST(experts_are_shared_too)
{
    struct dt_config c = parsed("{\"train_batch_size\": 48, " MIXTRAL(64, 128, 2, 8, 64) "}");
    struct dt_suggestions s = suggested(&c, "ranks=6");
    check_all(&s, "ranks=6");
    CHECK(find_experts(&s, 1, 1) && find_experts(&s, 1, 2) && !find_experts(&s, 1, 3));
    CHECK(find_experts(&s, 1, 2)->cost.sent > 0);
    dt_suggest_finish(&s);
    s = suggested(&c, "ranks=4");
    check_all(&s, "ranks=4");
    CHECK(find_experts(&s, 2, 2) && find_experts(&s, 1, 4));
    dt_suggest_finish(&s);
    dt_config_finish(&c);
    c = parsed("{\"train_batch_size\": 48, " SMALL "}");
    s = suggested(&c, "ranks=4");
    CHECK(!find_experts(&s, 1, 2));
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

/* Megatron's guide has Mixtral 8x7B on 64 GPUs with 4 stages and 8 ranks to the experts: within a
 * tenth of the fastest. */
TEST(mixtral_is_shared_near_to_as_others_share_it)
{
    struct dt_config c =
        parsed("{\"bf16\": {\"enabled\": true}, \"train_batch_size\": 256, " MIXTRAL(
            4096, 14336, 32, 32, 4096) "}");
    struct dt_suggestions s = suggested(&c, "hosts=8,gpus=8,gpu=H100");
    const struct dt_suggestion *guide = NULL;
    for (size_t i = 0; i < s.count && !guide; i++)
        if (s.at[i].plan.mesh.size[DT_MESH_EP] == 8 && s.at[i].plan.mesh.size[DT_MESH_PP] == 4)
            guide = &s.at[i];
    CHECK(guide && guide->cost.seconds < s.fastest->cost.seconds * 1.1);
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

TEST(adapters_are_shared_in_each_way)
{
    struct dt_config c = parsed("{\"train_batch_size\": 64, \"lora\": {\"r\": 2}, " SMALL "}");
    struct dt_suggestions s = suggested(&c, "ranks=4");
    const struct dt_suggestion *samples = find(&s, 1, 1, 1);
    CHECK(samples && find(&s, 1, 2, 1) && find(&s, 2, 1, 1) && find(&s, 2, 2, 1));
    CHECK(samples->cost.sent > 0);
    CHECK(samples->cost.sent < (double)dt_shape_params(&c.model.shape)); /* four bytes each */
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

/* What a configuration would be refused with is not suggested. */
TEST(magnitudes_and_weights_in_nf4_are_not_cut)
{
    static const char *const more[] = {"\"use_dora\": true", "\"base\": \"nf4\""};
    for (size_t i = 0; i < ROWS(more); i++) {
        struct dt_buf text = {0};
        dt_buf_printf(&text, "{\"train_batch_size\": 64, \"lora\": {%s}, " SMALL "}", more[i]);
        struct dt_config c = parsed(dt_buf_cstr(&text));
        struct dt_suggestions s = suggested(&c, "ranks=4");
        CHECK_ROW("%s", more[i]);
        CHECK(find(&s, 1, 2, 1) && !find(&s, 2, 1, 1));
        dt_suggest_finish(&s);
        dt_config_finish(&c);
        dt_buf_finish(&text);
    }
}

/* Stage 3 gathers the model that they are for twice a micro-batch: two bytes a number, or half a
 * byte and what goes with it. */
TEST(a_frozen_model_is_gathered_as_it_is_kept)
{
    static const struct {
        const char *lora, *words;
        double least, most;
    } rows[] = {
        {"\"lora\": {\"r\": 8}", "gpus=8,gpu=H100,memory=16G", 2, 2.2},
        {"\"lora\": {\"r\": 8, \"base\": \"nf4\"}", "gpus=8,gpu=H100,memory=9G", 0.5, 1},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        struct dt_buf text = {0};
        dt_buf_printf(&text, "{\"train_batch_size\": 64, %s, " MIDDLE "}", rows[i].lora);
        struct dt_config c = parsed(dt_buf_cstr(&text));
        struct dt_suggestions s = suggested(&c, rows[i].words);
        const struct dt_suggestion *one = find(&s, 1, 1, 1);
        CHECK_ROW("%s", rows[i].lora);
        CHECK(one);
        double gathered = 2.0 * (double)one->plan.accumulation * 7 / 8;
        double each = one->cost.sent / gathered / (double)dt_shape_params(&c.model.shape);
        CHECK_ROW("%s: %g bytes", rows[i].lora, each);
        CHECK_EQ(one->plan.stage, 3);
        CHECK(each > rows[i].least && each < rows[i].most);
        dt_suggest_finish(&s);
        dt_config_finish(&c);
        dt_buf_finish(&text);
    }
}

/* The keys of a mesh, in a configuration with MODEL, which ends with the block of that name. */
static void check_keys(const char *model_text, bool sequence, const char *words, int tensor,
                       int stages, int context)
{
    struct dt_buf whole = {0}, text = {0};
    dt_buf_printf(&whole, "{\"train_batch_size\": 64, %s}", model_text);
    struct dt_config c = parsed(dt_buf_cstr(&whole));
    c.parallel.sequence = sequence;
    struct dt_suggestions s = suggested(&c, words);
    const struct dt_suggestion *two = find(&s, tensor, stages, context);
    dt_buf_finish(&whole);
    whole = (struct dt_buf){0};
    CHECK(two && two->today);
    dt_suggest_write(&two->plan, s.batch, &text);
    char *model = strstr(text.at ? (char *)dt_buf_cstr(&text) : "", "\"model\": {");
    CHECK(model);
    dt_buf_printf(&whole, "%.*s%.*s, %s", (int)(model - dt_buf_cstr(&text)), dt_buf_cstr(&text),
                  (int)strlen(model_text) - 1, model_text, model + strlen("\"model\": {"));
    struct dt_config told = parsed(dt_buf_cstr(&whole));
    struct dt_estimate_place at = {.world = 4, .local = 4};
    struct dt_estimate e;
    struct dt_err err = {0};
    CHECK_EQ(told.parallel.tensor, tensor);
    CHECK_EQ(told.parallel.pipeline, stages);
    CHECK_EQ(told.parallel.context, context);
    CHECK_EQ(told.parallel.sequence, sequence && tensor > 1);
    CHECK_EQ(told.batch.train_batch, 64);
    CHECK_OK(dt_estimate(&told, &at, told.zero.stage, &e, &err), err);
    CHECK_EQ(e.total, two->memory);
    dt_buf_finish(&text);
    dt_buf_finish(&whole);
    dt_config_finish(&told);
    dt_suggest_finish(&s);
    dt_config_finish(&c);
}

/* The memory is the estimate's to the byte. */
TEST(the_keys_that_are_printed_come_to_what_was_promised)
{
    check_keys(SMALL, false, "ranks=4", 1, 1, 1);
    check_keys(SMALL, false, "ranks=4", 2, 1, 1);
    check_keys(SMALL, false, "ranks=4", 1, 2, 1);
    check_keys(SMALL, false, "ranks=4", 2, 2, 1);
    check_keys(SMALL, true, "ranks=4", 1, 1, 1);
    check_keys(SMALL, true, "ranks=4", 2, 1, 1);
    check_keys(SMALL, true, "ranks=4", 2, 2, 1);
    check_keys(MIDDLE, false, "ranks=4,memory=2T", 1, 1, 2);
    check_keys(MIDDLE, false, "ranks=4,memory=2T", 2, 1, 2);
    check_keys(MIDDLE, false, "ranks=4,memory=2T", 1, 2, 2);
}

TEST(it_is_said_what_is_suggested_and_what_nobody_has_measured)
{
    struct dt_config c = parsed("{\"train_batch_size\": 512, " BIG "}");
    struct dt_config small = parsed("{\"train_batch_size\": 64, " SMALL "}");
    struct dt_machine gpus = machine("hosts=8,gpus=8,gpu=H100"), cores = machine("ranks=2");
    struct dt_buf out = {0};
    struct dt_err err = {0};
    CHECK_OK(dt_suggest_print(&c, &gpus, &out, &err), err);
    CHECK(!strstr(dt_buf_cstr(&out), "not yet\n"));
    CHECK(strstr(dt_buf_cstr(&out), "suggested: tensor "));
    CHECK(strstr(dt_buf_cstr(&out), "nobody has compared with a run of dtrun on GPUs"));
    dt_buf_finish(&out);
    out = (struct dt_buf){0};
    CHECK_OK(dt_suggest_print(&small, &cores, &out, &err), err);
    CHECK(strstr(dt_buf_cstr(&out), "suggested: data 2, "));
    CHECK(strstr(dt_buf_cstr(&out), "{\n  \"train_batch_size\": 64,\n"));
    dt_buf_finish(&out);
    dt_config_finish(&c);
    dt_config_finish(&small);
}
