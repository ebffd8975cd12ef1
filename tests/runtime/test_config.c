/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "tests/lib/folder.h"
#include "worker_runtime/config/config.h"
#include "worker_runtime/config/merge.h"

#include <math.h>

#define ROWS(t) (sizeof(t) / sizeof *(t))
#define CONFIGS DT_SOURCE_ROOT "/tests/runtime/configs/"

BEFORE_ALL
{
    folder_make();
}

static struct dt_config c; /* of the test that runs */
static struct dt_buf warnings;

static void load(const char *path, const char *deepspeed, const char *const *overrides)
{
    struct dt_err err;
    dt_config_finish(&c);
    dt_buf_clear(&warnings);
    CHECK_OK(dt_config_load(&c, path, deepspeed, overrides, &warnings, &err), err);
}

static int parse(const char *text, struct dt_err *err)
{
    dt_config_finish(&c);
    dt_buf_clear(&warnings);
    return dt_config_parse(&c, text, strlen(text), "here.json", "", &warnings, err);
}

static bool warned(const char *words)
{
    return strstr(dt_buf_cstr(&warnings), words) != NULL;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

TEST(an_empty_configuration_is_deepspeed_s_defaults)
{
    struct dt_err err;
    CHECK_OK(parse("{}", &err), err);
    CHECK_STR(dt_buf_cstr(&warnings), "");
    CHECK_EQ(c.zero.stage, 0);
    CHECK_EQ(c.zero.model_type, DT_F32);
    CHECK_EQ(c.zero.comm_type, DT_F32);
    CHECK_EQ(c.zero.reduce_bucket, 500000000);
    CHECK_EQ(c.zero.gather_bucket, 500000000);
    CHECK_EQ(c.zero.prefetch, 50000000);
    CHECK_EQ(c.zero.max_live, 1000000000);
    CHECK_EQ(c.zero.max_reuse_distance, 1000000000);
    CHECK_EQ(c.zero.persist_below, 100000);
    CHECK(!c.zero.overlap && c.zero.decoupled && c.zero.bias_correction);
    CHECK(near(c.zero.beta1, 0.9) && near(c.zero.beta2, 0.999) && near(c.zero.eps, 1e-8));
    CHECK(c.zero.weight_decay == 0 && c.clip == 0);
    CHECK_EQ(c.schedule.kind, DT_SCHEDULE_CONSTANT);
    CHECK(near(c.schedule.lr, 1e-3));
    CHECK(!c.scaler.dynamic && c.scaler.scale == 1);
    CHECK(!c.has_model && !c.has_data && c.data.shuffle);
    CHECK_EQ(c.train.keep_last, 2);
    CHECK_STR(c.train.upload_to, NULL);
    CHECK_EQ(c.train.upload_keep_last, 2);
    CHECK_EQ(c.train.upload_timeout_ms, 600000);
    CHECK_EQ(c.train.max_skipped_steps, 10);
    CHECK_EQ(c.train.log_every, 10);
    CHECK_EQ(c.train.collective_timeout_ms, 600000);
    CHECK_EQ(c.train.vault, DT_VAULT_AUTO);
    CHECK_EQ(c.train.vault_every, 0);
    CHECK_STR(c.train.device, "auto");
    CHECK_EQ(c.train.attention, DT_ATTENTION_OWN);
    CHECK_EQ(c.train.balance, DT_BALANCE_OFF);
}

TEST(a_file_full_of_auto_is_worked_out)
{
    load(CONFIGS "auto-zero3.json", NULL, NULL);
    CHECK_EQ(c.zero.stage, 3);
    CHECK(c.zero.overlap);
    CHECK_EQ(c.zero.model_type, DT_F32);
    CHECK_EQ(c.zero.reduce_bucket, 500000000);
    CHECK_EQ(c.zero.persist_below, 100000);
    CHECK_EQ(c.batch.train_batch, 0);
    CHECK_EQ(c.batch.micro_batch, 0);
    CHECK_EQ(c.train.log_every, 2000);
    CHECK(near(c.schedule.lr, 3e-5) && near(c.schedule.max_lr, 3e-5));
    CHECK_EQ(c.schedule.kind, DT_WARMUP);
    CHECK_EQ(c.schedule.warmup_steps, 1000);
    CHECK(c.clip == 1);
    CHECK(warned("gradient_clipping: \"auto\" is 1 here"));
    CHECK(warned("warmup_num_steps: \"auto\" is 1000 here"));
}

TEST(fp16_at_stage_2_is_read_to_the_last_key)
{
    load(CONFIGS "fp16-zero2.json", NULL, NULL);
    CHECK_EQ(c.batch.train_batch, 48);
    CHECK_EQ(c.batch.accumulation, 3);
    CHECK(!c.zero.decoupled && !c.zero.bias_correction);
    CHECK(near(c.zero.beta1, 0.8) && near(c.zero.beta2, 0.99) && near(c.zero.eps, 1e-9));
    CHECK(near(c.zero.weight_decay, 3e-7));
    CHECK_EQ(c.schedule.kind, DT_WARMUP_DECAY);
    CHECK_EQ(c.schedule.warmup_type, DT_WARMUP_LOG);
    CHECK_EQ(c.schedule.warmup_steps, 10);
    CHECK_EQ(c.schedule.total_steps, 200);
    CHECK(near(c.schedule.min_lr, 1e-6) && near(c.schedule.max_lr, 0.001));
    CHECK(near(c.clip, 0.5));
    CHECK_EQ(c.zero.model_type, DT_F16);
    CHECK_EQ(c.zero.comm_type, DT_F32);
    CHECK(c.scaler.dynamic && c.scaler.consecutive_hysteresis && c.scaler.scale == 4096);
    CHECK(c.scaler.min_scale == 0.25);
    CHECK_EQ(c.scaler.window, 50);
    CHECK_EQ(c.scaler.hysteresis, 4);
    CHECK_EQ(c.scaler.hysteresis_left, 4);
    CHECK_EQ(c.scaler.last_overflow, -1);
    CHECK_EQ(c.zero.gather_bucket, 200000000);
    CHECK_EQ(c.zero.reduce_bucket, 200000000);
    CHECK(c.zero.overlap && c.train.breakdown);
    CHECK_EQ(c.train.log_every, 5);
    CHECK_STR(c.train.csv_path, "logs");
    CHECK_STR(c.train.csv_job, "one");
    CHECK(warned("optimizer.params.max_grad_norm: the optimizer does not clip"));
    CHECK(warned("\"cubic\" is neither log nor linear, and means log"));
    CHECK(warned("tensorboard: write csv_monitor"));
    CHECK(!warned("flops_profiler"));
}

TEST(keys_of_stage_3_go_without_their_prefix_too)
{
    load(CONFIGS "bf16-short-names.json", NULL, NULL);
    CHECK_EQ(c.zero.model_type, DT_BF16);
    CHECK_EQ(c.zero.comm_type, DT_F32);
    CHECK_EQ(c.zero.prefetch, 1000000);
    CHECK_EQ(c.zero.persist_below, 0);
    CHECK_EQ(c.zero.max_live, 1); /* 0 is "no limit" of dt_zero_options */
    CHECK_EQ(c.zero.max_reuse_distance, 5000);
    CHECK(c.zero.overlap); /* the default of stage 3 */
    CHECK(c.model.recompute);
    struct dt_err err;
    CHECK(c.zero.offload && c.zero.offload_params && !warned("offload"));
    CHECK_OK(dt_config_check_gpu(&c, &err), err);
    load(CONFIGS "own.json", NULL, NULL);
    CHECK_OK(dt_config_check_gpu(&c, &err), err);
}

TEST(the_old_form_of_zero_is_stage_1)
{
    load(CONFIGS "old-zero1.json", NULL, NULL);
    CHECK_EQ(c.zero.stage, 1);
    CHECK(c.zero.decoupled); /* Adam decouples unless adam_w_mode is false */
    CHECK_STR(dt_buf_cstr(&warnings), "");
}

TEST(our_own_blocks_are_read_and_paths_stand_beside_the_file)
{
    load(CONFIGS "own.json", NULL, NULL);
    CHECK(c.has_model && c.has_data && c.model.recompute);
    CHECK_EQ(c.model.recompute_every, 2);
    CHECK_EQ(c.model.shape.layers, 2);
    CHECK_EQ(c.data.train_count, 1);
    CHECK_STR(c.data.train[0].path, CONFIGS "train.bin");
    CHECK_STR(c.data.validation, "/abs/val.bin");
    CHECK_EQ(c.data.raw_width, 4);
    CHECK_EQ(c.data.positions, 32);
    CHECK(!c.data.shuffle);
    CHECK_EQ(c.train.steps, 100);
    CHECK_EQ(c.train.seed, 42);
    CHECK_EQ(c.train.log_every, 3);
    CHECK_EQ(c.train.save_every, 50);
    CHECK_STR(c.train.save_dir, "out");
    CHECK_EQ(c.train.keep_last, 0);
    CHECK_STR(c.train.upload_to, "s3://bucket/run");
    CHECK_EQ(c.train.upload_keep_last, 0); /* as keep_last */
    CHECK_EQ(c.train.upload_bandwidth, 1000000);
    CHECK_EQ(c.train.upload_timeout_ms, 120000);
    CHECK_EQ(c.train.validate_every, 10);
    CHECK_EQ(c.train.validation_batches, 5);
    CHECK_STR(c.train.metrics, "m.jsonl");
    CHECK_EQ(c.train.threads, 2);
    CHECK_STR(c.train.device, "cpu");
    CHECK_EQ(c.train.collective_timeout_ms, 90000);
    CHECK_EQ(c.train.vault, DT_VAULT_LOCAL);
    CHECK_EQ(c.train.vault_every, 4);
    CHECK_EQ(c.train.attention, DT_ATTENTION_CUDNN);
    CHECK_EQ(c.train.balance, DT_BALANCE_UTILISATION);
    CHECK_STR(dt_buf_cstr(&warnings), "there is no \"optimizer\" block: it is AdamW with lr 0.001 "
                                      "and weight_decay 0\n");
}

TEST(two_files_and_overrides_are_one_configuration)
{
    static const char *const overrides[] = {"train.steps=20",
                                            "data.train=here.bin",
                                            "model.config=" CONFIGS "model/config.json",
                                            "zero_optimization.stage=1",
                                            "optimizer.params.betas=[0.5,0.6]",
                                            "data.validation=null",
                                            "train.validate_every=0",
                                            "scheduler.params.warmup_num_steps=\"auto\"",
                                            NULL};
    load(CONFIGS "own.json", CONFIGS "auto-zero3.json", overrides);
    CHECK_EQ(c.train.steps, 20);
    CHECK_EQ(c.train.seed, 42);
    CHECK_EQ(c.train.log_every, 3);
    CHECK_STR(c.data.train[0].path, "here.bin");
    CHECK(c.data.validation == NULL);
    CHECK_EQ(c.zero.stage, 1);
    CHECK(near(c.zero.beta1, 0.5) && near(c.zero.beta2, 0.6));
    CHECK(near(c.schedule.max_lr, 3e-5));
    CHECK_EQ(c.schedule.warmup_steps, 2); /* a tenth of the run */
}

static const char *file(const char *name, const char *text)
{
    struct dt_err err;
    const char *path = at(name);
    CHECK_OK(dt_fs_replace(path, text, strlen(text), 0644, &err), err);
    return path;
}

TEST(heads_that_a_gpu_does_not_take_are_named)
{
    struct dt_err err;
    struct dt_config other;
    const char *run = file("run.json", "{\"model\": {\"config\": {\"model_type\": \"gpt2\", "
                                       "\"n_layer\": 1, \"n_embd\": 1024, \"n_head\": 2, "
                                       "\"n_positions\": 16, \"vocab_size\": 320}}}");
    const char *overrides[] = {"train.device=cuda", NULL, NULL};
    load(run, NULL, NULL);
    CHECK_FAIL(dt_config_check_gpu(&c, &err), err,
               "attention on a GPU takes heads of at most 256 numbers, and those of this model "
               "have 512");
    CHECK_FAIL(dt_config_load(&other, run, NULL, overrides, NULL, &err), err, "have 512");
    overrides[1] = "model.config.n_head=4";
    load(run, NULL, overrides);
    CHECK_OK(dt_config_check_gpu(&c, &err), err);
}

/* A GPU drops all but weights of attention, and says so of what it was given. */
TEST(dropout_of_attention_is_for_processors)
{
    struct dt_err err;
    struct dt_config other;
    const char *gpt2 = file("gpt2.json", "{\"model\": {\"config\": {\"model_type\": \"gpt2\", "
                                         "\"n_layer\": 1, \"n_embd\": 8, \"n_head\": 2, "
                                         "\"n_positions\": 16, \"vocab_size\": 320}}}");
    const char *llama = file(
        "llama.json", "{\"model\": {\"config\": {\"model_type\": \"llama\", \"hidden_size\": 8, "
                      "\"intermediate_size\": 8, \"num_hidden_layers\": 1, "
                      "\"num_attention_heads\": 2, \"max_position_embeddings\": 16, "
                      "\"vocab_size\": 320}}}");
    const char *overrides[] = {"model.config.resid_pdrop=0.1", "model.config.embd_pdrop=0.2", NULL,
                               NULL};
    load(gpt2, NULL, overrides);
    CHECK_OK(dt_config_check_gpu(&c, &err), err);
    overrides[0] = "model.config.attn_pdrop=0.1";
    load(gpt2, NULL, overrides);
    CHECK_FAIL(dt_config_check_gpu(&c, &err), err,
               "model.config.attn_pdrop: weights of attention are dropped on CPUs alone so far; "
               "set it to 0, or train.device to \"cpu\"");
    overrides[2] = "train.device=cuda";
    CHECK_FAIL(dt_config_load(&other, gpt2, NULL, overrides, NULL, &err), err, "attn_pdrop: ");
    overrides[0] = "model.config.attention_dropout=0.1";
    overrides[1] = NULL;
    load(llama, NULL, overrides);
    CHECK_FAIL(dt_config_check_gpu(&c, &err), err, "model.config.attention_dropout: weights of");
}

TEST(an_error_names_the_source_that_has_the_key)
{
    struct dt_err err;
    struct dt_config other;
    const char *mine =
        file("mine.json", "{\"train\": {\"steps\": 5}, \"zero_optimization\": {\"stage\": 1}}");
    const char *theirs = file("theirs.json", "{\"gradient_clipping\": -1}");
    const char *bad[] = {"train.steps=x", NULL}, *none[] = {"train.stps=3", NULL};
    const char *last[] = {"train.steps=2", "train.steps=-1", NULL};
    CHECK_FAIL(dt_config_load(&other, mine, theirs, NULL, NULL, &err), err,
               "theirs.json: gradient_clipping: expected a number from 0");
    CHECK_FAIL(dt_config_load(&other, mine, NULL, bad, NULL, &err), err,
               "override \"train.steps=x\": train.steps: expected a whole number, found \"x\"");
    CHECK_FAIL(dt_config_load(&other, mine, NULL, none, NULL, &err), err,
               "override \"train.stps=3\": train.stps: there is no such setting; did you mean "
               "train.steps?");
    CHECK_FAIL(dt_config_load(&other, mine, NULL, last, NULL, &err), err,
               "override \"train.steps=-1\": train.steps: expected a whole number from 0");
    dt_merge_rename(&err, last[0], "--steps 2");
    CHECK(strstr(err.text, "override ") == err.text);
    dt_merge_rename(&err, last[1], "--steps -1");
    CHECK(strstr(err.text, "--steps -1: expected a whole number from 0") == err.text);
    theirs = file("theirs.json", "{\"zero_optimization\": {\"stage\": 2}}");
    CHECK_FAIL(dt_config_load(&other, mine, theirs, NULL, NULL, &err), err,
               "zero_optimization.stage: ");
    CHECK(strstr(err.text, "mine.json has another value than ") &&
          strstr(err.text, "theirs.json; drop one"));
    mine = file("mine.json", "{\"gradient_clipping\": -1}");
    theirs = file("theirs.json", "{\"gradient_clipping\": \"auto\"}");
    CHECK_FAIL(dt_config_load(&other, mine, theirs, NULL, NULL, &err), err,
               "mine.json: gradient_clipping: expected a number from 0");
    mine = file("mine.json", "{\"gradient_clipping\": 2, \"optimizer\": {\"type\": \"Adam\"}}");
    theirs = file("theirs.json", "{\"gradient_clipping\": null, \"optimizer\": null}");
    CHECK_OK(dt_config_load(&other, mine, theirs, NULL, NULL, &err), err);
    CHECK(other.clip == 2);
    dt_config_finish(&other);
    CHECK_FAIL(dt_config_load(&other, at("no.json"), NULL, NULL, NULL, &err), err,
               "no.json: No such file");
    CHECK_EQ(err.code, DT_E_USAGE);
    CHECK_FAIL(dt_config_load(&other, NULL, NULL, NULL, NULL, &err), err, "no configuration");
    CHECK_OK(dt_config_load(&other, NULL, file("ds.json", "{\"train_batch_size\": 4}"), NULL, NULL,
                            &err),
             err);
    CHECK_EQ(other.batch.train_batch, 4);
    dt_config_finish(&other);
}

TEST(what_is_missing_is_missed_by_the_file_it_belongs_into)
{
    struct dt_config other;
    struct dt_err err;
    const char *alone = file("alone.json", "{\"train\": {\"steps\": 5}}");
    const char *theirs =
        file("theirs.json", "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {}}}");
    CHECK_FAIL(dt_config_load(&other, alone, theirs, NULL, NULL, &err), err,
               "theirs.json: scheduler.params.total_num_steps is missing");
    CHECK_FAIL(dt_config_load(&other, theirs, alone, NULL, NULL, &err), err,
               "theirs.json: scheduler.params.total_num_steps is missing");
}

TEST(a_model_s_file_takes_overrides_and_tells_what_it_leaves_out)
{
    static const char text[] =
        "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"n_head\":2,\"n_positions\":16,"
        "\"vocab_size\":320,\"resid_pdrop\":0.1,\"embd_pdrop\":0.1,\"_commit_hash\":\"x\"}";
    const char *overrides[] = {"model.config.resid_pdrop=0", "model.config.n_layer=3", NULL};
    const char *bad[] = {"model.config.n_head=3", NULL};
    struct dt_config other;
    struct dt_err err;
    file("hub.json", text);
    const char *run = file("run.json", "{\"model\": {\"config\": \"hub.json\"}}");
    load(run, NULL, NULL);
    CHECK_EQ(c.model.shape.layers, 2);
    CHECK(near((double)c.model.shape.branch_dropout, 0.1));
    CHECK(warned("/hub.json: _commit_hash is not a known setting, and is ignored"));
    load(run, NULL, overrides);
    CHECK_EQ(c.model.shape.layers, 3);
    CHECK(c.model.shape.branch_dropout == 0);
    CHECK(near((double)c.model.shape.embedding_dropout, 0.1));
    CHECK_FAIL(dt_config_load(&other, run, NULL, bad, NULL, &err), err,
               "model.config: n_embd 8 is no multiple of n_head 3");
    file("run.json", "{\"model\": {\"config\": \"nowhere.json\"}}");
    CHECK_FAIL(dt_config_load(&other, run, NULL, overrides, NULL, &err), err,
               "override \"model.config.resid_pdrop=0\": cannot open ");
}

TEST(a_folder_that_weights_come_from_is_the_model_too)
{
    const char *overrides[] = {"model.config.n_layer=3", NULL};
    struct dt_config other;
    struct dt_err err;
    const char *run = file("run.json", "{\"model\": {\"weights\": \"" CONFIGS "model\"}}");
    load(run, NULL, NULL);
    CHECK(c.has_model);
    CHECK_EQ(c.model.shape.layers, 2);
    CHECK_STR(c.model.weights, CONFIGS "model");
    load(run, NULL, overrides);
    CHECK_EQ(c.model.shape.layers, 3);
    file("own.json", "{\"model_type\":\"gpt2\",\"n_layer\":5,\"n_embd\":8,\"n_head\":2,"
                     "\"n_positions\":16,\"vocab_size\":320}");
    file("run.json", "{\"model\": {\"weights\": \"" CONFIGS "model\", \"config\": \"own.json\"}}");
    load(run, NULL, NULL);
    CHECK_EQ(c.model.shape.layers, 5);
    file("run.json", "{\"model\": {\"weights\": \"nowhere\"}}");
    CHECK_FAIL(dt_config_load(&other, run, NULL, NULL, NULL, &err), err,
               "model.weights: there is no folder ");
    const char *hub[] = {"model.weights=Qwen/Qwen3-0.6B", NULL};
    CHECK_FAIL(dt_config_load(&other, run, NULL, hub, NULL, &err), err,
               "there is no folder Qwen/Qwen3-0.6B; nothing is downloaded here: fetch a model of "
               "Hugging Face's by `hf download Qwen/Qwen3-0.6B --local-dir FOLDER`");
    static const char *const written[] = {"\"weights\"", "\"config\""};
    for (size_t i = 0; i < ROWS(written); i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"model\": {%s: \"Qwen/Qwen3-0.6B\"}}", written[i]);
        CHECK_FAIL(dt_config_load(&other, file("run.json", text), NULL, NULL, NULL, &err), err,
                   "there is no folder Qwen/Qwen3-0.6B; nothing is downloaded here: fetch ");
    }
    CHECK_OK(dt_fs_mkdir_p(at("own/model"), 0755, &err), err); /* beside the file, it is one */
    const char *beside = "{\"model\": {\"weights\": \"own/model\"}}";
    CHECK_FAIL(dt_config_load(&other, file("run.json", beside), NULL, NULL, NULL, &err), err,
               "own/model, and no `latest` that names a checkpoint; name the folder of a model");
    file("own/model/config.json", "{}");
    CHECK_FAIL(dt_config_load(&other, file("run.json", beside), NULL, NULL, NULL, &err), err,
               "own/model: the document: \"model_type\" is missing");
}

TEST(of_checkpoints_the_newest_is_the_model)
{
    char text[600];
    const char *overrides[] = {"model.config.n_layer=3", NULL};
    struct dt_err err;
    CHECK_OK(dt_fs_mkdir_p(at("saved/step-00000002"), 0755, &err), err);
    file("saved/latest", "step-00000002\n");
    file("saved/step-00000002/config.json",
         "{\"model_type\":\"gpt2\",\"n_layer\":7,\"n_embd\":8,\"n_head\":2,"
         "\"n_positions\":16,\"vocab_size\":320}");
    snprintf(text, sizeof text, "{\"model\": {\"weights\": \"%s\"}}", at("saved"));
    const char *run = file("run.json", text);
    load(run, NULL, NULL);
    CHECK_EQ(c.model.shape.layers, 7);
    load(run, NULL, overrides);
    CHECK_EQ(c.model.shape.layers, 3);
}

TEST(an_override_that_stands_for_an_option_has_its_name)
{
    struct dt_err err;
    struct dt_config other;
    const char *longer = "model.weights=\"/nowhere/"
                         "0123456789012345678901234567890123456789012345678901234567890123456789\"";
    const char *made[] = {longer, NULL};
    const char *run = file("run.json", "{\"train\": {\"steps\": 5}}");
    CHECK_FAIL(dt_config_load(&other, run, NULL, made, NULL, &err), err, "override ");
    dt_merge_rename(&err, longer, "--init-from X");
    CHECK(strstr(err.text, "--init-from X: there is no folder /nowhere/0123") == err.text);
}

TEST(yaml_is_no_configuration)
{
    struct dt_err err;
    struct dt_config other;
    const char *yaml = file("run.yaml", "model_name_or_path: m\n");
    CHECK_FAIL(dt_config_load(&other, yaml, NULL, NULL, NULL, &err), err,
               "run.yaml: a configuration is JSON, and this is YAML; one of LLaMA-Factory's is ");
    load(file("run.yaml", " {\"train\": {\"steps\": 5}}"), NULL, NULL);
}

TEST(overrides_that_are_none_are_refused)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"train.steps", "expected BLOCK.KEY=VALUE"},
        {"=3", "expected BLOCK.KEY=VALUE"},
        {".a=3", "expected BLOCK.KEY=VALUE"},
        {"train.=3", "expected BLOCK.KEY=VALUE"},
        {"train.steps.x=3", "steps is no block"},
        {"epochs=3", "epochs: there is no such setting"},
        {"trainer.epochs.most=3", "trainer.epochs.most: there is no such setting"},
        {"zero_optimization={\"stag\": 1}",
         "zero_optimization.stag: there is no such setting; did"},
        {"optimizer.params={\"lr\":1,\"lr\":2}", "lr: it is there twice"},
    };
    struct dt_err err;
    struct dt_config other;
    const char *base = file("base.json", "{\"train\": {\"steps\": 5}}");
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        const char *overrides[] = {rows[i].text, NULL};
        CHECK_FAIL(dt_config_load(&other, base, NULL, overrides, NULL, &err), err, rows[i].error);
        CHECK(strstr(err.text, "override \"") == err.text);
    }
}

TEST(what_cannot_be_is_refused_by_its_path)
{
    /* clang-format off */
    static const struct { const char *text, *error; } rows[] = {
        {"", "here.json: line 1, column 1: the JSON ends early"},
        {"[]", "here.json: a configuration is a JSON object"},
        {"{\"optimiser\": {}}", "here.json: optimiser: there is no such setting; did you mean optimizer?"},
        {"{\"lr\": 1}", "lr: there is no such setting; did you mean optimizer.params.lr?"},
        {"{\"model_type\": \"gpt2\", \"n_ctx\": 8}", "here.json: model_type: a file with this key describes a model, and not a run; write a configuration whose model.config is the name of this file"},
        {"{\"fp16\": {\"a\": 1}}", "here.json: fp16.a: there is no such setting"},
        {"{\"train\": {\"a\": 1}}", "train.a: there is no such setting"},
        {"{\"sparse_attention\": {\"mode\": \"fixed\"}}", "sparse_attention: it would change what is computed"},
        {"{\"data_efficiency\": {\"enabled\": true}}", "data_efficiency: it would change what is computed"},
        {"{\"compression_training\": {\"weight_quantization\": {}}}", "compression_training: it would change what is computed"},
        {"{\"curriculum_learning\": {\"enabled\": true}}", "curriculum_learning: it would change what is computed"},
        {"{\"torch_autocast\": {\"enabled\": true}}", "torch_autocast: it would change what is computed; write \"bf16\""},
        {"{\"gradient_clipping\": \"1e400\"}", "gradient_clipping: expected a number, found \"1e400\""},
        {"{\"gradient_clipping\": \"1.0 \"}", "gradient_clipping: expected a number, found \"1.0 \""},
        {"{\"gradient_clipping\": \"inf\"}", "gradient_clipping: expected a number, found \"inf\""},
        {"{\"stage\": 1}", "stage: there is no such setting; did you mean zero_optimization.stage?"},
        {"{\"train_batchsize\": 1}", "did you mean train_batch_size?"},
        {"{\"zero_optimization\": {\"reduce_bucketsize\": 1}}", "zero_optimization.reduce_bucketsize: there is no such setting; did you mean zero_optimization.reduce_bucket_size?"},
        {"{\"zero_optimization.stage\": 1}", "there is no such setting"},
        {"{\"train_batch_size\": 1, \"train_batch_size\": 1}", "train_batch_size: it is there twice"},
        {"{\"fp16\": {\"enabled\": true, \"enabled\": false}}", "fp16.enabled: it is there twice"},
        {"{\"train_batch_size\": 0}", "train_batch_size: expected a whole number from 1 to"},
        {"{\"train_batch_size\": 2.5}", "train_batch_size: expected a whole number, found 2.5"},
        {"{\"train_batch_size\": \"x\"}", "train_batch_size: expected a whole number, found \"x\""},
        {"{\"zero_optimization\": {\"stage\": 4}}", "zero_optimization.stage: expected a whole number from 0 to 3"},
        {"{\"zero_optimization\": 2}", "zero_optimization: expected an object"},
        {"{\"zero_optimization\": {\"stage\": \"auto\"}}", "zero_optimization.stage: \"auto\" cannot be worked out here"},
        {"{\"zero_optimization\": {\"stage3_prefetch_bucket_size\": 1, \"prefetch_bucket_size\": 1}}", "is there too; drop one"},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"nvme\"}}}", "zero_optimization.offload_optimizer.device: files as memory"},
        {"{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}}}", "offload_param.device: files as memory"},
        {"{\"zero_optimization\": {\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}}}", "offload_param wants stage 3"},
        {"{\"zero_optimization\": {\"stage\": 0, \"cpu_offload\": true}, \"train\": {\"device\": \"cuda\"}}", "offload_optimizer wants stage 1, 2 or 3 on a GPU"},
        {"{\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}}, \"train\": {\"device\": \"cuda\"}}", "zero_optimization.offload_param wants offload_optimizer beside it"},
        {"{\"activation_checkpointing\": {\"cpu_checkpointing\": true}, \"train\": {\"device\": \"cuda\"}}", "cpu_checkpointing: activations stay in a GPU's memory"},
        {"{\"zero_optimization\": {\"zero_hpz_partition_size\": 8}}", "zero_hpz_partition_size: a second set of shards"},
        {"{\"zero_optimization\": {\"zero_quantized_weights\": true}}", "zero_quantized_weights: parameters travel unquantized"},
        {"{\"zero_optimization\": {\"zero_quantized_gradients\": true}}", "zero_quantized_gradients: gradients travel"},
        {"{\"zero_optimization\": {\"load_from_fp32_weights\": false}}", "load_from_fp32_weights"},
        {"{\"elasticity\": {\"enabled\": true}}", "elasticity: train_batch_size is kept here"},
        {"{\"amp\": {\"enabled\": true}}", "amp: it belongs to another library"},
        {"{\"checkpoint\": {\"use_node_local_storage\": true}}", "use_node_local_storage: all ranks write"},
        {"{\"data_types\": {\"grad_accum_dtype\": \"fp16\"}}", "grad_accum_dtype: gradients are added up in \"fp32\", or in"},
        {"{\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}}", "here.json: fp16.enabled and bf16.enabled are both true"},
        {"{\"bf16\": {}, \"bfloat16\": {}}", "bfloat16: it is the old name of bf16"},
        {"{\"fp16\": {\"loss_scale\": -1}}", "fp16.loss_scale: expected 0"},
        {"{\"fp16\": {\"loss_scale\": true}}", "fp16.loss_scale: expected 0"},
        {"{\"fp16\": {\"fp16_master_weights_and_grads\": true}}", "master weights are kept in fp32"},
        {"{\"communication_data_type\": \"fp8\"}", "\"fp8\" is none of fp32|bf16|fp16"},
        {"{\"gradient_predivide_factor\": 0}", "gradient_predivide_factor: expected a number"},
        {"{\"fp16\": {\"enabled\": true}, \"prescale_gradients\": true, \"gradient_predivide_factor\": 8}", "gradients are divided behind the sum only"},
        {"{\"gradient_clipping\": 1e999}", "gradient_clipping: expected a number"},
        {"{\"optimizer\": {}}", "optimizer.type is missing"},
        {"{\"optimizer\": {\"type\": \"Lamb\"}}", "optimizer.type: the optimizer \"Lamb\" is not implemented; Adam and AdamW are"},
        {"{\"optimizer\": {\"type\": 3}}", "optimizer.type: expected a string"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"amsgrad\": true}}}", "amsgrad: it would change what is computed"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9]}}}", "betas: expected two numbers"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9, 1]}}}", "betas[1]: expected a number from 0 to below 1"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": {\"a\": 1, \"b\": 2}}}}", "betas: expected two numbers"},
        {"{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"auto\"}}}", "optimizer.params.lr: \"auto\" cannot be worked out here"},
        {"{\"scheduler\": {}}", "scheduler.type is missing"},
        {"{\"scheduler\": {\"type\": \"OneCycle\"}}", "scheduler.type: the scheduler \"OneCycle\" is not implemented"},
        {"{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {}}}", "total_num_steps is missing"},
        {"{\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": \"auto\"}}}", "\"auto\" is train.steps, which is not written"},
        {"{\"scheduler\": {\"type\": \"linear\"}}", "scheduler.type: linear ends with the run, and neither train.steps nor train.epochs is written"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"total_num_steps\": 5}}}", "total_num_steps: WarmupLR has no such parameter; it belongs to WarmupDecayLR, WarmupCosineLR, linear, "},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"cos_min_ratio\": 0}}}", "cos_min_ratio: WarmupLR has no such parameter; it belongs to WarmupCosineLR"},
        {"{\"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": {\"total_num_steps\": 9, \"warmup_max_lr\": 1}}}", "warmup_max_lr: WarmupCosineLR has no such parameter; it belongs to WarmupLR, WarmupDecayLR"},
        {"{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 0}}}", "warmup_num_steps: expected a whole number from 1"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"reduce_lr_on_plateau\"}}", "is not implemented; these are: WarmupLR, "},
        {"{\"scheduler\": {\"type\": \"constant_with_warmup\", \"params\": {\"warmup_ratio\": 0.1}}}", "warmup_ratio: it is a share of train.steps, which is not written"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"linear\", \"params\": {\"warmup_ratio\": 0.1, \"warmup_num_steps\": 3}}}", "warmup_num_steps and warmup_ratio are both written; drop one"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"linear\", \"params\": {\"warmup_ratio\": 10}}}", "warmup_ratio: expected a number from 0 to 1"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"linear\", \"params\": {\"num_cycles\": 2}}}", "num_cycles: linear has no such parameter; it belongs to cosine, cosine_with_restarts, cosine_with_min_lr, warmup_stable_decay"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"cosine\", \"params\": {\"min_lr\": 1e-5}}}", "min_lr: cosine has no such parameter; it belongs to cosine_with_min_lr"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"cosine\", \"params\": {\"warmup_type\": \"linear\"}}}", "warmup_type: cosine has no such parameter"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"cosine_with_min_lr\"}}", "wants min_lr, a rate, or min_lr_rate"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"cosine_with_min_lr\", \"params\": {\"min_lr\": 1e-5, \"min_lr_rate\": 0.1}}}", "and not both"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"polynomial\", \"params\": {\"lr_end\": 0.001}}}", "lr_end: 0.001 is not below optimizer.params.lr, which is 0.001"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"warmup_stable_decay\"}}", "num_decay_steps is missing"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"warmup_stable_decay\", \"params\": {\"num_decay_steps\": 5, \"warmup_type\": \"log\"}}}", "\"log\" is DeepSpeed's"},
        {"{\"train\": {\"steps\": 100}, \"scheduler\": {\"type\": \"warmup_stable_decay\", \"params\": {\"num_decay_steps\": 5, \"decay_type\": \"log\"}}}", "\"log\" is none of linear|cosine|1-sqrt"},
        {"{\"model\": {}, \"model\": {}}", "model: it is there twice"},
        {"{\"model\": {\"config\": 3}}", "model.config: expected a model's config.json"},
        {"{\"model\": {\"config\": {\"model_type\": \"bert\"}}}", "model.config.model_type: "},
        {"{\"model\": {\"config\": \"/no/such/file\"}}", "model.config: cannot open /no/such/file: No such file"},
        {"{\"model\": {\"config\": \"\"}}", "model.config: the name is empty; give a model's folder"},
        {"{\"model\": {\"weights\": \"/no/such\"}}", "model.weights: there is no folder /no/such"},
        {"{\"model\": {\"activation_checkpointing\": {\"every\": 0}}}", "model.activation_checkpointing.every: expected a whole number from 1"},
        {"{\"model\": {\"activation_checkpointing\": {\"each\": 1}}}", "model.activation_checkpointing.each: there is no such setting"},
        {"{\"model\": {\"activation_checkpointing\": 3}}", "model.activation_checkpointing: expected true, false"},
        {"{\"data\": {\"raw_width\": 3}}", "data.raw_width: expected 2 or 4"},
        {"{\"data\": {\"train\": 3}}", "data.train: expected the name of a file, or a list"},
        {"{\"data\": {\"train\": []}}", "data.train: expected the name of a file, or a list"},
        {"{\"data\": {\"train\": [\"a\", 3]}}", "data.train[1]: expected a name or an object"},
        {"{\"data\": {\"train\": [\"\"]}}", "data.train[0]: the name of a file is empty"},
        {"{\"data\": {\"train\": [{\"path\": \"a\", \"weight\": 0}]}}", "data.train[0]: its weight is not above 0"},
        {"{\"data\": {\"train\": [{\"weight\": 1}]}}", "data.train[0]"},
        {"{\"data\": {\"train\": [{\"path\": \"a\", \"wieght\": 1}]}}", "wieght"},
        {"{\"train\": {\"device\": \"tpu\"}}", "train.device: \"tpu\" is none of auto, cpu, cuda"},
        {"{\"train\": {\"collective_timeout\": \"x\"}}", "train.collective_timeout: "},
        {"{\"train\": {\"collective_timeout\": -1}}", "train.collective_timeout: expected seconds"},
        {"{\"train\": {\"dynamic_accumulation\": {\"policy\": \"x\"}}}", "train.dynamic_accumulation.policy: \"x\" is neither"},
        {"{\"train\": {\"vault\": \"everywhere\"}}", "train.vault: \"everywhere\" is none of auto|off|local|peer"},
        {"{\"train\": {\"vault\": true}}", "train.vault: "},
        {"{\"train\": {\"attention\": \"flash\"}}", "train.attention: \"flash\" is none of own|cudnn"},
        {"{\"train\": {\"attention\": true}}", "train.attention: "},
        {"{\"train\": {\"vault_every\": -1}}", "train.vault_every: "},
        {"{\"train\": {\"dynamic_accumulation\": 1}}", "train.dynamic_accumulation: expected true"},
        {"{\"train\": {\"save_every\": 5}}", "train.save_dir does not say where"},
        {"{\"train\": {\"upload_to\": \"s3://bucket\"}}", "train.save_dir does not say where checkpoints are written first"},
        {"{\"train\": {\"upload_cmd\": \"true\"}}", "train.save_dir does not say where checkpoints are written first"},
        {"{\"train\": {\"upload_to\": \"b/p\", \"save_dir\": \"d\"}}", "train.upload_to: "},
        {"{\"train\": {\"upload_cmd\": \"true\", \"upload_keep_last\": 1, \"save_dir\": \"d\"}}", "train.upload_keep_last: a command"},
        {"{\"train\": {\"upload_timeout\": 0}}", "train.upload_timeout: expected seconds"},
        {"{\"train\": {\"validate_every\": 5}}", "there is no data.validation"},
        {"{\"train\": {\"save_dir\": \"\"}}", "train.save_dir: expected the name of a folder"},
        {"{\"train\": {\"early_stop\": 2}}", "train.early_stop: there is no data.validation"},
        {"{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"early_stop\": 2}}", "train.early_stop: train.validate_every and train.validation_batches are to be above 0"},
        {"{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"early_stop\": 2.5, \"validate_every\": 1}}", "train.early_stop: expected a number of validations"},
        {"{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"early_stop\": true, \"validate_every\": 1}}", "train.early_stop: expected a number of validations"},
        {"{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"early_stop\": {\"min_delta\": 1}, \"validate_every\": 1}}", "train.early_stop: \"patience\" is missing"},
        {"{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"early_stop\": {\"patience\": 1, \"min_delta\": -1}, \"validate_every\": 1}}", "train.early_stop.min_delta: expected a number from 0"},
        {"{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"early_stop\": {\"patience\": 1, \"delta\": 1}, \"validate_every\": 1}}", "train.early_stop.delta"},
        {"{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"keep_best\": true, \"validate_every\": 1}}", "train.keep_best: train.save_dir does not say where"},
        {"{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"keep_best\": true, \"save_dir\": \"s\", \"validate_every\": 0}}", "train.keep_best: train.validate_every and"},
        {"{\"train\": 3}", "train: expected an object, found 3"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_err err;
        CHECK_FAIL(parse(rows[i].text, &err), err, rows[i].error);
        CHECK_EQ(err.code, DT_E_USAGE);
    }
}

#define MODEL                                                                                      \
    "\"model\": {\"config\": {\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_embd\": 2, "           \
    "\"n_head\": 1, "                                                                              \
    "\"n_positions\": 4, \"vocab_size\": 8}}"

TEST(what_means_nothing_here_is_warned_of_once_and_what_is_off_is_not)
{
    /* clang-format off */
    static const struct { const char *text, *warning; } rows[] = {
        {"{\"wandb\": {\"enabled\": true}}", "wandb: "},
        {"{\"wandb\": {\"enabled\": false}}", NULL},
        {"{\"autotuning\": {\"fast\": true}}", "autotuning: it has no meaning here"},
        {"{\"aio\": {\"block_size\": 1048576}}", "aio: it has no meaning here"},
        {"{\"aio\": null}", NULL},
        {"{\"dump_state\": true}", "dump_state: "},
        {"{\"dump_state\": false}", NULL},
        {"{\"elasticity\": {\"enabled\": false, \"version\": 0.1}}", NULL},
        {"{\"amp\": {\"enabled\": false}}", NULL},
        {"{\"zero_optimization\": {\"reduce_scatter\": false}}", "zero_optimization.reduce_scatter: gradients are reduced and scattered all the same"},
        {"{\"zero_optimization\": {\"zero_hpz_partition_size\": 1, \"zero_quantized_weights\": false, \"zero_quantized_gradients\": false}}", NULL},
        {"{\"zero_optimization\": {\"stage3_model_persistence_threshold\": 9223372036854775807}}", "stage3_model_persistence_threshold"},
        {"{\"zero_optimization\": {\"stage3_model_persistence_threshold\": \"auto\"}}", NULL},
        {"{\"prescale_gradients\": false, \"gradient_predivide_factor\": 4}", NULL},
        {"{\"prescale_gradients\": true, \"gradient_predivide_factor\": 4}", "gradient_predivide_factor: the sum of gradients does not overflow"},
        {"{\"optimizer\": {\"type\": \"AdamW\"}}", "weight_decay is not written and is 0"},
        {"{\"optimizer\": {\"type\": \"Adam\"}}", NULL},
        {"{\"fp16\": null, \"scheduler\": null, \"communication_data_type\": null}", NULL},
        {"{\"activation_checkpointing\": false}", NULL},
        {"{\"steps_per_print\": 5, \"train\": {\"log_every\": 4}}", "steps_per_print 5 gives way to train.log_every 4"},
        {"{\"steps_per_print\": 5, \"train\": {\"log_every\": 5}}", NULL},
        {"{\"zero_optimization\": {\"cpu_offload\": true}, \"train\": {\"device\": \"cpu\"}}", NULL},
        {"{\"zero_optimization\": {\"cpu_offload\": true}}", NULL},
        {"{\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true, \"ratio\": 1.0, \"buffer_count\": 4}}}", NULL},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": false}}}", "offload_optimizer.pin_memory: what goes between a GPU and the host is pinned always"},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.5}}}", "offload_optimizer.ratio: all of it is in the CPU's memory"},
        {"{\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\", \"buffer_count\": 8}}}", "offload_optimizer.buffer_count: it is for optimizers in files"},
        {"{\"a\": 1}", "a: there is no such setting, and it is ignored"},
        {"{\"_comment\": \"of LLaMA-Factory\"}", "_comment: there is no such setting, and it is ignored"},
        {"{\"fp16\": {\"_comment\": \"off\", \"enabled\": false}}", "fp16._comment: there is no such setting, and it is ignored"},
        {"{\"comms_config\": {\"a\": 1}}", "comms_config: it has no meaning here"},
        {"{\"monitor_config\": {\"tag\": 1}}", "monitor_config: write csv_monitor"},
        {"{\"data_efficiency\": {\"enabled\": false}}", NULL},
        {"{" MODEL ", \"optimizer\": {\"type\": \"Adam\", \"params\": {}}}", "optimizer.params.lr is not written and is 0.001"},
        {"{" MODEL ", \"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"5e-5\"}}}", NULL},
        {"{" MODEL "}", "there is no \"optimizer\" block: it is AdamW with lr 0.001 and weight_decay 0"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        struct dt_err err;
        CHECK_OK(parse(rows[i].text, &err), err);
        const char *is = dt_buf_cstr(&warnings), *line = strchr(is, '\n');
        if (!rows[i].warning)
            CHECK_STR(is, "");
        else
            CHECK(warned(rows[i].warning) && line && line[1] == '\0');
    }
}

TEST(small_choices_do_what_they_say)
{
    struct dt_err err;
    CHECK_OK(
        parse("{\"gradient_clipping\": \"5e-1\", \"zero_optimization\": {\"reduce_bucket_size\": "
              "0, \"allgather_bucket_size\": 0}}",
              &err),
        err);
    CHECK(near(c.clip, 0.5));
    CHECK_EQ(c.zero.reduce_bucket, 1); /* 0 is "no limit" of dt_zero_options */
    CHECK_EQ(c.zero.gather_bucket, 1);
    CHECK_OK(parse("{\"fp16\": {\"enabled\": true, \"loss_scale\": 128}}", &err), err);
    CHECK(!c.scaler.dynamic && c.scaler.scale == 128);
    CHECK_EQ(c.zero.comm_type, DT_F16);
    CHECK_OK(parse("{\"bf16\": {\"enabled\": true}, \"communication_data_type\": \"BF16\"}", &err),
             err);
    CHECK_EQ(c.zero.comm_type, DT_BF16);
    CHECK(!c.zero.float_sums);
    CHECK_OK(parse("{\"data_types\": {\"grad_accum_dtype\": null}}", &err), err);
    CHECK(!c.zero.float_sums);
    CHECK_OK(parse("{\"data_types\": {\"grad_accum_dtype\": \"fp32\"}}", &err), err);
    CHECK(c.zero.float_sums);
    CHECK_OK(parse("{\"zero_optimization\": {\"stage\": 3, \"overlap_comm\": false}}", &err), err);
    CHECK(!c.zero.overlap);
    CHECK_OK(
        parse(
            "{\"activation_checkpointing\": {}, \"model\": {\"activation_checkpointing\": false}}",
            &err),
        err);
    CHECK(!c.model.recompute);
    CHECK_OK(
        parse("{\"train\": {\"dynamic_accumulation\": true, \"collective_timeout\": 1.5}}", &err),
        err);
    CHECK_EQ(c.train.balance, DT_BALANCE_TIMES);
    CHECK_EQ(c.train.collective_timeout_ms, 1500);
    CHECK_OK(parse("{\"train\": {\"steps\": 400}, \"scheduler\": {\"type\": \"warmupcosinelr\", "
                   "\"params\": {\"total_num_steps\": \"auto\", \"warmup_num_steps\": \"auto\"}}}",
                   &err),
             err);
    CHECK_EQ(c.schedule.kind, DT_WARMUP_COSINE);
    CHECK_EQ(c.schedule.total_steps, 400);
    CHECK_EQ(c.schedule.warmup_steps, 40);
    CHECK(near(c.schedule.cos_min_ratio, 0.0001));
    struct dt_schedule schedule;
    dt_config_schedule(&c, 70, &schedule); /* what is written stays */
    CHECK_EQ(schedule.total_steps, 400);
    CHECK_EQ(schedule.warmup_steps, 40);
    CHECK_OK(parse("{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 5, "
                   "\"warmup_type\": \"linear\"}}}",
                   &err),
             err);
    CHECK(near(c.schedule.max_lr, 1e-3)); /* the optimizer's */
    CHECK_EQ(c.schedule.warmup_type, DT_WARMUP_LINEAR);
}

TEST(several_files_have_weights)
{
    struct dt_err err;
    static const char text[] = "{\"data\": {\"train\": [\"a.bin\", {\"path\": \"/b.bin\", "
                               "\"weight\": 0.5}, {\"path\": \"c.bin\"}]}}";
    dt_config_finish(&c);
    dt_buf_clear(&warnings);
    CHECK_OK(dt_config_parse(&c, text, strlen(text), "here.json", "some/folder", &warnings, &err),
             err);
    CHECK_EQ(c.data.train_count, 3);
    CHECK_STR(c.data.train[0].path, "some/folder/a.bin");
    CHECK_STR(c.data.train[1].path, "/b.bin");
    CHECK_STR(c.data.train[2].path, "some/folder/c.bin");
    CHECK(near(c.data.train[0].weight, 1) && near(c.data.train[1].weight, 0.5));
    CHECK(c.has_data);
}

TEST(what_follows_from_epochs_waits_for_the_data)
{
    struct dt_err err;
    struct dt_schedule s;
    CHECK_OK(parse("{\"train\": {\"epochs\": 2.5}, \"scheduler\": {\"type\": \"WarmupDecayLR\", "
                   "\"params\": {\"total_num_steps\": \"auto\", \"warmup_num_steps\": \"auto\"}}}",
                   &err),
             err);
    CHECK(near(c.train.epochs, 2.5));
    CHECK_EQ(c.train.steps, 0);
    dt_config_schedule(&c, 300, &s);
    CHECK_EQ(s.total_steps, 300);
    CHECK_EQ(s.warmup_steps, 30);
    CHECK_OK(parse("{\"train\": {\"epochs\": 3}, \"scheduler\": {\"type\": \"WarmupLR\", "
                   "\"params\": {\"warmup_num_steps\": \"auto\"}}}",
                   &err),
             err);
    dt_config_schedule(&c, 500, &s);
    CHECK_EQ(s.total_steps, 0);
    CHECK_EQ(s.warmup_steps, 50);
    CHECK_OK(parse("{\"train\": {\"epochs\": 3}, \"scheduler\": {\"type\": \"WarmupDecayLR\", "
                   "\"params\": {\"total_num_steps\": \"auto\", \"warmup_num_steps\": 7}}}",
                   &err),
             err);
    dt_config_schedule(&c, 500, &s);
    CHECK_EQ(s.total_steps, 500);
    CHECK_EQ(s.warmup_steps, 7);
    CHECK_FAIL(parse("{\"train\": {\"epochs\": 3, \"steps\": 5}}", &err), err,
               "train.steps and train.epochs are both written; drop one");
    CHECK_FAIL(parse("{\"train\": {\"epochs\": -1}}", &err), err, "train.epochs");
}

#define RULE(name, params) "\"scheduler\": {\"type\": \"" name "\", \"params\": {" params "}}}"

TEST(rules_of_hugging_face_s_have_their_defaults)
{
    struct dt_err err;
    struct dt_schedule s;
    CHECK_OK(parse("{\"train\": {\"steps\": 40}, " RULE("cosine", ""), &err), err);
    CHECK_EQ(c.schedule.kind, DT_RULE_COSINE);
    CHECK_EQ(c.schedule.total_steps, 40); /* the run's, unasked */
    CHECK_EQ(c.schedule.warmup_steps, 0);
    CHECK(near(c.schedule.cycles, 0.5) && near(c.schedule.min_ratio, 0));
    CHECK_OK(parse("{\"train\": {\"steps\": 40}, " RULE("cosine_with_restarts", ""), &err), err);
    CHECK(near(c.schedule.cycles, 1));
    CHECK_OK(parse("{\"train\": {\"steps\": 40}, " RULE("polynomial", ""), &err), err);
    CHECK(near(c.schedule.min_lr, 1e-7) && near(c.schedule.power, 1));
    CHECK_OK(
        parse("{\"train\": {\"steps\": 40}, " RULE("cosine_with_min_lr", "\"min_lr\": 2e-4"), &err),
        err);
    CHECK(near(c.schedule.min_ratio, 0.2));
    CHECK_OK(
        parse("{" RULE("warmup_stable_decay", "\"num_stable_steps\": 7, \"num_decay_steps\": 5"),
              &err),
        err); /* which has its own end */
    CHECK_EQ(c.schedule.rise, DT_RAMP_LINEAR);
    CHECK_EQ(c.schedule.fall, DT_RAMP_COSINE);
    CHECK_EQ(c.schedule.stable_steps, 7);
    CHECK_OK(parse("{\"train\": {\"steps\": 40}, " RULE("constant", "\"warmup_ratio\": 0.5"), &err),
             err);
    CHECK_EQ(c.schedule.kind, DT_SCHEDULE_CONSTANT);
    CHECK(warned("\"constant\" has no warm-up"));
    CHECK_OK(parse("{\"train\": {\"epochs\": 3}, " RULE("linear", "\"warmup_ratio\": 0.07"), &err),
             err);
    dt_config_schedule(&c, 100, &s);
    CHECK_EQ(s.total_steps, 100);
    CHECK_EQ(s.warmup_steps,
             8); /* 100 x 0.07 is more than 7 in doubles, and theirs is rounded up */
    CHECK_OK(
        parse("{\"train\": {\"steps\": 30}, " RULE("WarmupLR", "\"warmup_ratio\": 0.25"), &err),
        err);
    CHECK_EQ(c.schedule.warmup_steps, 8); /* DeepSpeed's can have it too */
}

#define VALIDATED "{\"data\": {\"validation\": \"v.bin\"}, \"train\": {\"validate_every\": 5, "

TEST(an_early_end_is_a_number_or_an_object)
{
    static const char *const without[][2] = {{"data.validation="}, {"data.validation=null"}};
    struct dt_err err;
    struct dt_config other;
    CHECK_OK(parse(VALIDATED "\"early_stop\": 3}}", &err), err);
    CHECK_EQ(c.train.patience, 3);
    CHECK(c.train.min_delta == 0 && !c.train.keep_best);
    CHECK_OK(parse(VALIDATED "\"early_stop\": {\"patience\": 2, \"min_delta\": 0.5}}}", &err), err);
    CHECK_EQ(c.train.patience, 2);
    CHECK(c.train.min_delta == 0.5);
    CHECK_OK(parse(VALIDATED "\"early_stop\": false}}", &err), err);
    CHECK_EQ(c.train.patience, 0);
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        CHECK_OK(dt_config_load(&other, CONFIGS "own.json", NULL, without[i], NULL, &err), err);
        CHECK(!other.data.validation && other.train.validate_every == 0);
        dt_config_finish(&other);
    }
}

TEST(a_sequence_is_not_longer_than_the_model_s_positions)
{
    static const char *const longer[] = {"data.sequence_length=65", NULL};
    struct dt_err err;
    struct dt_config other;
    CHECK_FAIL(dt_config_load(&other, CONFIGS "own.json", NULL, longer, NULL, &err), err,
               "data.sequence_length: 65 is more than the 64 positions of the model");
}

#define LLAMA                                                                                      \
    "\"model\": {\"config\": {\"model_type\": \"llama\", \"num_hidden_layers\": 2, "               \
    "\"hidden_size\": 8, \"intermediate_size\": 12, \"num_attention_heads\": 2, "                  \
    "\"max_position_embeddings\": 16, \"vocab_size\": 30}, \"weights\": \"base\"}, "

TEST(adapters_have_their_defaults_and_their_names)
{
    struct dt_err err;
    CHECK_OK(parse("{" LLAMA "\"train\": {\"seed\": 3}, \"lora\": {}}", &err), err);
    CHECK_EQ(c.lora.r, 8);
    CHECK(near((double)c.lora.alpha, 16) && c.lora.dropout == 0 && !c.lora.rslora);
    CHECK_EQ(__builtin_popcount(c.lora.targets), 7);
    CHECK_EQ(c.lora.seed, 3);
    CHECK_STR(c.model.weights, "base");
    CHECK_EQ(dt_config_trained_type(&c), DT_F32);
    CHECK_OK(parse("{" LLAMA "\"bf16\": {\"enabled\": true}, \"lora\": {\"r\": 2, \"alpha\": 3, "
                   "\"dropout\": 0.25, \"use_rslora\": true, \"bias\": \"none\", "
                   "\"target_modules\": [\"q_proj\", \"mlp.up_proj\"]}}",
                   &err),
             err);
    CHECK_EQ(c.lora.targets, 1u << DT_LLAMA_Q | 1u << DT_LLAMA_UP);
    CHECK(near((double)c.lora.alpha, 3) && near((double)c.lora.dropout, 0.25) && c.lora.rslora);
    CHECK_EQ(dt_config_trained_type(&c), DT_F32);
    CHECK(!c.lora.dora && c.lora.plus_ratio == 0);
    CHECK_OK(parse("{" LLAMA "\"lora\": {\"r\": 4, \"from\": \"\"}, \"dpo\": {}}", &err), err);
    CHECK(!c.lora_from && c.lora.r == 4 && !warned("the adapters of lora.from"));
    CHECK_OK(parse("{" LLAMA "\"lora\": {\"use_dora\": true, \"plus_ratio\": 16}}", &err), err);
    CHECK(c.lora.dora && near((double)c.lora.plus_ratio, 16));
    CHECK_OK(parse("{" LLAMA "\"bf16\": {\"enabled\": true}}", &err), err);
    CHECK(c.lora.r == 0 && dt_config_trained_type(&c) == DT_BF16);
}

TEST(adapters_that_cannot_be_are_refused)
{
    static const struct {
        const char *lora, *error;
    } rows[] = {
        {"\"r\": 0", "lora.r: expected a whole number from 1"},
        {"\"rank\": 4", "lora.rank: there is no such setting"},
        {"\"alpha\": 0", "lora.alpha: expected a number from"},
        {"\"dropout\": 1", "lora.dropout: expected a number from 0 to 0.99"},
        {"\"target_modules\": \"q_proj\"", "lora.target_modules: expected a list of names"},
        {"\"target_modules\": []", "lora.target_modules: expected a list of names"},
        {"\"target_modules\": [3]", "lora.target_modules[0]: expected the name"},
        {"\"target_modules\": [\"c_attn\"]",
         "lora.target_modules: \"c_attn\" is no linear layer of each block; those are "
         "self_attn.q_proj, "},
        {"\"modules_to_save\": \"lm_head\"", "lora.modules_to_save: expected a list of names"},
        {"\"modules_to_save\": [1]", "lora.modules_to_save[0]: expected the name"},
        {"\"modules_to_save\": [\"norm\"]",
         "lora.modules_to_save: \"norm\" is not trained beside adapters"},
        {"\"use_dora\": 1", "lora.use_dora: expected true or false"},
        {"\"rank_pattern\": [4]", "lora.rank_pattern: expected names of layers with numbers"},
        {"\"rank_pattern\": {\"c_attn\": 4}",
         "lora.rank_pattern: \"c_attn\" means no layer that has an adapter"},
        {"\"target_modules\": [\"q_proj\"], \"alpha_pattern\": {\"v_proj\": 4}",
         "lora.alpha_pattern: \"v_proj\" means no layer that has an adapter"},
        {"\"from\": \"/no/such\", \"rank_pattern\": {\"q_proj\": 4}",
         "lora.from: that folder says r"},
        {"\"plus_ratio\": 0", "lora.plus_ratio: expected a number from 0.001"},
        {"\"bias\": \"all\"", "lora.bias: biases are not trained"},
        {"\"from\": \"/no/such\"", "lora.from: there is no folder /no/such"},
        {"\"from\": \"/no/such\", \"r\": 3", "lora.from: that folder says r, alpha"},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        char text[700];
        struct dt_err err;
        snprintf(text, sizeof text, "{" LLAMA "\"lora\": {%s}}", rows[i].lora);
        CHECK_ROW("%s", rows[i].lora);
        CHECK_FAIL(parse(text, &err), err, rows[i].error);
        CHECK_EQ(err.code, DT_E_USAGE);
    }
}

TEST(a_block_of_adapters_is_written_so_that_it_is_read_again)
{
    struct dt_err err;
    struct dt_buf text = {0};
    CHECK_OK(
        parse("{" LLAMA "\"lora\": {\"r\": 3, \"alpha\": 0.1, \"dropout\": 0.3, "
              "\"use_rslora\": true, \"use_dora\": true, \"base\": \"nf4\", \"modules_to_save\": "
              "[\"lm_head\"], \"target_modules\": [\"q_proj\", \"down_proj\"], "
              "\"rank_pattern\": {\"down_proj\": 5}, \"alpha_pattern\": {\"q_proj\": 0.3}}}",
              &err),
        err);
    const struct dt_lora was = c.lora;
    dt_buf_put_str(&text, "{" LLAMA "\"lora\": ");
    dt_config_put_lora(&c, &text);
    dt_buf_put_str(&text, "}");
    CHECK_OK(parse(dt_buf_cstr(&text), &err), err);
    CHECK(c.lora.r == was.r && c.lora.alpha == was.alpha && c.lora.dropout == was.dropout);
    CHECK(c.lora_nf4 && c.lora.rslora && c.lora.dora && c.lora.saves_head &&
          !c.lora.saves_embedding);
    CHECK_EQ(c.lora.targets, was.targets);
    CHECK_EQ(dt_lora_share(&c.lora, 0, DT_LLAMA_DOWN).r, 5);
    CHECK_EQ(dt_lora_share(&c.lora, 0, DT_LLAMA_Q).r, 3);
    CHECK(dt_lora_share(&c.lora, 0, DT_LLAMA_Q).alpha == 0.3f);
    CHECK(dt_lora_share(&c.lora, 0, DT_LLAMA_DOWN).alpha == was.alpha);
    dt_buf_finish(&text);
}

TEST(preferences_have_their_defaults_and_their_limits)
{
    struct dt_err err;
    CHECK_OK(parse("{" LLAMA "\"lora\": {}}", &err), err);
    CHECK(!c.dpo.on);
    CHECK_OK(parse("{" LLAMA "\"lora\": {}, \"dpo\": {}}", &err), err);
    CHECK(c.dpo.on && near(c.dpo.beta, 0.1) && c.dpo.label_smoothing == 0 && c.dpo.sft == 0);
    CHECK_OK(parse("{" LLAMA "\"lora\": {}, \"dpo\": {\"beta\": 0.5, \"label_smoothing\": 0.25, "
                   "\"sft\": 2}}",
                   &err),
             err);
    CHECK(near(c.dpo.beta, 0.5) && near(c.dpo.label_smoothing, 0.25) && near(c.dpo.sft, 2));
    CHECK_OK(parse("{" LLAMA "\"dpo\": {}}", &err), err);
    CHECK(c.dpo.on && c.lora.r == 0);
    CHECK_FAIL(parse("{" LLAMA "\"lora\": {}, \"dpo\": {\"beta\": 0}}", &err), err,
               "dpo.beta: expected a number from");
    CHECK_FAIL(parse("{" LLAMA "\"lora\": {}, \"dpo\": {\"label_smoothing\": 0.6}}", &err), err,
               "dpo.label_smoothing: expected a number from 0 to 0.5");
    CHECK_FAIL(parse("{" LLAMA "\"lora\": {}, \"dpo\": {\"loss\": \"ipo\"}}", &err), err,
               "dpo.loss: there is no such setting");
}

TEST(how_ranks_come_to_attend_has_the_names_of_two_programs)
{
    static const struct {
        const char *text;
        enum dt_context_by by;
    } ways[] = {
        {"{}", DT_BY_KEYS},
        {"{\"parallel\": {\"context_by\": \"keys\"}}", DT_BY_KEYS},
        {"{\"parallel\": {\"context_by\": \"heads\"}}", DT_BY_HEADS},
        {"{\"parallel\": {\"context_by\": \"ring\"}}", DT_BY_RING},
        {"{\"parallel\": {\"cp_comm_type\": \"all_gather\"}}", DT_BY_KEYS},
        {"{\"parallel\": {\"cp_comm_type\": \"a2a\"}}", DT_BY_HEADS},
        {"{\"parallel\": {\"cp_comm_type\": \"p2p\", \"context_by\": \"ring\"}}", DT_BY_RING}};
    struct dt_err err;
    for (size_t i = 0; i < ROWS(ways); i++) {
        CHECK_ROW("%s", ways[i].text);
        CHECK_OK(parse(ways[i].text, &err), err);
        CHECK_EQ(c.parallel.context_by, ways[i].by);
    }
    CHECK_FAIL(parse("{\"parallel\": {\"cp_comm_type\": \"p2p\", \"context_by\": \"keys\"}}", &err),
               err, "parallel.context_by and parallel.cp_comm_type say different things; drop one");
}

TEST(a_later_world_may_take_another_mesh_unless_it_is_said)
{
    struct dt_err err;
    CHECK_OK(parse("{}", &err), err);
    CHECK(c.parallel.elastic);
    CHECK_OK(parse("{\"parallel\": {\"elastic\": false}}", &err), err);
    CHECK(!c.parallel.elastic);
}

TEST(how_many_share_what_has_the_names_of_four_programs)
{
    static const struct {
        const char *text;
        int tensor, pipeline, context, expert;
    } rows[] = {
        {"{}", 1, 1, 1, 1},
        {"{\"parallel\": {\"tensor\": 2, \"pipeline\": 3, \"context\": 4, \"expert\": 5}}", 2, 3, 4,
         5},
        {"{\"tensor_parallel\": {\"autotp_size\": 2}, \"pipeline\": {\"stages\": 3}, "
         "\"sequence_parallel_size\": 4, \"expert_parallel\": {\"autoep_size\": 5}}",
         2, 3, 4, 5},
        {"{\"parallel\": {\"tensor_model_parallel_size\": 2, \"pipeline_model_parallel_size\": 3, "
         "\"context_parallel_size\": 4, \"expert_model_parallel_size\": 5}}",
         2, 3, 4, 5},
        {"{\"parallelism\": {\"tensor_parallel_degree\": 2, \"pipeline_parallel_degree\": 3, "
         "\"context_parallel_degree\": 4, \"expert_parallel_degree\": 5, "
         "\"data_parallel_shard_degree\": -1}}",
         2, 3, 4, 5},
        {"{\"tensor_parallel\": {\"autotp_size\": 0}, \"sequence_parallel_size\": 0, "
         "\"parallelism\": {\"tensor_parallel_degree\": 2}}",
         2, 1, 1, 1},
        {"{\"parallel\": {\"tensor\": 2}, \"parallelism\": {\"tensor_parallel_degree\": 2}}", 2, 1,
         1, 1},
    };
    struct dt_err err;
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].text);
        CHECK_OK(parse(rows[i].text, &err), err);
        CHECK_EQ(c.parallel.tensor, rows[i].tensor);
        CHECK_EQ(c.parallel.pipeline, rows[i].pipeline);
        CHECK_EQ(c.parallel.context, rows[i].context);
        CHECK_EQ(c.parallel.expert, rows[i].expert);
    }
    CHECK_FAIL(parse("{\"parallel\": {\"context_parallel_size\": 2}, "
                     "\"parallelism\": {\"context_parallel_degree\": 4}}",
                     &err),
               err,
               "parallel.context_parallel_size is 2, and parallelism.context_parallel_degree says "
               "4; drop one of them");
    CHECK_FAIL(parse("{\"parallel\": {\"expert\": 2, \"expert_model_parallel_size\": 4}}", &err),
               err, "parallel.expert is 2, and parallel.expert_model_parallel_size says 4");
}

TEST(stages_of_a_pipeline_have_two_names)
{
    struct dt_err err;
    CHECK_OK(parse("{}", &err), err);
    CHECK_EQ(c.parallel.pipeline, 1);
    CHECK_EQ(c.parallel.schedule, DT_PIPE_1F1B);
    CHECK_EQ(c.parallel.chunks, 1);
    CHECK_OK(parse("{\"pipeline\": {\"stages\": \"auto\"}}", &err), err);
    CHECK_EQ(c.parallel.pipeline, 1);
    CHECK_OK(parse("{\"pipeline\": {\"stages\": 4, \"partition\": \"best\"}}", &err), err);
    CHECK_EQ(c.parallel.pipeline, 4);
    CHECK_OK(parse("{\"parallel\": {\"pipeline\": 3, \"schedule\": \"GPipe\"}}", &err), err);
    CHECK_EQ(c.parallel.pipeline, 3);
    CHECK_EQ(c.parallel.schedule, DT_PIPE_GPIPE);
    CHECK_FAIL(parse("{\"parallel\": {\"pipeline\": 3}, \"pipeline\": {\"stages\": 2}}", &err), err,
               "parallel.pipeline is 3, and pipeline.stages says 2; drop one of them");
    CHECK_OK(parse("{\"parallel\": {\"pipeline\": 3, \"schedule\": \"zb-h1\"}}", &err), err);
    CHECK_EQ(c.parallel.schedule, DT_PIPE_ZB_H1);
    CHECK_FAIL(parse("{\"parallel\": {\"schedule\": \"dualpipe\"}}", &err), err,
               "none of 1f1b|gpipe|interleaved|zb-h1");
}

TEST(chunks_are_of_one_schedule)
{
    static const struct {
        const char *parallel, *why;
    } rows[] = {
        {"\"pipeline\": 2, \"chunks\": 2",
         "parallel.chunks: 1F1B runs one chunk on each stage, not 2; give parallel.schedule "
         "\"interleaved\", or drop it"},
        {"\"pipeline\": 2, \"schedule\": \"gpipe\", \"chunks\": 2",
         "parallel.chunks: GPipe runs one chunk on each stage, not 2"},
        {"\"pipeline\": 2, \"schedule\": \"zb-h1\", \"chunks\": 2",
         "parallel.chunks: ZB-H1 runs one chunk on each stage, not 2"},
        {"\"pipeline\": 2, \"schedule\": \"interleaved\"", "parallel.chunks is missing"},
        {"\"pipeline\": 1, \"schedule\": \"interleaved\", \"chunks\": 2",
         "parallel.schedule: interleaved 1F1B takes 2 stages and 2 chunks a stage at least, not 1"},
        {"\"pipeline\": 2, \"schedule\": \"interleaved\", \"chunks\": 1",
         "parallel.chunks: expected a whole number from 2 to 16"},
    };
    struct dt_err err;
    char text[200];
    CHECK_OK(parse("{\"parallel\": {\"pipeline\": 2, \"schedule\": \"interleaved\", \"chunks\": "
                   "4}}",
                   &err),
             err);
    CHECK_EQ(c.parallel.schedule, DT_PIPE_INTERLEAVED);
    CHECK_EQ(c.parallel.chunks, 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].parallel);
        snprintf(text, sizeof text, "{\"parallel\": {%s}}", rows[i].parallel);
        CHECK_FAIL(parse(text, &err), err, rows[i].why);
    }
}

TEST(the_examples_are_good)
{
    static const struct {
        const char *path;
        size_t least, most; /* parameters */
    } rows[] = {
        {DT_SOURCE_ROOT "/examples/tiny.json", 1000000, 2000000},
        {DT_SOURCE_ROOT "/examples/llama-tiny.json", 1000000, 2000000},
        {DT_SOURCE_ROOT "/examples/gpt2-124m.json", 124000000, 125000000},
        {DT_SOURCE_ROOT "/examples/llama-1b.json", 1000000000, 1200000000},
    };
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].path);
        struct dt_batch b;
        struct dt_err err;
        load(rows[i].path, NULL, NULL);
        CHECK_STR(dt_buf_cstr(&warnings), "");
        CHECK(c.has_model && c.has_data);
        CHECK(dt_shape_params(&c.model.shape) >= rows[i].least);
        CHECK(dt_shape_params(&c.model.shape) <= rows[i].most);
        for (int world = 1; world <= 8; world *= 2)
            CHECK_OK(dt_batch_resolve(&b, &c.batch, world, &err), err);
    }
    static const char *const model[] = {
        "model.config={\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"hidden_size\": 8, "
        "\"intermediate_size\": 12, \"num_attention_heads\": 2, \"max_position_embeddings\": 1024, "
        "\"vocab_size\": 30}",
        "data.train=a.bin", NULL};
    load(DT_SOURCE_ROOT "/examples/lora.json", NULL, model);
    CHECK_STR(dt_buf_cstr(&warnings), "");
    CHECK(c.has_model && c.has_data && c.lora.r == 16);
    CHECK_EQ(c.lora.targets, 1u << DT_LLAMA_Q | 1u << DT_LLAMA_V);
    load(DT_SOURCE_ROOT "/examples/dpo.json", NULL, model);
    CHECK_STR(dt_buf_cstr(&warnings), "");
    CHECK(c.has_model && c.has_data && c.dpo.on);
    dt_config_finish(&c);
    dt_buf_finish(&warnings);
}
