/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/train/advice.h"

#include <string.h>

#include "tests/lib/check.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define MODEL                                                                                      \
    "\"model\": {\"config\": {\"model_type\": \"llama\", \"hidden_size\": 256, "                   \
    "\"intermediate_size\": 704, \"num_hidden_layers\": 8, \"num_attention_heads\": 4, "           \
    "\"max_position_embeddings\": 128, \"vocab_size\": 1000}}"
#define ALL "{\"train_batch_size\": 16, " MODEL
#define BATCHES "{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 1, " MODEL

static struct dt_config parsed(const char *text)
{
    struct dt_config c;
    struct dt_err err = {0};
    CHECK_OK(dt_config_parse(&c, text, strlen(text), "text", "", NULL, &err), err);
    return c;
}

/* The changes, in their order, with a blank between two. WEIGHTS: the model begins with some. */
static const char *changes(const struct dt_config *c, const struct dt_estimate_place *at,
                           char out[512])
{
    struct dt_advice all[DT_ADVICE_MOST];
    size_t count = dt_advice_find(c, at, all), used = 0;
    *out = '\0';
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, 512 - used, "%s%s", i ? "; " : "", all[i].change);
    return out;
}

TEST(what_fits_the_run_is_advised_and_nothing_else)
{
#define MICRO_8 "train_micro_batch_size_per_gpu 8 with gradient_accumulation_steps 2"
#define TENSOR ", \"parallel\": {\"tensor\": 2"
#define STAGES ", \"parallel\": {\"pipeline\": 2, \"schedule\": "
#define FLOATS ", \"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"fp32\"}"
#define RECOMPUTE "model.activation_checkpointing true"
#define LENGTH "data.sequence_length 64"
#define OFFLOAD "zero_optimization.offload_optimizer {\"device\": \"cpu\"}"
#define LORA "adapters in place of all weights (lora {})"
    /* clang-format off */
    static const struct { const char *text; int world; bool weights, gpu; const char *changes; } rows[] = {
        {ALL "}", 1, false, false, RECOMPUTE "; " MICRO_8 "; " LENGTH},
        {ALL "}", 1, true, false, RECOMPUTE "; " MICRO_8 "; " LENGTH "; " LORA},
        {ALL "}", 1, true, true, RECOMPUTE "; " MICRO_8 "; " LENGTH "; " LORA},
        {BATCHES "}", 1, false, false, RECOMPUTE "; " LENGTH},
        {BATCHES "}", 2, true, false, "zero_optimization.stage 3; " RECOMPUTE "; " LORA "; " LENGTH},
        {BATCHES "}", 2, true, true, "zero_optimization.stage 1; " RECOMPUTE "; " LORA "; " LENGTH},
        {BATCHES ", \"zero_optimization\": {\"stage\": 3}}", 2, true, true, OFFLOAD "; " RECOMPUTE "; " LORA "; " LENGTH},
        {BATCHES ", \"zero_optimization\": {\"stage\": 3}}", 2, true, false, RECOMPUTE "; " LORA "; " LENGTH},
        {BATCHES ", \"lora\": {}}", 1, true, false, RECOMPUTE "; lora.base \"nf4\"; " LENGTH},
        {BATCHES ", \"lora\": {\"base\": \"nf4\"}}", 1, true, false, RECOMPUTE "; " LENGTH},
        {BATCHES FLOATS "}", 1, false, true, RECOMPUTE "; data_types.grad_accum_dtype \"bf16\"; " LENGTH},
        {BATCHES FLOATS "}", 1, false, false, RECOMPUTE "; " LENGTH},
        {ALL TENSOR "}}", 2, false, false, RECOMPUTE "; " MICRO_8 "; parallel.sequence true; " LENGTH},
        {ALL TENSOR ", \"sequence\": true}}", 2, false, false, RECOMPUTE "; " MICRO_8 "; " LENGTH},
        {BATCHES STAGES "\"1f1b\"}}", 2, false, false, RECOMPUTE "; " LENGTH},
        {BATCHES STAGES "\"zb-h1\"}}", 2, false, false, "parallel.schedule \"1f1b\"; " LENGTH},
        {BATCHES ", \"dpo\": {}}", 1, true, false, RECOMPUTE "; " LORA "; " LENGTH},
    };
    /* clang-format on */
    char text[512], path[] = "model";
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%zu: %s", i, rows[i].text);
        struct dt_config c = parsed(rows[i].text);
        struct dt_estimate_place at = {
            .world = rows[i].world, .local = rows[i].world, .on_gpu = rows[i].gpu};
        char *was = c.model.weights;
        c.model.weights = rows[i].weights ? path : NULL;
        CHECK_STR(changes(&c, &at, text), rows[i].changes);
        c.model.weights = was;
        dt_config_finish(&c);
    }
}

/* Each saves what the estimate says of a configuration with that change. */
TEST(what_is_saved_is_what_the_estimate_says)
{
    struct dt_config c = parsed(ALL "}"), smaller = parsed(ALL "}");
    struct dt_estimate_place at = {.world = 1, .local = 1};
    struct dt_estimate e, less;
    struct dt_err err = {0};
    struct dt_advice all[DT_ADVICE_MOST];
    size_t count = dt_advice_find(&c, &at, all);
    CHECK_EQ(count, 3);
    CHECK_OK(dt_estimate(&c, &at, 0, &e, &err), err);
    smaller.model.recompute = true;
    CHECK_OK(dt_estimate(&smaller, &at, 0, &less, &err), err);
    CHECK_EQ(all[0].saves, e.total - less.total);
    smaller.model.recompute = false;
    smaller.batch.micro_batch = 8;
    CHECK_OK(dt_estimate(&smaller, &at, 0, &less, &err), err);
    CHECK_EQ(all[1].saves, e.total - less.total);
    CHECK(all[0].same && all[1].same && !all[2].same);
    dt_config_finish(&c);
    dt_config_finish(&smaller);
}

TEST(a_micro_batch_and_a_stage_are_no_less_than_what_fits)
{
    struct dt_config c = parsed(ALL "}"), quarter = parsed(ALL "}");
    struct dt_estimate_place at = {.world = 1, .local = 1};
    struct dt_estimate e;
    struct dt_err err = {0};
    char text[512];
    quarter.batch.micro_batch = 4;
    CHECK_OK(dt_estimate(&quarter, &at, 0, &e, &err), err);
    at.memory = e.total;
    CHECK(strstr(changes(&c, &at, text),
                 "train_micro_batch_size_per_gpu 4 with gradient_accumulation_steps 4"));
    at = (struct dt_estimate_place){.world = 2, .local = 2};
    c.batch.micro_batch = 1;
    CHECK_OK(dt_estimate(&c, &at, 1, &e, &err), err);
    at.memory = 2 * e.total;
    CHECK(strstr(changes(&c, &at, text), "zero_optimization.stage 1;"));
    dt_config_finish(&c);
    dt_config_finish(&quarter);
}

TEST(a_sentence_has_whole_parts)
{
    static const struct dt_advice some[] = {{"one 1", (size_t)3 << 30, true},
                                            {"two", 150 << 20, false}};
    const char *whole = "one 1 (saves 3 GiB in each rank), two (150 MiB)";
    char text[100];
    CHECK_STR(dt_advice_write(some, 2, false, text, sizeof text), whole);
    CHECK_STR(dt_advice_write(some, 2, true, text, sizeof text),
              "one 1 (saves 3 GiB), two (150 MiB)");
    CHECK_STR(dt_advice_write(some, 2, false, text, strlen(whole) + 1), whole);
    CHECK_STR(dt_advice_write(some, 2, false, text, strlen(whole)),
              "one 1 (saves 3 GiB in each rank)");
    CHECK_STR(dt_advice_write(some, 2, false, text, 8), "");
    CHECK_STR(dt_advice_write(some, 0, false, text, sizeof text), "");
}
