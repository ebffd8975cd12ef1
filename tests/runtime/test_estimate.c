/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/runtime/ranks.h"
#include "worker_runtime/device/device.h"
#include "worker_runtime/model/transformer.h"
#include "worker_runtime/train/estimate.h"
#include "worker_runtime/zero/create.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

/* Units of 12288, 12704 twice and 64 elements: halves of them are multiples of 16, so that nothing
 * is padded. */
#define SMALL                                                                                      \
    "\"model\": {\"config\": {\"model_type\": \"gpt2\", \"vocab_size\": 320, \"n_positions\": 64," \
    "\"n_embd\": 32, \"n_layer\": 2, \"n_head\": 2, \"resid_pdrop\": 0, \"embd_pdrop\": 0, "       \
    "\"attn_pdrop\": 0}}"
#define DEEP                                                                                       \
    "\"model\": {\"config\": {\"model_type\": \"gpt2\", \"vocab_size\": 320, \"n_positions\": 64," \
    "\"n_embd\": 32, \"n_layer\": 4, \"n_head\": 2, \"resid_pdrop\": 0, \"embd_pdrop\": 0, "       \
    "\"attn_pdrop\": 0}}"
#define EMBED ((size_t)(320 + 64) * 32)
#define BLOCK ((size_t)12 * 32 * 32 + 13 * 32)
#define HEAD ((size_t)2 * 32)
#define ALL (EMBED + 2 * BLOCK + HEAD)
#define LOANS (4 * BLOCK) /* three beside the largest */

static struct dt_config parsed(const char *text)
{
    struct dt_config c;
    struct dt_err err = {0};
    CHECK_OK(dt_config_parse(&c, text, strlen(text), "text", "", NULL, &err), err);
    return c;
}

static struct dt_estimate at(const struct dt_config *c, struct dt_estimate_place place, int stage)
{
    struct dt_estimate e;
    struct dt_err err = {0};
    CHECK_OK(dt_estimate(c, &place, stage, &e, &err), err);
    CHECK_EQ(e.total, e.params + e.grads + e.optimizer + e.activations + e.scratch +
                          (place.gpus > 0 ? 0 : e.snapshot));
    return e;
}

static struct dt_estimate of(const struct dt_config *c, int world, int local, int stage)
{
    return at(c, (struct dt_estimate_place){.world = world, .local = local}, stage);
}

/* Where ranks have GPUs, which are not here. */
static struct dt_estimate on_gpus(const struct dt_config *c, int world, int stage)
{
    return at(c, (struct dt_estimate_place){.world = world, .local = world, .on_gpu = true}, stage);
}

TEST(stages_keep_what_they_keep)
{
    /* clang-format off */
    static const struct { int world, local, stage; size_t params, grads, optimizer; } rows[] = {
        {1, 1, 0, ALL * 4, ALL * 4, ALL * 8},
        {1, 1, 1, ALL * 4, ALL * 4, ALL * 8},
        {1, 1, 3, ALL * 4, ALL * 4, ALL * 8},                        /* alone, as at stage 1 */
        {2, 2, 0, ALL * 4, ALL * 4, ALL * 8},
        {2, 2, 1, ALL * 2, ALL * 4, ALL * 4},                        /* one copy on the host */
        {2, 2, 2, ALL * 2, ALL * 2 + LOANS * 4, ALL * 4},
        {2, 2, 3, ALL * 2, ALL * 2 + LOANS * 4, ALL * 4},
        {2, 1, 1, ALL * 4, ALL * 4, ALL * 4},                        /* a copy on each */
        {2, 1, 3, ALL * 6, ALL * 2 + LOANS * 4, ALL * 4},            /* shards, and all units gathered */
    };
    /* clang-format on */
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 2, " SMALL "}");
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%d ranks, %d here, stage %d", rows[i].world, rows[i].local, rows[i].stage);
        struct dt_estimate e = of(&c, rows[i].world, rows[i].local, rows[i].stage);
        CHECK_EQ(e.params, rows[i].params);
        CHECK_EQ(e.grads, rows[i].grads);
        CHECK_EQ(e.optimizer, rows[i].optimizer);
        CHECK_EQ(e.snapshot, 0);
    }
    dt_config_finish(&c);
}

/* Two ranks that share each block have half of its matrices and the biases of their columns, and
 * half of the words; norms, the biases of rows, and positions are whole. */
TEST(a_rank_that_shares_tensors_has_its_parts)
{
    const size_t block =
        4 * 32 + (32 * 96 + 96) / 2 + 32 * 32 / 2 + 32 + (32 * 128 + 128) / 2 + 128 * 32 / 2 + 32;
    const size_t embed = (320 / 2 + 64) * 32;
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 2, "
                                "\"train\": {\"save_dir\": \"x\"}, "
                                "\"parallel\": {\"tensor\": 2}, " SMALL "}");
    struct dt_estimate_place three = {.world = 3, .local = 3};
    struct dt_estimate e = of(&c, 2, 2, 0);
    struct dt_err err = {0};
    CHECK_EQ(e.params, (embed + 2 * block + HEAD) * 4);
    CHECK_EQ(e.grads, (embed + 2 * block + HEAD) * 4);
    CHECK_EQ(e.snapshot, (embed + 2 * block + HEAD) * 2 * 12); /* and the parts, as a save begins */
    CHECK(of(&c, 4, 4, 2).optimizer < e.optimizer * 6 / 10);
    CHECK_FAIL(dt_estimate(&c, &three, 0, &e, &err), err,
               "parallel.tensor: 2 does not divide the number of ranks, 3, and of those on each "
               "host, 3; give --world");
    dt_config_finish(&c);
}

/* What the stream takes falls by half, to the byte: the gradient of it, of each block its input,
 * the stream in its midst, and means and deviations of two norms, and those of the last norm. */
TEST(ranks_that_share_rows_have_half_of_the_stream)
{
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 2, "
                                "\"parallel\": {\"tensor\": 2}, " SMALL "}");
    size_t rows = 2 * 64, floats = 32 * rows + 2 * (2 * 32 * rows + 4 * rows) + 2 * rows;
    struct dt_estimate whole = of(&c, 4, 4, 2);
    c.parallel.sequence = true;
    struct dt_estimate half = of(&c, 4, 4, 2);
    CHECK_EQ(whole.activations - half.activations, floats / 2 * sizeof(float));
    CHECK_EQ(whole.total - half.total, floats / 2 * sizeof(float));
    dt_config_finish(&c);
}

/* What goes over a border, too. */
TEST(stages_that_share_rows_have_half_of_the_stream)
{
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 2, "
                                "\"gradient_accumulation_steps\": 4, "
                                "\"parallel\": {\"tensor\": 2, \"pipeline\": 2}, " SMALL "}");
    size_t rows = 2 * 64, stream = 32 * rows, slots = 2;
    size_t floats = 4 * stream + slots * (stream + 2 * stream + 4 * rows);
    struct dt_estimate whole = of(&c, 4, 4, 1);
    c.parallel.sequence = true;
    struct dt_estimate half = of(&c, 4, 4, 1);
    CHECK_EQ(whole.activations - half.activations, floats / 2 * sizeof(float));
    dt_config_finish(&c);
}

/* Both stages have the words, as they are the head's matrix; the first takes more, as it has two
 * micro-batches under way, or with GPipe all four. */
TEST(a_stage_has_its_own_layers)
{
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 2, "
                                "\"gradient_accumulation_steps\": 4, "
                                "\"parallel\": {\"pipeline\": 2}, " SMALL "}");
    struct dt_estimate_place three = {.world = 3, .local = 3}, two = {.world = 2, .local = 2};
    struct dt_estimate e = of(&c, 2, 2, 1);
    struct dt_err err = {0};
    CHECK_EQ(e.params, (EMBED + BLOCK) * 4);
    CHECK_EQ(e.grads, (EMBED + BLOCK) * 4);
    CHECK_EQ(of(&c, 4, 4, 1).optimizer, (EMBED + BLOCK) * 4);
    size_t held = e.activations;
    struct dt_transformer_options first = {
        .batch = 2, .positions = 64, .slots = 2, .stage = {1, {{0, 1}}}};
    CHECK_EQ(on_gpus(&c, 2, 1).activations, /* GPUs need no rooms for what goes to neighbours */
             dt_transformer_bytes(&c.model.shape, &first, dt_gpu_form(DT_F32)));
    c.parallel.schedule = DT_PIPE_GPIPE;
    CHECK(of(&c, 2, 2, 1).activations > held);
    CHECK_FAIL(dt_estimate(&c, &three, 1, &e, &err), err,
               "parallel.pipeline: 2 does not divide the number of ranks, 3; give --world");
    CHECK_FAIL(dt_estimate(&c, &two, 3, &e, &err), err, "does not go with ZeRO stage 3");
    dt_config_finish(&c);
}

/* Both stages hold two micro-batches then, each with the gradients that weights wait for; and what
 * takes less is the schedule without. */
TEST(weights_that_wait_take_memory)
{
    struct dt_config c =
        parsed("{\"train_micro_batch_size_per_gpu\": 2, "
               "\"gradient_accumulation_steps\": 4, "
               "\"parallel\": {\"pipeline\": 2, \"schedule\": \"zb-h1\"}, " DEEP "}");
    struct dt_estimate e = on_gpus(&c, 2, 1);
    struct dt_transformer_options last = {
        .batch = 2, .positions = 64, .slots = 2, .halves = true, .stage = {1, {{2, 4}}}};
    CHECK_EQ(e.activations, dt_transformer_bytes(&c.model.shape, &last, dt_gpu_form(DT_F32)));
    c.parallel.schedule = DT_PIPE_1F1B;
    CHECK(on_gpus(&c, 2, 1).activations < e.activations * 7 / 10);
    dt_config_finish(&c);
}

/* Blocks 0 and 2, and 1 and 3: of each slot there are half as many, but more slots. Between hosts
 * ranks that wait for others in passes ask earlier for what comes, and hold one more. */
TEST(a_stage_in_chunks_holds_chunks)
{
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 2, "
                                "\"gradient_accumulation_steps\": 4, "
                                "\"parallel\": {\"pipeline\": 2, \"tensor\": 2, \"chunks\": 2, "
                                "\"schedule\": \"interleaved\"}, " DEEP "}");
    struct dt_estimate host = of(&c, 4, 4, 1), hosts = of(&c, 4, 2, 1);
    CHECK(hosts.activations > host.activations);
    size_t slot = hosts.activations - host.activations;
    CHECK_EQ(hosts.params, host.params);
    c.parallel.tensor = 1;
    CHECK_EQ(of(&c, 2, 1, 1).activations, of(&c, 2, 2, 1).activations);
    c.parallel.tensor = 2;
    c.batch.accumulation = 2; /* it holds all four chunks of a step, one less than five */
    CHECK_EQ(of(&c, 4, 4, 1).activations, host.activations - slot);
    dt_config_finish(&c);
}

/* Ranks that share samples have the same parameters, and share the optimizer as others do; of what
 * stands in rows each has its part, and keys and values of all of them for one block. */
TEST(ranks_that_share_samples_have_fewer_rows)
{
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 2, " SMALL "}");
    struct dt_config cut = parsed("{\"train_micro_batch_size_per_gpu\": 2, "
                                  "\"parallel\": {\"context\": 2}, " SMALL "}");
    struct dt_estimate_place three = {.world = 3, .local = 3};
    struct dt_estimate e, whole = of(&c, 4, 4, 2), half = of(&cut, 4, 4, 2);
    struct dt_err err = {0};
    CHECK_EQ(half.optimizer, whole.optimizer);
    CHECK_EQ(half.params, whole.params);
    CHECK(half.activations < whole.activations * 7 / 10);
    cut.parallel.context_by = DT_BY_HEADS; /* three times all keys and values are not there */
    CHECK(of(&cut, 4, 4, 2).activations < half.activations);
    cut.parallel.context = 4;
    cut.parallel.context_by = DT_BY_KEYS;
    size_t by_keys = of(&cut, 4, 4, 2).activations;
    cut.parallel.context_by = DT_BY_RING; /* five times a quarter of them, not three times all */
    size_t pairs = 2 * cut.model.shape.kv_heads * cut.model.shape.head_dim * sizeof(float);
    CHECK_EQ(by_keys - of(&cut, 4, 4, 2).activations, pairs * 2 * cut.data.positions * 7 / 4);
    cut.parallel.context = 2;
    CHECK_EQ(dt_estimate_data(&cut, &(struct dt_estimate_place){.world = 4, .local = 4}), 2);
    CHECK_FAIL(dt_estimate(&cut, &three, 0, &e, &err), err,
               "parallel.context: 2 does not divide the number of ranks, 3; give --world");
    dt_config_finish(&c);
    dt_config_finish(&cut);
}

/* Ranks of a stage that share samples have the parameters of that stage, and spread the optimizer
 * over them all. */
TEST(stages_may_share_samples_too)
{
    const char *keys =
        "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4, "
        "\"parallel\": {\"pipeline\": 2, \"context\": 2}, " SMALL "}";
    struct dt_config cut = parsed(keys), c = parsed(keys);
    struct dt_estimate_place two = {.world = 2, .local = 2};
    c.parallel.context = 1;
    struct dt_estimate e, whole = of(&c, 4, 4, 1), half = of(&cut, 4, 4, 1);
    struct dt_err err = {0};
    CHECK_EQ(half.params, whole.params);
    CHECK_EQ(half.optimizer, whole.optimizer);
    CHECK(half.activations < whole.activations * 7 / 10);
    CHECK_FAIL(dt_estimate(&cut, &two, 1, &e, &err), err,
               "parallel.context: 2 does not divide what parallel.pipeline leaves of the ranks, 1");
    dt_config_finish(&c);
    dt_config_finish(&cut);
}

TEST(sixteen_bits_have_a_master_copy_beside_them)
{
    struct dt_config c =
        parsed("{\"train_micro_batch_size_per_gpu\": 2, \"bf16\": {\"enabled\": true}, " SMALL "}");
    CHECK_EQ(of(&c, 2, 2, 1).optimizer, ALL * 6);
    CHECK_EQ(of(&c, 2, 2, 1).params, ALL * 2); /* a processor computes with floats */
    dt_config_finish(&c);
}

/* No rank sees another's copy. Gradients are widened a unit at a time for sums, where these are
 * told to be. */
TEST(gpus_compute_with_bfloat16_or_float)
{
#define ONE "{\"train_micro_batch_size_per_gpu\": 2, "
    /* clang-format off */
    static const struct { const char *text; size_t params, grads, optimizer; } rows[] = {
        {ONE SMALL "}", ALL * 4, ALL * 4, ALL * 4},
        {ONE "\"fp16\": {\"enabled\": true}, " SMALL "}", ALL * 4, ALL * 4, ALL * 6},
        {ONE "\"bf16\": {\"enabled\": true}, " SMALL "}", ALL * 2, ALL * 2, ALL * 6},
        {ONE "\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"fp32\", " SMALL "}",
         ALL * 2, ALL * 2 + BLOCK * 4, ALL * 6},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_config c = parsed(rows[i].text);
        struct dt_estimate e = on_gpus(&c, 2, 1);
        CHECK_EQ(e.params, rows[i].params);
        CHECK_EQ(e.grads, rows[i].grads);
        CHECK_EQ(e.optimizer, rows[i].optimizer);
        dt_config_finish(&c);
    }
#undef ONE
}

/* Three floats of each parameter, its gradient, the largest shard on its way, and the pieces that
 * AdamW takes. On the GPU nothing is kept of optimizer and shards of gradients, and nothing is
 * widened. */
TEST(what_is_offloaded_is_the_hosts)
{
#define ONE "{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 4, "
#define OFFLOAD "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\"}}, "
#define PARAMS                                                                                     \
    "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"cpu\"}, "         \
    "\"offload_param\": {\"device\": \"cpu\"}}, "
#define BF16 "\"bf16\": {\"enabled\": true}, "
#define FLOATS BF16 "\"data_types\": {\"grad_accum_dtype\": \"fp32\"}, "
    const size_t piece = 1 << 18;
    /* clang-format off */
    static const struct { const char *text; int world, stage; size_t grads, optimizer, kept; } rows[] = {
        {ONE OFFLOAD BF16 SMALL "}", 1, 0, ALL * 2, ALL * 12, 0},
        {ONE OFFLOAD BF16 SMALL "}", 1, 1, ALL * 2, 0, ALL * 14 + BLOCK * 2},
        {ONE OFFLOAD BF16 SMALL "}", 1, 2, LOANS * 2, 0, ALL * 14 + BLOCK * 2},
        {ONE OFFLOAD BF16 SMALL "}", 1, 3, LOANS * 2, 0, ALL * 14 + BLOCK * 2}, /* alone, as at stage 2 */
        {ONE OFFLOAD BF16 SMALL "}", 2, 2, LOANS * 2, 0, ALL * 7 + BLOCK},      /* whatever is added up */
        {ONE OFFLOAD SMALL "}", 2, 2, LOANS * 4, 0, ALL * 8 + BLOCK * 2},
        {ONE BF16 SMALL "}", 2, 2, ALL * 2, ALL * 6, 0},
        {ONE FLOATS SMALL "}", 2, 1, ALL * 4 + 2 * BLOCK * 2, ALL * 6, 0},
        {ONE FLOATS SMALL "}", 2, 2, ALL * 4 + 2 * BLOCK * 2, ALL * 6, 0},
        {ONE FLOATS OFFLOAD SMALL "}", 1, 1, ALL * 4 + 2 * BLOCK * 2, 0, ALL * 16 + BLOCK * 4},
        {ONE FLOATS OFFLOAD SMALL "}", 1, 2, LOANS * 2, 0, ALL * 16 + BLOCK * 2},
        {ONE PARAMS BF16 SMALL "}", 1, 3, LOANS * 2, 0, ALL * 16 + BLOCK * 2},
        {ONE PARAMS BF16 SMALL "}", 2, 3, LOANS * 2, 0, ALL * 8 + BLOCK},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s, %d ranks, stage %d", rows[i].text, rows[i].world, rows[i].stage);
        struct dt_config c = parsed(rows[i].text);
        struct dt_estimate e = on_gpus(&c, rows[i].world, rows[i].stage);
        size_t pieces = piece * (2 * sizeof(float) + (c.zero.model_type == DT_BF16 ? 2 : 4));
        CHECK_EQ(e.params,
                 ALL * dt_dtype_size(dt_config_gpu_elem(&c))); /* all of it may be whole */
        CHECK_EQ(e.grads, rows[i].grads);
        CHECK_EQ(e.optimizer, rows[i].optimizer);
        CHECK_EQ(e.offloaded, rows[i].kept ? rows[i].kept + pieces : 0);
        CHECK_EQ(of(&c, rows[i].world, rows[i].world, rows[i].stage).offloaded, 0); /* on a CPU */
        dt_config_finish(&c);
    }
#undef ONE
}

/* Llama 2 7B: 6.74 thousand million parameters. */
#define SEVEN_BILLION                                                                              \
    "\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": 8, "                  \
    "\"data\": {\"train\": \"x\", \"sequence_length\": 2048}, "                                    \
    "\"model\": {\"activation_checkpointing\": true, \"config\": {\"model_type\": \"llama\", "     \
    "\"vocab_size\": 32000, \"hidden_size\": 4096, \"intermediate_size\": 11008, "                 \
    "\"num_hidden_layers\": 32, \"num_attention_heads\": 32, "                                     \
    "\"max_position_embeddings\": 4096}}"

/* Of the one stage that C asks for, on a card of 24 GB in a host of that much MEMORY. */
static const char *on_a_card(const char *text, size_t memory, struct dt_buf *out)
{
    struct dt_estimate_place place = {
        .world = 1, .local = 1, .memory = memory, .on_gpu = true, .gpus = 1};
    place.gpu = (struct dt_gpu_memory){.name = "a card",
                                       .total = (size_t)24 << 30,
                                       .free = ((size_t)24 << 30) - ((size_t)600 << 20),
                                       .scratch = 96 << 20};
    struct dt_err err = {0};
    struct dt_config c = parsed(text);
    dt_buf_clear(out);
    CHECK_OK(dt_estimate_print(&c, &place, out, &err), err);
    dt_config_finish(&c);
    return dt_buf_cstr(out);
}

TEST(a_model_of_seven_billion_fits_on_a_card_of_24_gigabytes_when_offloaded)
{
    static const char offloaded[] =
        "{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": "
        "\"cpu\"}}, " BF16 SEVEN_BILLION "}";
    struct dt_buf out = {0};
    const char *text = on_a_card("{" BF16 SEVEN_BILLION "}", (size_t)128 << 30, &out);
    CHECK(strstr(text, "6738.4 million parameters in bf16"));
    CHECK(!strstr(text, "yes\n") && !strstr(text, "on the host"));

    /* clang-format off */
    static const char *const lines[] = {
        "  stage        params        grads    optimizer  activations      scratch        total  on the host  fits\n",
        "  0          12.6 GiB     12.6 GiB     75.3 GiB      867 MiB       96 MiB      101 GiB          0 B  no\n",
        "  1          12.6 GiB     12.6 GiB          0 B      867 MiB       96 MiB     26.0 GiB     88.1 GiB  no\n",
        "* 2          12.6 GiB      1.5 GiB          0 B      867 MiB       96 MiB     15.0 GiB     88.1 GiB  yes\n",
        "\nstage 2 takes 15.0 GiB of the 23.4 GiB that are free there: it fits\n",
        "what is offloaded takes 88.1 GiB of this host's 128 GiB with 1 rank on it: it fits\n",
    };
    /* clang-format on */
    text = on_a_card(offloaded, (size_t)128 << 30, &out);
    for (size_t i = 0; i < ROWS(lines); i++) {
        CHECK_ROW("%s in\n%s", lines[i], text);
        CHECK(strstr(text, lines[i]));
    }
    text = on_a_card("{" PARAMS BF16 SEVEN_BILLION "}", (size_t)128 << 30, &out);
    CHECK_ROW("%s", text);
    CHECK(strstr(text, "* 3           1.9 GiB      1.5 GiB"));
    CHECK(strstr(text, "what is offloaded takes"));
    text = on_a_card(offloaded, (size_t)64 << 30, &out);
    CHECK_ROW("%s", text);
    CHECK(strstr(text, "15.0 GiB     88.1 GiB  no\n"));
    CHECK(strstr(text, "of this host's 64 GiB with 1 rank on it: it does not fit\n"));
    CHECK(strstr(text, "\nwhat is offloaded wants a host with more memory"));
    CHECK(!strstr(text, "it would fit"));
    text = on_a_card("{\"zero_optimization\": {\"stage\": 2}, " BF16 SEVEN_BILLION "}",
                     (size_t)128 << 30, &out);
    CHECK_ROW("%s", text);
    CHECK(
        strstr(text, "zero_optimization.offload_optimizer {\"device\": \"cpu\"} (saves 86.4 GiB)"));
    text = on_a_card("{\"zero_optimization\": {\"stage\": 2}, " BF16 SEVEN_BILLION "}",
                     (size_t)64 << 30, &out);
    CHECK_ROW("%s", text);
    CHECK(!strstr(text, "offload"));
    dt_buf_finish(&out);
}

TEST(a_gpu_has_the_scratch_of_its_ops_and_the_host_the_snapshot)
{
    struct dt_config c = parsed("{\"train_batch_size\": 8, \"bf16\": {\"enabled\": true}, "
                                "\"train\": {\"save_dir\": \"x\"}, " SMALL "}");
    struct dt_transformer_options o = {.batch = 4, .positions = 64};
    struct dt_estimate_place place = {.world = 2, .local = 2, .on_gpu = true, .gpus = 2};
    place.gpu.scratch = 1000;
    struct dt_estimate here = at(&c, place, 0), far = on_gpus(&c, 2, 0);
    CHECK_EQ(here.activations, dt_transformer_bytes(&c.model.shape, &o, dt_gpu_form(DT_BF16)));
    CHECK_EQ(here.scratch, 1000);
    CHECK_EQ(here.snapshot, ALL * 6);
    CHECK_EQ(far.activations, here.activations);
    CHECK_EQ(far.total, here.total - 1000 + ALL * 6);
    dt_config_finish(&c);
}

/* 1024 in each block: (32 + 96 + 32 + 32 + 32 + 128 + 128 + 32) * 2. */
TEST(beside_a_frozen_model_adapters_alone_are_trained)
{
    const size_t trained = 2 * 1024;
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 64, \"lora\": {\"r\": 2}, "
                                "\"bf16\": {\"enabled\": true}, " SMALL "}");
    struct dt_config whole = parsed("{\"train_micro_batch_size_per_gpu\": 64, " SMALL "}");
    struct dt_estimate e = of(&c, 2, 2, 0);
    CHECK_EQ(e.trained, trained);
    CHECK_EQ(e.params, ALL * 2 + trained * 4); /* the model once for the host, at stage 0 too */
    CHECK_EQ(e.grads, trained * 4);
    CHECK_EQ(e.optimizer, trained * 8);
    CHECK_EQ(of(&whole, 2, 2, 0).trained, ALL);
    c.parallel.pipeline = 2; /* half of them on each rank */
    CHECK_EQ(of(&c, 2, 2, 0).trained, trained);
    CHECK_EQ(of(&c, 2, 2, 0).grads, trained / 2 * 4);
    c.parallel.pipeline = 1;
    CHECK(e.activations > of(&whole, 2, 2, 0).activations);
    e = of(&c, 2, 1, 3);
    CHECK_EQ(e.params, ALL * 6 + trained * 6);
    e = on_gpus(&c, 2, 1);
    CHECK_EQ(e.params, ALL * 2 + trained * 2 + BLOCK * 2);
    CHECK_EQ(e.optimizer, trained * 6);
    whole.dpo.on = true; /* all is trained, and the model is there once more to be compared with */
    CHECK_EQ(of(&whole, 2, 2, 0).params, ALL * 4 + ALL * 2);
    dt_config_finish(&c);
    dt_config_finish(&whole);
}

/* 4.13 bits of each weight in a block, all of the others, and the largest layer as numbers. */
TEST(in_nf4_the_weights_of_blocks_take_half_a_byte)
{
#define LLAMA                                                                                      \
    "\"model\": {\"config\": {\"model_type\": \"llama\", \"hidden_size\": 1024, "                  \
    "\"intermediate_size\": 2816, \"num_hidden_layers\": 4, \"num_attention_heads\": 8, "          \
    "\"max_position_embeddings\": 64, \"vocab_size\": 320}}"
    const double weights = 4.0 * (4 * 1024 * 1024 + 3 * 2816 * 1024), others = 9.0 * 1024 + 655360;
    struct dt_config full =
        parsed("{\"train_micro_batch_size_per_gpu\": 1, \"lora\": {}, " LLAMA "}");
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 1, \"lora\": {\"base\": "
                                "\"nf4\"}, " LLAMA "}");
    for (int ranks = 1; ranks <= 2; ranks++) {
        struct dt_estimate e = of(&c, ranks, ranks, 1), wide = of(&full, ranks, ranks, 1);
        double adapters = (double)e.trained * 4 / ranks;
        double base = ((double)e.params - adapters) * ranks,
               bits = (base - 4 * others) * 8 / weights;
        CHECK_ROW("%d ranks: %zu bytes, %g bits", ranks, e.params, bits);
        CHECK(bits > 4.125 && bits < 4.14);
        CHECK((double)wide.params > 7 * (double)e.params - adapters * 7);
        CHECK_EQ(e.optimizer, wide.optimizer);
        CHECK_EQ(e.activations, wide.activations + (size_t)3 * 1024 * 1024 * 4);
    }
    dt_config_finish(&full);
    dt_config_finish(&c);
#undef LLAMA
}

/* (96 + 32 + 128 + 32) * 2: a number for each output. */
TEST(magnitudes_are_trained_too_and_take_room_on_the_way_back)
{
    struct dt_config plain = parsed("{\"lora\": {\"r\": 2}, " SMALL "}");
    struct dt_config c = parsed("{\"lora\": {\"r\": 2, \"use_dora\": true}, " SMALL "}");
    CHECK_EQ(of(&c, 1, 1, 0).trained, of(&plain, 1, 1, 0).trained + 576);
    CHECK(of(&c, 1, 1, 0).activations > of(&plain, 1, 1, 0).activations);
    dt_config_finish(&c);
    dt_config_finish(&plain);
}

TEST(activations_are_those_of_the_model_and_the_snapshot_is_a_shard)
{
    struct dt_config c =
        parsed("{\"train_batch_size\": 8, \"train\": {\"save_dir\": \"x\"}, " SMALL "}");
    struct dt_transformer_options o = {.batch = 4, .positions = 64};
    CHECK_EQ(of(&c, 2, 2, 0).activations,
             dt_transformer_bytes(&c.model.shape, &o, (struct dt_device_form){0}));
    CHECK_EQ(of(&c, 2, 2, 0).snapshot, ALL * 6);
    c.model.recompute = o.recompute = true;
    CHECK_EQ(of(&c, 2, 2, 0).activations,
             dt_transformer_bytes(&c.model.shape, &o, (struct dt_device_form){0}));
    dt_config_finish(&c);
}

TEST(stage_2_with_several_micro_steps_keeps_gradients_whole)
{
    struct dt_config c =
        parsed("{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, " SMALL "}");
    CHECK_EQ(of(&c, 2, 2, 2).grads, ALL * 4);
    c.batch.micro_batch = 4;
    CHECK_EQ(of(&c, 2, 2, 2).grads, ALL * 2 + LOANS * 4);
    c.train.balance = DT_BALANCE_TIMES;
    CHECK_EQ(of(&c, 2, 2, 2).grads, ALL * 4);
    dt_config_finish(&c);
}

TEST(max_live_bounds_what_is_gathered)
{
    struct dt_config c =
        parsed("{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimization\": "
               "{\"stage\": 3, \"stage3_max_live_parameters\": 20000}, " SMALL "}");
    CHECK_EQ(of(&c, 2, 1, 3).params, ALL * 2 + 20000 * 4);
    c.zero.max_live = 1;
    CHECK_EQ(of(&c, 2, 1, 3).params, ALL * 2 + BLOCK * 4); /* what is computed with is there */
    dt_config_finish(&c);
}

static const char *printed(const struct dt_config *c, int world, int local, size_t memory,
                           struct dt_buf *out)
{
    struct dt_estimate_place place = {.world = world, .local = local, .memory = memory};
    struct dt_err err = {0};
    dt_buf_clear(out);
    CHECK_OK(dt_estimate_print(c, &place, out, &err), err);
    return dt_buf_cstr(out);
}

TEST(the_table_says_what_fits_and_what_would)
{
    struct dt_config c = parsed("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": "
                                "32, " SMALL "}");
    struct dt_buf out = {0};
    const char *text = printed(&c, 2, 2, (size_t)23 << 30, &out);
    CHECK(strstr(text, "0.0 million parameters in fp32; 2 ranks, 2 on each host\n"));
    CHECK(strstr(text, "a step: 64 samples of 64 tokens, as 1 micro-batch of 32 on each rank\n"));
    CHECK(strstr(text, "whether 2 of them fit in this host's 23 GiB:\n"));
    CHECK(strstr(text, "\n* 0 ") && strstr(text, "\n  3 "));
    CHECK(strstr(text, " of 23 GiB with 2 ranks on the host: it fits\n"));
    CHECK(!strstr(text, "it would fit"));
    CHECK(strstr(text, "\nthe vault takes ") &&
          strstr(text, " besides of this host's 23 GiB: it fits\n"));

    text = printed(&c, 4, 2, (size_t)23 << 30, &out);
    CHECK(strstr(text, "\nthe vault, with copies of other hosts', takes "));
    size_t with_copies = of(&c, 4, 2, 0).vault;
    c.train.vault = DT_VAULT_LOCAL;
    CHECK_EQ(with_copies, 2 * of(&c, 4, 2, 0).vault);
    c.train.vault = DT_VAULT_AUTO;

    size_t stage1 = 2 * of(&c, 2, 2, 1).total;
    CHECK(stage1 < 2 * of(&c, 2, 2, 0).total);
    text = printed(&c, 2, 2, stage1, &out);
    CHECK(strstr(text, "it does not fit\nit would fit with zero_optimization.stage 1\n"));

    c.zero.stage = 3;
    c.batch.micro_batch = 16;
    size_t half = 2 * of(&c, 2, 2, 3).total;
    c.batch.micro_batch = 32;
    text = printed(&c, 2, 2, half, &out);
    CHECK(strstr(text, "it would fit with train_micro_batch_size_per_gpu 16\n"));

    text = printed(&c, 2, 2, 1000, &out);
    CHECK(strstr(text, "it wants more hosts, fewer ranks on each, or a smaller model\n"
                       "what takes less: train_micro_batch_size_per_gpu 16 with "
                       "gradient_accumulation_steps 2 (saves "));
    CHECK(strstr(text, " in each rank), model.activation_checkpointing true ("));
    dt_buf_finish(&out);
    dt_config_finish(&c);
}

/* Without micro-batches, as where no batch fits the world, nothing is known of a step. */
TEST(the_stages_of_a_pipeline_have_a_table_of_their_own)
{
    struct dt_config c = parsed("{\"train_batch_size\": 16, \"train_micro_batch_size_per_gpu\": 2, "
                                "\"parallel\": {\"pipeline\": 2}, " SMALL "}");
    struct dt_buf out = {0};
    CHECK(strstr(printed(&c, 4, 4, SIZE_MAX, &out),
                 "a pipeline of 2 stages by 1F1B, 4 micro-batches in a step:\n"));
    CHECK(strstr(printed(&c, 6, 6, SIZE_MAX, &out), "no batch fits this world: "));
    CHECK(strstr(printed(&c, 6, 6, SIZE_MAX, &out), "a pipeline of 2 stages by") == NULL);
    c.parallel.pipeline = 1;
    CHECK(strstr(printed(&c, 4, 4, SIZE_MAX, &out), "pipeline") == NULL);
    dt_buf_finish(&out);
    dt_config_finish(&c);
}

TEST(with_gpus_it_is_one_of_them_that_a_rank_fits_in)
{
    struct dt_config c = parsed("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": "
                                "32, \"train\": {\"save_dir\": \"x\"}, " SMALL "}");
    struct dt_err err = {0};
    struct dt_buf out = {0};
    struct dt_estimate_place place = {
        .world = 2, .local = 2, .memory = 1 << 30, .on_gpu = true, .gpus = 2};
    place.gpu = (struct dt_gpu_memory){
        .name = "GPU 1, of straw", .total = (size_t)80 << 30, .free = (size_t)79 << 30};
    CHECK_OK(dt_estimate_print(&c, &place, &out, &err), err);
    const char *text = dt_buf_cstr(&out);
    CHECK(strstr(text, "whether it fits in GPU 1, of straw, 80 GiB, 79 GiB free:\n"));
    CHECK(strstr(text, " of the 79 GiB that are free there: it fits\n"));
    CHECK(strstr(text, " of this host's 1 GiB with 2 ranks on it: it fits\n"));
    CHECK(!strstr(text, "no GPU") && !strstr(text, "would"));

    place.gpus = 1;
    place.gpu.free = at(&c, place, 1).total; /* and no byte more, whatever is total */
    CHECK(place.gpu.free < at(&c, place, 0).total);
    place.memory = 1000;
    dt_buf_clear(&out);
    CHECK_OK(dt_estimate_print(&c, &place, &out, &err), err);
    text = dt_buf_cstr(&out);
    CHECK(strstr(text, "this host has 1 GPU; 2 ranks on it would be refused"));
    CHECK(strstr(text, "with 2 ranks on it: it does not fit\n"));
    CHECK(strstr(text, "it would fit with zero_optimization.stage 1\n"));

    place.gpu.free = 1000;
    dt_buf_clear(&out);
    CHECK_OK(dt_estimate_print(&c, &place, &out, &err), err);
    CHECK(strstr(dt_buf_cstr(&out), "it wants more GPUs, or larger ones, or a smaller model\n"));
    dt_buf_finish(&out);
    dt_config_finish(&c);
}

TEST(without_a_gpu_it_is_the_host_and_said_why)
{
    struct dt_config c = parsed("{\"train_batch_size\": 2, " SMALL "}");
    struct dt_err err = {0};
    struct dt_buf out = {0};
    struct dt_estimate_place place = {
        .world = 2, .local = 2, .memory = (size_t)23 << 30, .gpus = -1, .no_gpu = "it is sold"};
    for (int cuda = 0; cuda < 2; cuda++) {
        place.on_gpu = cuda;
        dt_buf_clear(&out);
        CHECK_OK(dt_estimate_print(&c, &place, &out, &err), err);
        const char *text = dt_buf_cstr(&out);
        CHECK(strstr(text, "\nno GPU: it is sold\nmemory of one rank, and whether 2 of them fit in "
                           "this host's 23 GiB:\n"));
        CHECK(strstr(text, " of 23 GiB with 2 ranks on the host: it fits\n"));
    }
    place.limited = true;
    dt_buf_clear(&out);
    CHECK_OK(dt_estimate_print(&c, &place, &out, &err), err);
    CHECK(strstr(dt_buf_cstr(&out), "whether 2 of them fit in this control group's 23 GiB:\n"));
    CHECK(!strstr(dt_buf_cstr(&out), "this host's"));
    dt_buf_finish(&out);
    dt_config_finish(&c);
}

TEST(more_activations_than_can_be_counted_do_not_fit)
{
    struct dt_config c = parsed("{\"train_micro_batch_size_per_gpu\": 1, " SMALL "}");
    struct dt_buf out = {0};
    c.batch.micro_batch = INT64_MAX / 2;
    struct dt_estimate_place place = {.world = 1, .local = 1};
    struct dt_estimate e;
    struct dt_err err = {0};
    CHECK_OK(dt_estimate(&c, &place, 0, &e, &err), err);
    CHECK_EQ(e.activations, SIZE_MAX);
    CHECK_EQ(e.total, SIZE_MAX);
    CHECK(strstr(printed(&c, 1, 1, (size_t)1 << 40, &out), "it does not fit\n"));
    dt_buf_finish(&out);
    dt_config_finish(&c);
}

TEST(activation_checkpointing_is_the_last_thing_tried)
{
    struct dt_config c = parsed("{\"train_batch_size\": 2, " SMALL "}");
    struct dt_buf out = {0};
    c.zero.stage = 3;
    c.model.shape.layers = 12; /* so that what is kept of each block counts */
    c.model.recompute = true;
    size_t least = 2 * of(&c, 2, 2, 3).total;
    c.model.recompute = false;
    CHECK(least < 2 * of(&c, 2, 2, 3).total);
    CHECK(strstr(
        printed(&c, 2, 2, least, &out),
        "stage 3, train_micro_batch_size_per_gpu 1 and model.activation_checkpointing true\n"));
    dt_buf_finish(&out);
    dt_config_finish(&c);
}

TEST(where_nothing_else_does_another_training_is_named)
{
    struct dt_config c = parsed("{\"train_batch_size\": 1, \"lora\": {\"r\": 2}, " SMALL "}");
    struct dt_buf out = {0};
    c.data.positions = 40; /* half of it would be too few to be advised */
    c.lora_nf4 = true;
    size_t packed = of(&c, 1, 1, 0).total;
    c.lora_nf4 = false;
    c.model.recompute = true;
    CHECK(packed < of(&c, 1, 1, 0).total);
    c.model.recompute = false;
    CHECK(strstr(printed(&c, 1, 1, packed, &out), "\nit would fit with lora.base \"nf4\"\n"));
    CHECK(strstr(printed(&c, 1, 1, packed / 2, &out), "no stage, micro batch"));
    dt_buf_finish(&out);
    dt_config_finish(&c);
}

TEST(what_cannot_be_estimated_is_said)
{
    struct dt_config none = parsed("{}"), c = parsed("{" SMALL "}");
    struct dt_estimate_place one = {.world = 1, .local = 1}, two = {.world = 1, .local = 2};
    struct dt_estimate e;
    struct dt_err err;
    struct dt_buf out = {0};
    CHECK_FAIL(dt_estimate(&none, &one, 0, &e, &err), err, "there is neither model.config");
    CHECK_FAIL(dt_estimate(&c, &two, 0, &e, &err), err, "2 of 1 ranks cannot be on one host");
    CHECK_FAIL(dt_estimate_print(&none, &one, &out, &err), err, "there is neither model.config");
    CHECK_EQ(out.len, 0);
    CHECK(strstr(printed(&c, 1, 1, 1 << 30, &out), "no batch fits this world: neither"));
    dt_buf_finish(&out);
    dt_config_finish(&none);
    dt_config_finish(&c);
}

struct real {
    struct dt_config *c;
    bool apart; /* as if each rank were on a host of its own */
};

/* What a dt_zero of these ranks says it holds is what was estimated. */
static void check_memory(struct rank_self *me, const struct dt_zero_place *place, int stage)
{
    const struct real *real = me->arg;
    struct dt_err err = {0};
    struct dt_unit *units;
    struct dt_param *params;
    struct dt_zero_memory m;
    struct dt_zero_options o = real->c->zero;
    struct dt_tensor *tensors = dt_shape_tensors(&real->c->model.shape, &err);
    CHECK(tensors != NULL);
    CHECK_OK(dt_shape_units(&real->c->model.shape, tensors, &units, &params, &err), err);
    o.stage = stage;
    struct dt_zero *z =
        dt_zero_create_on(place, units, dt_shape_unit_count(&real->c->model.shape), &o, &err);
    CHECK_OK(z ? 0 : -1, err);
    dt_zero_memory(z, &m);
    CHECK_ROW("stage %d%s", stage, real->apart ? ", apart" : "");
    struct dt_estimate e = of(real->c, me->size, real->apart ? 1 : me->size, stage);
    CHECK_EQ(e.optimizer, m.optimizer);
    if (stage == 3 && real->apart) /* units are gathered when they are asked for */
        CHECK(e.params + e.grads >= m.params + m.grads + m.scratch);
    else
        CHECK_EQ(e.params + e.grads, m.params + m.grads + m.scratch);
    dt_zero_destroy(z);
    free(units);
    free(params);
    free(tensors);
}

static void compares(struct rank_self *me)
{
    const struct real *real = me->arg;
    struct dt_err err = {0};
    struct dt_coll *group = rank_open(me);
    struct dt_device *device = dt_device_open_cpu(1, &err);
    CHECK_OK(device ? 0 : -1, err);
    struct dt_zero_place place = {.device = device,
                                  .group = group,
                                  .sharing = real->apart ? 1 : (size_t)me->size,
                                  .apart = real->apart};
    for (int stage = 0; stage < 4; stage++)
        check_memory(me, &place, stage);
    dt_device_close(device);
    dt_coll_destroy(group);
}

TEST(the_real_thing_holds_what_was_estimated)
{
    static const char *const texts[] = {
        "{\"train_micro_batch_size_per_gpu\": 1, " SMALL "}",
        "{\"train_micro_batch_size_per_gpu\": 1, \"bf16\": {\"enabled\": true}, " SMALL "}",
    };
    for (size_t i = 0; i < ROWS(texts); i++)
        for (int world = 1; world <= 3; world++)
            for (int apart = 0; apart < 2; apart++) {
                CHECK_ROW("%zu: %d ranks", i, world);
                struct dt_config c = parsed(texts[i]);
                struct real real = {&c, world > 1 && apart};
                ranks_run(world, compares, &real);
                dt_config_finish(&c);
            }
}
