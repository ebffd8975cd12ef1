/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "tests/lib/folder.h"
#include "worker_runtime/data/tokens.h"
#include "worker_runtime/llamafactory/llamafactory.h"

#include <math.h>
#include <sys/stat.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))

static struct dt_config c; /* of the test that runs */
static struct dt_factory f;
static struct dt_buf warnings;

static const char *put(const char *name, const char *text)
{
    struct dt_err err;
    const char *path = at(name);
    CHECK_OK(dt_fs_replace(path, text, strlen(text), 0644, &err), err);
    return path;
}

BEFORE_ALL
{
    struct dt_buf text = {0};
    struct dt_err err;
    folder_make();
    mkdir(at("model"), 0755);
    mkdir(at("data"), 0755);
    put("model/config.json",
        "{\"model_type\": \"llama\", \"hidden_size\": 48, \"intermediate_size\": 80, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "
        "\"max_position_embeddings\": 4096, \"vocab_size\": 808}");
    CHECK_OK(dt_fs_read(DT_TOKENIZERS_DIR "/llama2.json", (size_t)1 << 24, &text, &err), err);
    CHECK_OK(dt_fs_replace(at("model/tokenizer.json"), text.at, text.len, 0644, &err), err);
    dt_buf_finish(&text);
    put("model/tokenizer_config.json", "{\"eos_token\": \"</s>\"}");
    mkdir(at("short"), 0755);
    put("short/config.json",
        "{\"model_type\": \"gpt2\", \"n_embd\": 48, \"n_layer\": 2, \"n_head\": 4, "
        "\"n_positions\": 1024, \"vocab_size\": 808}");
    CHECK_OK(dt_fs_read(at("model/tokenizer.json"), (size_t)1 << 24, &text, &err), err);
    CHECK_OK(dt_fs_replace(at("short/tokenizer.json"), text.at, text.len, 0644, &err), err);
    dt_buf_finish(&text);
    put("data/dataset_info.json",
        "{\"sums\": {\"file_name\": \"sums.json\"},"
        " \"turns\": {\"file_name\": \"turns.jsonl\", \"formatting\": \"sharegpt\","
        "   \"columns\": {\"messages\": \"messages\"},"
        "   \"tags\": {\"role_tag\": \"role\", \"content_tag\": \"content\", \"user_tag\": "
        "\"user\", \"assistant_tag\": \"assistant\", \"system_tag\": \"system\"}},"
        " \"named\": {\"file_name\": \"named.json\", \"columns\": {\"prompt\": \"q\", "
        "\"response\": \"a\", \"system\": \"s\"}},"
        " \"hub\": {\"hf_hub_url\": \"x/y\"},"
        " \"ranked\": {\"file_name\": \"sums.json\", \"ranking\": true},"
        " \"pairs\": {\"file_name\": \"pairs.json\", \"ranking\": true, \"columns\": "
        "   {\"prompt\": \"q\", \"query\": \"input\", \"system\": \"s\", \"history\": \"h\","
        "    \"chosen\": \"good\", \"rejected\": \"bad\"}},"
        " \"talks\": {\"file_name\": \"talks.jsonl\", \"ranking\": true, \"formatting\": "
        "   \"sharegpt\", \"columns\": {\"messages\": \"m\", \"chosen\": \"good\", \"rejected\": "
        "   \"bad\"}, \"tags\": {\"role_tag\": \"who\", \"content_tag\": \"says\", \"user_tag\": "
        "   \"me\", \"assistant_tag\": \"you\"}},"
        " \"tools\": {\"file_name\": \"sums.json\", \"columns\": {\"prompt\": \"q\", \"response\": "
        "\"a\", \"tools\": \"t\"}},"
        " \"wrong\": {\"file_name\": \"sums.json\", \"columns\": {\"promt\": \"q\"}}}");
    put("data/sums.json", "[{\"instruction\": \"1+1\", \"input\": \"\", \"output\": \"2\"},\n"
                          " {\"instruction\": \"add\", \"input\": \"2+3\", \"output\": \"5\"},\n"
                          " {\"instruction\": \"4+4\", \"output\": \"8\"}]\n");
    put("data/turns.jsonl",
        "{\"messages\": [{\"role\": \"system\", \"content\": \"be short\"}, {\"role\": \"user\", "
        "\"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"hello\"}]}\n");
    put("data/pairs.json", "[{\"q\": \"add\", \"input\": \"2+3\", \"s\": \"be short\", "
                           "\"h\": [[\"hi\", \"hello\"]], \"good\": \"5\", \"bad\": \"six\"}]");
    put("data/talks.jsonl",
        "{\"m\": [{\"who\": \"system\", \"says\": \"be short\"}, {\"who\": \"me\", \"says\": "
        "\"hi\"}, {\"who\": \"you\", \"says\": \"hello\"}, {\"who\": \"me\", \"says\": "
        "\"add\\n2+3\"}], \"good\": {\"who\": \"you\", \"says\": \"5\"}, "
        "\"bad\": [{\"who\": \"you\", \"says\": \"six\"}]}");
    put("data/named.json", "[{\"q\": \"1+1\", \"a\": \"2\", \"input\": \"not named\"}]");
}

/* TEXT behind what every file has. */
static int load(const char *text, const char *const *overrides, struct dt_err *err)
{
    struct dt_buf all = {0};
    dt_config_finish(&c);
    dt_factory_finish(&f);
    dt_buf_clear(&warnings);
    dt_buf_printf(&all,
                  "model_name_or_path: %s\ntemplate: llama2\ndataset_dir: %s\noutput_dir: %s\n%s",
                  at("model"), at("data"), at("out"), text);
    const char *path = put("run.yaml", dt_buf_cstr(&all));
    dt_buf_finish(&all);
    *err = (struct dt_err){0};
    return dt_factory_load(&f, &c, path, overrides, &warnings, err);
}

static void loaded(const char *text)
{
    struct dt_err err;
    CHECK_OK(load(text, NULL, &err), err);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

TEST(what_a_file_leaves_out_is_as_llamafactory_has_it)
{
    loaded("dataset: sums\n");
    CHECK_STR(dt_buf_cstr(&warnings), "");
    CHECK_STR(c.model.weights, at("model"));
    CHECK(c.model.recompute);
    CHECK_EQ(c.lora.r, 8);
    CHECK(c.lora.alpha == 16 && c.lora.dropout == 0 && !c.lora.rslora);
    CHECK_EQ(__builtin_popcount(c.lora.targets), 7);
    CHECK_EQ(c.batch.micro_batch, 8);
    CHECK_EQ(c.batch.accumulation, 1);
    CHECK_EQ(c.batch.train_batch, 0);
    CHECK(near(c.schedule.lr, 5e-5) && c.clip == 1);
    CHECK(c.zero.weight_decay == 0 && c.zero.decoupled && near(c.zero.eps, 1e-8));
    CHECK(near(c.zero.beta1, 0.9) && near(c.zero.beta2, 0.999));
    CHECK(c.train.epochs == 3 && c.train.steps == 0);
    CHECK_EQ(c.train.seed, 42);
    CHECK_EQ(c.train.log_every, 500);
    CHECK_EQ(c.train.save_every, 500);
    CHECK_EQ(c.train.keep_last, 0);
    CHECK_EQ(c.data.positions, 2048);
    CHECK(!c.data.packing && c.data.shuffle && !c.data.validation);
    CHECK_EQ(c.zero.model_type, DT_F32);
    CHECK(f.resume == NULL);
}

TEST(keys_become_those_of_a_run)
{
    loaded("stage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: sums\n"
           "lora_target: q_proj,v_proj\nlora_rank: 16\nlora_alpha: 32\nlora_dropout: 0.05\n"
           "use_rslora: true\ncutoff_len: 512\nmax_samples: 2\nneat_packing: true\n"
           "train_on_prompt: true\ndefault_system: be kind\n"
           "per_device_train_batch_size: 1\ngradient_accumulation_steps: 8\n"
           "learning_rate: 1.0e-4\nmax_steps: 20\nlr_scheduler_type: cosine\n"
           "weight_decay: 0.01\nmax_grad_norm: 0.3\nadam_beta2: 0.95\nadam_epsilon: '1e-6'\n"
           "seed: 7\nlogging_steps: 10\nsave_steps: 5\nsave_total_limit: 2\nbf16: true\n"
           "disable_gradient_checkpointing: true\noverwrite_output_dir: true\nuse_cpu: true\n"
           "val_size: 1\neval_strategy: steps\neval_steps: 4\nreport_to: none\n"
           "plot_loss: true\npreprocessing_num_workers: 16\n");
    CHECK_STR(dt_buf_cstr(&warnings), "plot_loss, preprocessing_num_workers have no meaning here "
                                      "and are ignored\n");
    CHECK_EQ(c.lora.r, 16);
    CHECK_EQ(__builtin_popcount(c.lora.targets), 2);
    CHECK(c.lora.alpha == 32 && near(c.lora.dropout, 0.05f) && c.lora.rslora);
    CHECK_EQ(c.data.positions, 512);
    CHECK(c.data.packing && f.data.packing && f.data.train_on_prompt);
    CHECK_STR(f.data.system, "be kind");
    CHECK_EQ(f.data.most, 2);
    CHECK_EQ(c.batch.micro_batch, 1);
    CHECK_EQ(c.batch.accumulation, 8);
    CHECK(near(c.schedule.lr, 1e-4) && near(c.clip, 0.3f) && near(c.zero.eps, 1e-6f));
    CHECK(near(c.zero.weight_decay, 0.01f) && near(c.zero.beta2, 0.95f));
    CHECK(c.train.steps == 20 && c.train.epochs == 0);
    CHECK_EQ(c.train.seed, 7);
    CHECK_EQ(c.train.save_every, 5);
    CHECK_EQ(c.train.keep_last, 2);
    CHECK_EQ(c.train.validate_every, 4);
    CHECK_EQ(c.zero.model_type, DT_BF16);
    CHECK_STR(c.train.device, "cpu");
    CHECK(!c.model.recompute && c.data.validation);
    CHECK_STR(f.resume, "none");
}

TEST(adapters_have_magnitudes_and_a_rate_of_their_own)
{
    loaded("dataset: sums\nuse_dora: true\nloraplus_lr_ratio: 16\n");
    CHECK(strstr(c.document, "\"use_dora\":\ttrue") != NULL);
    CHECK(strstr(c.document, "\"plus_ratio\":\t16") != NULL);
    loaded("dataset: sums\nfinetuning_type: full\nloraplus_lr_ratio: 16\n");
    CHECK_EQ(c.lora.r, 0);
    CHECK_STR(dt_buf_cstr(&warnings),
              "loraplus_lr_ratio: no new adapters are made, and it is ignored\n");
}

TEST(adapters_that_are_gone_on_with_have_a_rate_of_their_own_too)
{
    struct dt_buf text = {0};
    mkdir(at("before"), 0755);
    put("before/adapter_config.json", "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, "
                                      "\"target_modules\": [\"q_proj\"]}");
    dt_buf_printf(&text,
                  "dataset: sums\nadapter_name_or_path: %s\nlora_rank: 16\n"
                  "loraplus_lr_ratio: 16\n",
                  at("before"));
    loaded(dt_buf_cstr(&text));
    dt_buf_finish(&text);
    CHECK_EQ(c.lora.r, 4);
    CHECK(c.lora.plus_ratio == 16);
    CHECK_STR(dt_buf_cstr(&warnings), "lora_rank: no new adapters are made, and it is ignored\n");
}

TEST(pairs_are_trained_on_without_the_dropout_of_adapters_of_before)
{
    struct dt_buf text = {0};
    mkdir(at("before"), 0755);
    put("before/adapter_config.json",
        "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8, \"lora_dropout\": 0.1, "
        "\"target_modules\": [\"q_proj\"]}");
    for (int pairs = 0; pairs < 2; pairs++) {
        CHECK_ROW("stage %s", pairs ? "dpo" : "sft");
        dt_buf_clear(&text);
        dt_buf_printf(&text, "adapter_name_or_path: %s\n%s", at("before"),
                      pairs ? "stage: dpo\ndataset: pairs\n" : "dataset: sums\n");
        loaded(dt_buf_cstr(&text));
        CHECK(c.lora.r == 4 && near(c.lora.dropout, pairs ? 0 : 0.1f));
    }
    dt_buf_finish(&text);
}

TEST(the_model_beside_adapters_may_have_4_bits)
{
    loaded("dataset: sums\nquantization_bit: 4\nquantization_method: bnb\n"
           "double_quantization: true\n");
    CHECK(strstr(c.document, "\"base\":\t\"nf4\"") != NULL);
}

TEST(all_of_a_model_may_be_trained)
{
    loaded("dataset: sums\nfinetuning_type: full\nlora_rank: 8\nsave_strategy: no\nfp16: true\n"
           "resume_from_checkpoint: true\n");
    CHECK_EQ(c.lora.r, 0);
    CHECK_EQ(c.train.save_every, 0);
    CHECK(c.scaler.dynamic && c.scaler.scale == 65536 && c.scaler.window == 2000);
    CHECK_STR(dt_buf_cstr(&warnings), "lora_rank: no new adapters are made, and it is ignored\n");
    CHECK_STR(f.resume, "auto");
}

TEST(the_rate_follows_hugging_face_s_rules)
{
    static const struct {
        const char *text;
        int64_t step;
        double rate;
    } rows[] = {
        {"", 0, 1}, /* linear, and without a warm-up */
        {"", 50, 0.5},
        {"warmup_ratio: 0.1\n", 0, 0},
        {"warmup_ratio: 0.1\n", 5, 0.5},
        {"warmup_ratio: 0.1\nwarmup_steps: 20\n", 5, 0.25},
        {"warmup_steps: 0.2\n", 5, 0.25},
        {"lr_scheduler_type: cosine\n", 50, 0.5},
        {"lr_scheduler_type: constant\nwarmup_ratio: 0.1\n", 0, 1},
        {"lr_scheduler_type: constant_with_warmup\nwarmup_ratio: 0.1\n", 5, 0.5},
        {"lr_scheduler_type: cosine_with_min_lr\nlr_scheduler_kwargs: {min_lr_rate: 0.5}\n", 100,
         0.5},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        char text[200];
        struct dt_schedule s;
        CHECK_ROW("%s", rows[i].text);
        snprintf(text, sizeof text, "dataset: sums\nlearning_rate: 1\nnum_train_epochs: 1\n%s",
                 rows[i].text);
        loaded(text);
        dt_config_schedule(&c, 100, &s);
        CHECK(fabs(dt_schedule_rate(&s, rows[i].step) - rows[i].rate) < 1e-9);
    }
    loaded("dataset: sums\nval_size: 1\neval_strategy: steps\neval_steps: 2\n"
           "load_best_model_at_end: true\nearly_stopping_steps: 3\n");
    CHECK(c.train.keep_best);
}

TEST(overrides_are_of_either_kind)
{
    struct dt_err err;
    static const char *const some[] = {
        "learning_rate=2e-3",        "lora_target=[q_proj]",          "train.threads=2",
        "zero_optimization.stage=3", "per_device_train_batch_size=2", NULL};
    CHECK_OK(load("dataset: sums\nlearning_rate: 1\n", some, &err), err);
    CHECK(near(c.schedule.lr, 2e-3));
    CHECK_EQ(c.train.threads, 2);
    CHECK_EQ(c.zero.stage, 3);
    CHECK_EQ(c.batch.micro_batch, 2);
    static const char *const unknown[] = {"lerning_rate=1", NULL};
    CHECK_FAIL(load("dataset: sums\n", unknown, &err), err,
               "lerning_rate: no such key of LLaMA-Factory's is known here; did you mean "
               "learning_rate?");
    static const char *const text[] = {"default_system=You: be * kind #1", NULL};
    CHECK_OK(load("dataset: sums\n", text, &err), err);
    CHECK_STR(f.data.system, "You: be * kind #1");
    static const char *const comment[] = {"default_system=#1 of all", NULL};
    CHECK_OK(load("dataset: sums\n", comment, &err), err);
    CHECK_STR(f.data.system, "#1 of all");
    static const char *const own[] = {"data.train=/nowhere.bin", NULL};
    CHECK_OK(load("dataset: sums\n", own, &err), err);
    CHECK_STR(c.data.train[0].path, "/nowhere.bin");
    CHECK(!f.makes_tokens);
}

TEST(an_override_of_nothing_is_an_empty_text)
{
    static const struct {
        const char *override, *words;
    } rows[] = {
        {"lora_target=", "lora_target: it names no layer; write all, or names of layers"},
        {"learning_rate=", "run.yaml: learning_rate: "},
        {"max_steps=", "max_steps: expected a number from -1"},
        {"template=", "template: "},
        {"dataset=", "dataset: it is missing"},
        {"output_dir=", "output_dir: expected the name of a folder"},
    };
    static const char *const names[] = {"adapter_name_or_path", "eval_dataset", "deepspeed",
                                        "additional_target", "resume_from_checkpoint"};
    static const char *const null[] = {"cutoff_len=null", "lora_rank=~", NULL};
    struct dt_err err;
    char text[200], override[100];
    const char *const overrides[] = {override, NULL};
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].override);
        snprintf(override, sizeof override, "%s", rows[i].override);
        CHECK_FAIL(load("dataset: sums\n", overrides, &err), err, rows[i].words);
    }
    for (size_t i = 0; i < ROWS(names); i++) {
        CHECK_ROW("%s", names[i]);
        snprintf(text, sizeof text, "dataset: sums\n%s: nowhere\n", names[i]);
        snprintf(override, sizeof override, "%s=", names[i]);
        CHECK_OK(load(text, overrides, &err), err);
        CHECK(!f.resume && !c.data.validation && c.lora.r == 8);
    }
    CHECK_OK(load("dataset: sums\ncutoff_len: 512\nlora_rank: 4\n", null, &err), err);
    CHECK(c.lora.r == 8 && c.data.positions == 2048);
}

TEST(the_stage_dpo_trains_on_pairs)
{
    char text[400];
    loaded("dataset: pairs\nstage: dpo\n");
    CHECK_STR(dt_buf_cstr(&warnings), "");
    CHECK(c.dpo.on && c.dpo.beta == 0.1 && c.dpo.label_smoothing == 0 && c.dpo.sft == 0);
    CHECK_EQ(c.data.positions, 4094);
    CHECK(f.data.pairs);
    snprintf(text, sizeof text,
             "dataset: pairs\nstage: dpo\npref_beta: 0.3\npref_ftx: 0.5\npref_loss: sigmoid\n"
             "dpo_label_smoothing: 0.2\nlora_dropout: 0.1\ncutoff_len: 100\nref_model: %s/\n",
             at("model"));
    loaded(text);
    CHECK_STR(dt_buf_cstr(&warnings),
              "lora_dropout: the stage dpo trains without dropout, as LLaMA-Factory does\n");
    CHECK(c.dpo.beta == 0.3 && c.dpo.label_smoothing == 0.2 && c.dpo.sft == 0.5);
    CHECK(c.lora.dropout == 0);
    CHECK_EQ(c.data.positions, 198);
    loaded("dataset: pairs\nstage: dpo\nlora_dropout: '0.1'\n");
    CHECK(c.lora.dropout == 0 && warnings.len > 0);
    loaded("dataset: pairs\nstage: dpo\nfinetuning_type: full\n");
    CHECK(c.dpo.on && c.lora.r == 0);
    loaded("dataset: sums\npref_beta: 0.3\npref_loss: orpo\nref_model: x\n");
    CHECK(!c.dpo.on);
    CHECK_STR(dt_buf_cstr(&warnings),
              "pref_beta, pref_loss, ref_model: the stage is sft, and it is ignored\n");
}

TEST(pairs_are_trained_on_without_the_dropout_of_the_model)
{
    static const char *const drops[] = {"model.config.attention_dropout=0.1", NULL};
    struct dt_err err;
    CHECK_OK(load("dataset: sums\n", drops, &err), err);
    CHECK(near((double)c.model.shape.attention_dropout, 0.1));
    CHECK_OK(load("dataset: pairs\nstage: dpo\n", drops, &err), err);
    CHECK(!dt_shape_drops(&c.model.shape));
}

TEST(both_answers_fit_into_the_model)
{
    static const char *const small[] = {"model.config.max_position_embeddings=1024", NULL};
    struct dt_err err;
    CHECK_OK(load("dataset: pairs\nstage: dpo\n", small, &err), err);
    CHECK_EQ(c.data.positions, 1024);
    CHECK_EQ(f.data.cutoff, 513);
    CHECK_STR(dt_buf_cstr(&warnings), "cutoff_len is not written and is 513 here, as the model has "
                                      "1024 positions for both answers of a pair\n");
    CHECK_OK(load("dataset: pairs\nstage: dpo\ncutoff_len: 513\n", small, &err), err);
    CHECK_FAIL(load("dataset: pairs\nstage: dpo\ncutoff_len: 514\n", small, &err), err,
               "run.yaml: cutoff_len: 514 tokens in each of two answers take 1026 positions, and "
               "the model has 1024; write at most 513");
}

TEST(examples_fit_into_the_model)
{
    char folder[200];
    snprintf(folder, sizeof folder, "model_name_or_path=%s", at("short"));
    const char *const small[] = {folder, NULL};
    static const char *const smaller[] = {"model.config.max_position_embeddings=1024",
                                          "data.sequence_length=512", NULL};
    struct dt_err err;
    CHECK_OK(load("dataset: sums\n", small, &err), err);
    CHECK_EQ(c.data.positions, 1024);
    CHECK_EQ(f.data.cutoff, 1024);
    CHECK_STR(dt_buf_cstr(&warnings), "cutoff_len is not written and is 1024 here, as the model "
                                      "has 1024 positions\n");
    CHECK_OK(load("dataset: sums\n", smaller, &err), err);
    CHECK_EQ(c.data.positions, 512);
    CHECK_FAIL(load("dataset: sums\ncutoff_len: 2048\n", small, &err), err,
               "run.yaml: cutoff_len: 2048 is more than the 1024 positions of the model");
}

TEST(a_deepspeed_file_joins_it)
{
    char text[300];
    struct dt_err err;
    snprintf(text, sizeof text, "dataset: sums\ndeepspeed: %s\n",
             put("z3.json", "{\"train_batch_size\": \"auto\", \"gradient_clipping\": \"auto\", "
                            "\"zero_optimization\": {\"stage\": 3}}"));
    loaded(text);
    CHECK_EQ(c.zero.stage, 3);
    CHECK(c.clip == 1);
    put("z3.json", "{\"gradient_clipping\": 3}");
    CHECK_FAIL(load(text, NULL, &err), err,
               "z3.json: gradient_clipping is 3, and max_grad_norm is 1; write \"auto\" there, or "
               "the same in both");
    put("z3.json", "{\"optimizer\": {\"params\": {\"betas\": [0.8, 0.99]}}}");
    CHECK_FAIL(load(text, NULL, &err), err,
               "z3.json: optimizer.params.betas is [0.8,0.99], and adam_beta1, adam_beta2 is "
               "[0.9,0.999]; write");
    put("z3.json", "{\"optimizer\": \"AdamW\"}");
    CHECK_FAIL(load(text, NULL, &err), err, "optimizer: ");
    put("z3.json", "{\"fp16\": {\"enabled\": \"auto\", \"loss_scale_window\": 1000, "
                   "\"initial_scale_power\": 12, \"hysteresis\": 2}}");
    CHECK_OK(load(text, (const char *const[]){"fp16=true", NULL}, &err), err);
    CHECK(c.scaler.dynamic && c.scaler.window == 1000 && c.scaler.scale == 4096);
}

/* The rate of one step tells how long the warm-up and the run are. */
TEST(the_scheduler_of_a_deepspeed_file_counts)
{
    static const struct {
        const char *text, *params;
        int64_t step;
        double rate;
    } rows[] = {
        {"warmup_steps: 20\n", "\"warmup_num_steps\": \"auto\"", 11, 0.5},
        {"warmup_ratio: 0.1\n", "\"warmup_num_steps\": \"auto\"", 6, 0.5},
        {"warmup_steps: 0.2\n", "\"warmup_num_steps\": \"auto\"", 11, 0.5},
        {"", "\"warmup_num_steps\": \"auto\"", 2, 0.5},
        {"", "\"warmup_num_steps\": \"auto\"", 3, 1},
        {"warmup_steps: 20\n", "\"warmup_num_steps\": 20", 11, 0.5},
        {"max_steps: 100\nwarmup_ratio: 0.1\n", "\"warmup_num_steps\": 10", 6, 0.5},
        {"warmup_ratio: 0.1\n", "\"warmup_num_steps\": 20", 11, 0.5},
        {"warmup_steps: 20\n", "\"warmup_num_steps\": \"auto\"", 61, 0.5},
        {"max_steps: 100\nwarmup_steps: 20\n",
         "\"warmup_num_steps\": \"auto\", \"total_num_steps\": 100", 61, 0.5},
    };
    char text[300], file[400];
    struct dt_schedule s;
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s and %s", rows[i].text, rows[i].params);
        bool ends = strstr(rows[i].params, "total_num_steps");
        snprintf(file, sizeof file,
                 "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_type\": "
                 "\"linear\", \"warmup_min_lr\": \"auto\", \"warmup_max_lr\": \"auto\"%s, %s}}}",
                 ends ? "" : ", \"total_num_steps\": \"auto\"", rows[i].params);
        snprintf(text, sizeof text, "dataset: sums\nlearning_rate: 2\ndeepspeed: %s\n%s",
                 put("ds.json", file), rows[i].text);
        loaded(text);
        CHECK_STR(dt_buf_cstr(&warnings), "");
        dt_config_schedule(&c, 100, &s);
        CHECK(fabs(dt_schedule_rate(&s, rows[i].step) - 2 * rows[i].rate) < 1e-9);
    }
}

TEST(a_number_of_two_files_is_the_same)
{
    static const struct {
        const char *text, *params, *words;
    } rows[] = {
        {"", "\"warmup_max_lr\": 0.001",
         "ds.json: scheduler.params.warmup_max_lr is 0.001, and learning_rate is 5e-05; write "
         "\"auto\" there, or the same number in both"},
        {"", "\"warmup_num_steps\": 100", "warmup_num_steps is 100, and warmup_steps is 0; write"},
        {"warmup_steps: 10\n", "\"warmup_num_steps\": 100",
         "is 100, and warmup_steps is 10; write"},
        {"warmup_ratio: 0.1\nmax_steps: 50\n", "\"warmup_num_steps\": 6",
         "warmup_num_steps is 6, and warmup_ratio of max_steps is 5; write"},
        {"max_steps: 50\n", "\"total_num_steps\": 100", "is 100, and max_steps is 50; write"},
        {"learning_rate: '0.1'\n", "\"warmup_max_lr\": \"0.2\"",
         "warmup_max_lr is 0.2, and learning_rate is 0.1; write"},
    };
    char text[300], file[300];
    struct dt_err err;
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s and %s", rows[i].text, rows[i].params);
        snprintf(file, sizeof file,
                 "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {%s}}}",
                 rows[i].params);
        snprintf(text, sizeof text, "dataset: sums\ndeepspeed: %s\n%s", put("ds.json", file),
                 rows[i].text);
        CHECK_FAIL(load(text, NULL, &err), err, rows[i].words);
    }
    snprintf(text, sizeof text, "dataset: sums\ndeepspeed: %s\n",
             put("ds.json", "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"auto\", "
                            "\"weight_decay\": 0, \"betas\": \"auto\"}}}"));
    loaded(text);
    CHECK(near(c.schedule.lr, 5e-5) && c.zero.decoupled);
    put("ds.json", "{\"optimizer\": {\"params\": {\"lr\": 1e-4, \"eps\": \"1e-8\"}}}");
    CHECK_OK(load(text, (const char *const[]){"learning_rate='1e-4'", NULL}, &err), err);
    CHECK(near(c.schedule.lr, 1e-4));
    put("ds.json", "{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.1}}}");
    CHECK_FAIL(load(text, NULL, &err), err,
               "ds.json: optimizer.params.lr is 0.1, and learning_rate is 5e-05; write \"auto\"");
    snprintf(text, sizeof text,
             "dataset: sums\nlr_scheduler_type: cosine\nwarmup_ratio: 0.1\n"
             "deepspeed: %s\n",
             put("ds.json", "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {}}}"));
    loaded(text);
    snprintf(file, sizeof file,
             "lr_scheduler_type: the scheduler in %s counts, and it is ignored\n"
             "warmup_ratio: the scheduler in %s counts, and it is ignored\n",
             at("ds.json"), at("ds.json"));
    CHECK_STR(dt_buf_cstr(&warnings), file);
    CHECK_EQ(c.schedule.kind, DT_WARMUP);
}

TEST(what_cannot_be_is_refused_by_name)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"dataset: sums\nstage: kto\n", "run.yaml: stage: kto is not done here, and sft and dpo "
                                        "are; stage: dpo learns from pairs of answers"},
        {"dataset: sums\nstage: rm\n", "stage: rm is not done here, and sft and dpo are; stage: "},
        {"dataset: sums\nstage: ppo\n", "stage: ppo is not done here, and sft and dpo are; stage"},
        {"dataset: sums\nstage: pt\n", "make a file of tokens by dtrun-train tokenize --key NAME"},
        {"dataset: sums\nstage: dop\n", "stage: \"dop\" is not done here; sft and dpo are"},
        {"dataset: sums\nstage: dpo\n", "info.json: sums: the stage dpo wants pairs of answers"},
        {"dataset: ranked\nstage: dpo\n", "ranked: columns.chosen or columns.rejected is missing"},
        {"dataset: pairs\nstage: dpo\npref_loss: ipo\n", "pref_loss: sigmoid is done here, which"},
        {"dataset: pairs\nstage: dpo\npref_beta: 0\n", "run.yaml: pref_beta: "},
        {"dataset: pairs\nstage: dpo\nref_model: x\n", "ref_model: answers are compared with the"},
        {"dataset: pairs\nstage: dpo\nref_model_adapters: x\n", "ref_model_adapters: answers are"},
        {"dataset: pairs\nstage: dpo\nneat_packing: true\n",
         "neat_packing: it is for the stage sft"},
        {"dataset: pairs\nstage: dpo\nmask_history: true\n",
         "mask_history: it is for the stage sft"},
        {"dataset: sums\nlora_rnak: 8\n", "lora_rnak: no such key of LLaMA-Factory's is known "
                                          "here; did you mean lora_rank?"},
        {"dataset: sums\nneftune_noise_alpha: 5\n", "neftune_noise_alpha: it would change what is"},
        {"dataset: sums\nquantization_bit: 8\n", "quantization_bit: "},
        {"dataset: sums\nfinetuning_type: freeze\n", "\"freeze\" is not implemented; lora and"},
        {"dataset: sums\npacking: true\n", "packing: packed conversations do not see each other"},
        {"dataset: sums\noptim: sgd\n", "optim: \"sgd\" is not implemented; adamw_torch is"},
        {"dataset: sums\nlr_scheduler_type: steps\n",
         "lr_scheduler_type: the scheduler \"steps\" is not"},
        {"dataset: sums\nlora_target: ''\n",
         "run.yaml: lora_target: it names no layer; write all,"},
        {"dataset: sums\nlora_target: []\n", "lora_target: it names no layer; write all, or names"},
        {"dataset: sums\nlora_rank: 0\n", "run.yaml: lora_rank: "},
        {"dataset: sums\nlearning_rate: fast\n", "run.yaml: learning_rate: "},
        {"dataset: sums\ncutoff_len: 5000\n", "cutoff_len: 5000 is more than the 4096 positions"},
        {"dataset: sums\ncutoff_len: 1\n", "cutoff_len: expected a number from 2"},
        {"dataset: sums\nnum_train_epochs: 0\n",
         "run.yaml: num_train_epochs: it is 0, and max_steps is -1, so there is nothing to train"},
        {"dataset: sums\nmax_steps: 1.5\n", "max_steps: expected a whole number, found 1.5"},
        {"dataset: sums\nbf16: 3\n", "bf16: expected true or false"},
        {"dataset: sums\nbf16: true\nfp16: true\n", "bf16: fp16 is true as well"},
        {"dataset: sums\neval_dataset: sums\nval_size: 0.1\n", "val_size: eval_dataset says"},
        {"dataset: sums\neval_strategy: steps\n", "eval_strategy: there is nothing to validate"},
        {"dataset: sums\nenable_thinking: false\n", "enable_thinking: "},
        {"dataset: sums\nadapter_name_or_path: a,b\n", "adapter_name_or_path: one folder"},
        {"lora_rank: 8\n", "dataset: it is missing"},
        {"dataset: sums\ntemplate: llama9\n", "template is there twice"},
        {"dataset: smus\n", "has no \"smus\"; did you mean \"sums\"?"},
        {"dataset: alpaca_en_demo\n", "dataset_info.json has no \"alpaca_en_demo\"; it has sums, "
                                      "turns, named, hub, ranked and 4 more"},
        {"dataset: hub\n", "dataset_info.json: hub.hf_hub_url: nothing is downloaded"},
        {"dataset: ranked\n", "ranked.ranking: pairs of answers are for the stage dpo"},
        {"dataset: tools\n", "tools.columns.tools: calls of tools are not done here"},
        {"dataset: wrong\n", "wrong.columns.promt: there is no such name"},
        {"dataset: [sums\n", "run.yaml: line 5: ] or , is missing"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_err err;
        CHECK_FAIL(load(rows[i].text, NULL, &err), err, rows[i].words);
    }
    struct dt_err err;
    static const char *const other[] = {"template=llama9", NULL};
    CHECK_FAIL(load("dataset: sums\n", other, &err), err,
               "template: there is no chat template \"llama9\"");
    char empty[200];
    mkdir(at("empty"), 0755);
    put("empty/dataset_info.json", "{}");
    snprintf(empty, sizeof empty, "dataset_dir=%s", at("empty"));
    CHECK_FAIL(load("dataset: sums\n", (const char *const[]){empty, NULL}, &err), err,
               "dataset_info.json has no \"sums\"; it is empty");
    static const char *const hub[] = {"model_name_or_path=meta-llama/Llama-2-7b", NULL};
    CHECK_FAIL(load("dataset: sums\n", hub, &err), err,
               "there is no folder meta-llama/Llama-2-7b; nothing is downloaded here");
}

TEST(another_input_makes_another_file)
{
    static const char *const rows[] = {
        "dataset: sums\n",
        "dataset: sums,named\n",
        "dataset: sums\ncutoff_len: 100\n",
        "dataset: sums\nmax_samples: 2\n",
        "dataset: sums\nval_size: 0.4\n",
        "dataset: sums\neval_dataset: named\n",
        "dataset: sums\ndefault_system: x\n",
        "dataset: sums\ntrain_on_prompt: true\n",
        "dataset: sums\nmask_history: true\n",
    };
    char names[ROWS(rows)][200];
    for (size_t i = 0; i < ROWS(rows); i++) {
        loaded(rows[i]);
        snprintf(names[i], sizeof names[i], "%s", c.data.train[0].path);
        CHECK(strstr(names[i], "/out/tokens/sums") != NULL);
        for (size_t k = 0; k < i; k++) {
            CHECK_ROW("%s and %s", rows[i], rows[k]);
            CHECK(strcmp(names[i], names[k]) != 0);
        }
    }
    loaded("lora_rank: 2\ndataset: sums\nlearning_rate: 1\n");
    CHECK_STR(c.data.train[0].path, names[0]);
    put("model/tokenizer_config.json", "{\"eos_token\": \"<s>\"}");
    loaded("dataset: sums\n");
    CHECK(strcmp(c.data.train[0].path, names[0]) != 0);
    put("model/tokenizer_config.json", "{\"eos_token\": \"</s>\"}");
}

static char told[600];

static void note(const char *line)
{
    snprintf(told, sizeof told, "%s", line);
}

TEST(datasets_become_tokens_once)
{
    struct dt_err err;
    *told = '\0';
    loaded("dataset: sums, turns,named\n");
    CHECK_OK(dt_factory_make_tokens(&f, &c, note, &err), err);
    CHECK(strstr(told, ".bin: 5 conversations with ") != NULL);
    CHECK_EQ(c.data.positions, 64);
    struct dt_tokens *t = dt_tokens_open(c.data.train[0].path, 0, 808, &err);
    CHECK_STR(t ? "" : err.text, "");
    CHECK_EQ(dt_tokens_documents(t), 5);
    dt_tokens_close(t);
    *told = '\0';
    c.data.positions = 2048;
    CHECK_OK(dt_factory_make_tokens(&f, &c, note, &err), err);
    CHECK_STR(told, "");
    CHECK_EQ(c.data.positions, 64);
}

TEST(a_part_is_set_aside_or_comes_from_elsewhere)
{
    struct dt_err err;
    static const char *const rows[] = {"dataset: sums\nval_size: 1\n",
                                       "dataset: sums\nval_size: 0.4\n",
                                       "dataset: sums\nmax_samples: 2\neval_dataset: turns\n"};
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i]);
        loaded(rows[i]);
        CHECK_OK(dt_factory_make_tokens(&f, &c, note, &err), err);
        struct dt_tokens *train = dt_tokens_open(c.data.train[0].path, 0, 808, &err);
        struct dt_tokens *validation = dt_tokens_open(c.data.validation, 0, 808, &err);
        CHECK(train && validation);
        CHECK_EQ(dt_tokens_documents(train), 2);
        CHECK_EQ(dt_tokens_documents(validation), 1);
        dt_tokens_close(train);
        dt_tokens_close(validation);
    }
    loaded("dataset: sums\nval_size: 3\n");
    CHECK_FAIL(dt_factory_make_tokens(&f, &c, note, &err), err,
               "3 of 3 examples are to be set aside for validation");
    CHECK(!dt_fs_exists(c.data.train[0].path));
}

TEST(each_form_of_a_pair_makes_the_same_tokens)
{
    struct dt_buf files[3] = {{0}};
    struct dt_err err;
    for (int i = 0; i < 3; i++) {
        loaded(i == 0   ? "dataset: pairs\nstage: dpo\n"
               : i == 1 ? "dataset: talks\nstage: dpo\n"
                        : "dataset: pairs, talks\nstage: dpo\n");
        CHECK_OK(dt_factory_make_tokens(&f, &c, note, &err), err);
        CHECK(strstr(told, i < 2 ? ".bin: 1 pairs with " : ".bin: 2 pairs with ") != NULL);
        CHECK_OK(dt_fs_read(c.data.train[0].path, 1 << 20, &files[i], &err), err);
        CHECK_EQ(c.data.positions, 192);
    }
    CHECK(files[0].len == files[1].len && memcmp(files[0].at, files[1].at, files[0].len) == 0);
    CHECK(files[2].len > files[0].len);
    for (int i = 0; i < 3; i++)
        dt_buf_finish(&files[i]);
    put("data/talks.jsonl", "{\"m\": [{\"who\": \"me\", \"says\": \"a\"}], \"chosen\": \"b\"}");
    loaded("dataset: talks\nstage: dpo\n");
    CHECK_FAIL(dt_factory_make_tokens(&f, &c, note, &err), err,
               "talks.jsonl:1: it has no \"good\", where an answer is to be");
}

TEST(a_dataset_that_is_none_is_refused)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"[{\"instruction\": \"a\", \"output\": \"b\"}", "sums.json: it ends behind element 1"},
        {"[{\"instruction\": \"a\"", "sums.json: it ends within element 1"},
        {"[{\"instruction\": \"a\", \"output\": \"b\"},]", "a comma and nothing follow element 1"},
        {"[{\"instruction\": \"a\", \"output\": \"b\"}] x", "something follows the bracket behind"},
        {"[1]", "sums.json, element 1: expected an object"},
        {"[{\"instruction\": 1, \"output\": \"b\"}]", "sums.json, element 1: instruction: "},
        {"[]", "data/sums.json: there are no examples in it"},
        {"\n", "data/sums.json: there are no examples in it"},
        {"", "data/sums.json: there are no examples in it"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_err err;
        put("data/sums.json", rows[i].text);
        loaded("dataset: sums\n");
        CHECK_FAIL(dt_factory_make_tokens(&f, &c, note, &err), err, rows[i].words);
        CHECK(!dt_fs_exists(c.data.train[0].path));
    }
    static const char *const others[] = {"dataset: sums\nval_size: 1\n", "dataset: sums, turns\n",
                                         "dataset: turns,sums\n"};
    for (size_t i = 0; i < ROWS(others); i++) {
        CHECK_ROW("%s", others[i]);
        struct dt_err err;
        loaded(others[i]);
        CHECK_FAIL(dt_factory_make_tokens(&f, &c, note, &err), err,
                   "data/sums.json: there are no examples in it");
    }
}
