/* SPDX-License-Identifier: Apache-2.0 */
/* From the draft to the configuration: defaults, those that hang on other keys, "auto", and what
 * contradicts. */
#include "worker_runtime/config/keys.h"

#include "base/clock.h"
#include "base/transfer/url.h"
#include "worker_runtime/ops/ops.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LR 1e-3
#define LOG_EVERY 10 /* DeepSpeed's documentation; its code is silent */
#define VALIDATION_BATCHES 16
#define MAX_SKIPPED_STEPS 10
#define UPLOAD_TIMEOUT (600 * DT_SECOND)
#define DPO_BETA 0.1
#define CLIP_AUTO 1.0 /* what the trainers that "auto" was made for clip at */

void dt_config_draft_init(struct dt_config_draft *d)
{
    *d = (struct dt_config_draft){
        .optimizer = DT_UNSET,
        .adam_w = DT_UNSET,
        .scheduler = DT_UNSET,
        .warmup_type = DT_UNSET,
        .lr = DT_UNSET,
        .beta1 = 0.9,
        .beta2 = 0.999,
        .eps = 1e-8,
        .weight_decay = DT_UNSET,
        .max_lr = DT_UNSET,
        .warmup_min_ratio = DT_UNSET,
        .cos_min_ratio = DT_UNSET,
        .warmup_steps = DT_UNSET,
        .total_steps = DT_UNSET,
        .warmup_ratio = DT_UNSET,
        .num_cycles = DT_UNSET,
        .power = DT_UNSET,
        .lr_end = DT_UNSET,
        .hf_min_lr = DT_UNSET,
        .min_lr_rate = DT_UNSET,
        .min_lr_ratio = DT_UNSET,
        .timescale = DT_UNSET,
        .num_decay_steps = DT_UNSET,
        .num_stable_steps = DT_UNSET,
        .decay_type = DT_UNSET,
        .min_loss_scale = 1,
        .scale_power = 16,
        .scale_window = 1000,
        .hysteresis = 2,
        .communication_type = DT_UNSET,
        .overlap = DT_UNSET,
        .predivide = 1,
        .recompute = DT_UNSET,
        .upload_keep_last = DT_UNSET,
        .steps_per_print = DT_UNSET,
        .log_every = DT_UNSET,
        .positions = DT_UNSET,
        .sequence = DT_UNSET,
        .sequence_too = DT_UNSET,
        .context_by = DT_UNSET,
        .context_by_too = DT_UNSET,
        .lora_r = DT_UNSET,
        .lora_alpha = DT_UNSET,
        .lora_dropout = DT_UNSET,
        .lora_plus_ratio = DT_UNSET,
        .lora_rslora = DT_UNSET,
        .lora_base = DT_UNSET,
        .lora_dora = DT_UNSET,
    };
    dt_zero_defaults(&d->c.zero);
    d->c.dpo.beta = DPO_BETA;
    d->c.data.shuffle = d->c.data.packing = true;
    d->c.parallel.elastic = true;
    d->c.train.keep_last = 2;
    d->c.train.max_skipped_steps = MAX_SKIPPED_STEPS;
    d->c.train.deterministic = d->c.train.cuda_graphs = true;
    d->c.train.validation_batches = VALIDATION_BATCHES;
    d->c.train.collective_timeout_ms = 600000;
    d->c.train.upload_timeout_ms = UPLOAD_TIMEOUT;
}

void dt_config_draft_finish(struct dt_config_draft *d)
{
    dt_config_finish(&d->c);
    free(d->csv_path);
    free(d->csv_job);
    free(d->device);
}

static int contradiction(const struct dt_reading *r, const char *text)
{
    return dt_err_set(r->err, DT_E_USAGE, "%s", text);
}

static int settle_rate(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    if (d->lr == DT_AUTO) {
        if (d->max_lr < 0)
            return contradiction(r, "optimizer.params.lr: \"auto\" cannot be worked out here, as "
                                    "no scheduler.params.warmup_max_lr says it; write a number");
        d->lr = d->max_lr;
    }
    d->lr_by_default = d->lr < 0;
    if (d->lr_by_default)
        d->lr = LR;
    return 0;
}

/* What a run trains with when nobody says: written files of others leave it to a program of theirs.
 */
static void say_optimizer(const struct dt_reading *r)
{
    const struct dt_config_draft *d = r->draft;
    bool rate_follows = d->scheduler == DT_SCHEDULER_DECAY || d->max_lr >= 0;
    if (!d->c.has_model)
        return;
    if (!d->optimizer_block)
        dt_config_warn(
            r, "there is no \"optimizer\" block: it is AdamW with lr %g and weight_decay 0", d->lr);
    else if (d->lr_by_default && !rate_follows)
        dt_config_warn(r, "optimizer.params.lr is not written and is %g", d->lr);
}

static int settle_optimizer(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_zero_options *z = &d->c.zero;
    if (d->optimizer_block && d->optimizer == DT_UNSET)
        return contradiction(r, "optimizer.type is missing; Adam and AdamW are implemented");
    if (settle_rate(r) < 0)
        return -1;
    say_optimizer(r);
    if (d->optimizer == DT_ADAMW && d->weight_decay < 0)
        dt_config_warn(r, "optimizer.params.weight_decay is not written and is 0, as DeepSpeed's "
                          "AdamW has it (torch's has 0.01)");
    z->beta1 = (float)d->beta1;
    z->beta2 = (float)d->beta2;
    z->eps = (float)d->eps;
    z->weight_decay = d->weight_decay < 0 ? 0 : (float)d->weight_decay;
    z->decoupled = d->optimizer != DT_ADAM || d->adam_w != 0;
    if (d->clip == DT_AUTO)
        dt_config_warn(r, "gradient_clipping: \"auto\" is %g here", CLIP_AUTO);
    d->c.clip = d->clip == DT_AUTO ? (float)CLIP_AUTO : (float)d->clip;
    return 0;
}

static void settle_scaler(struct dt_config_draft *d)
{
    struct dt_loss_scaler *s = &d->c.scaler;
    dt_loss_scaler_fixed(s, d->fp16 && d->loss_scale > 0 ? d->loss_scale : 1);
    if (!d->fp16 || d->loss_scale > 0)
        return;
    s->min_scale = d->min_loss_scale;
    s->window = d->scale_window;
    s->hysteresis = d->hysteresis;
    s->consecutive_hysteresis = d->consecutive_hysteresis;
    dt_loss_scaler_dynamic(s, ldexp(1, (int)d->scale_power));
}

static int settle_precision(const struct dt_reading *r)
{
    static const enum dt_dtype types[] = {DT_F32, DT_BF16, DT_F16};
    struct dt_config_draft *d = r->draft;
    if (d->fp16 && d->bf16)
        return contradiction(r, "fp16.enabled and bf16.enabled are both true; drop one");
    d->c.zero.model_type = d->fp16 ? DT_F16 : d->bf16 ? DT_BF16 : DT_F32;
    d->c.zero.comm_type = d->fp16 ? DT_F16 : DT_F32;
    if (d->communication_type >= 0)
        d->c.zero.comm_type = types[d->communication_type];
    d->c.train.wide_sums = d->communication_type >= 0 && d->c.zero.comm_type == DT_F32;
    settle_scaler(d);
    if (!d->prescale || d->predivide == 1)
        return 0;
    if (d->c.zero.comm_type == DT_F16)
        return contradiction(r, "gradient_predivide_factor: gradients are divided behind the sum "
                                "only; drop it, or set communication_data_type to \"bf16\" or "
                                "\"fp32\", which do not overflow");
    dt_config_warn(r, "gradient_predivide_factor: the sum of gradients does not overflow in this "
                      "communication_data_type, and is divided behind it");
    return 0;
}

static int settle_zero(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_zero_options *z = &d->c.zero;
    z->overlap = d->overlap == DT_UNSET ? z->stage == 3 : d->overlap == 1;
    /* 0 would be no limit here, and is the smallest there: what is computed with is always there,
     * and a bucket holds a unit. */
    size_t *limits[] = {&z->max_live, &z->reduce_bucket, &z->gather_bucket};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        *limits[i] = *limits[i] ? *limits[i] : 1;
    if (d->offloads_params && z->stage < 3)
        return contradiction(r, "zero_optimization.offload_param wants stage 3");
    z->offload = d->offloads;
    z->offload_params = d->offloads_params;
    d->c.offload_activations = d->offloads_activations;
    if (strcmp(d->c.train.device, "cuda") == 0)
        return dt_config_check_gpu(&d->c, r->err);
    return 0;
}

static int check_offload(const struct dt_config *c, struct dt_err *err)
{
    const struct dt_zero_options *z = &c->zero;
    if (c->offload_activations)
        return dt_err_set(err, DT_E_USAGE,
                          "activation_checkpointing.cpu_checkpointing: activations stay in a GPU's "
                          "memory; drop it, or set train.device to \"cpu\"");
    if (z->offload_params && !z->offload)
        return dt_err_set(err, DT_E_USAGE,
                          "zero_optimization.offload_param wants offload_optimizer beside it on a "
                          "GPU");
    if (z->offload && z->stage == 0)
        return dt_err_set(err, DT_E_USAGE,
                          "zero_optimization.offload_optimizer wants stage 1, 2 or 3 on a GPU: at "
                          "stage 0 each rank keeps the whole optimizer");
    if (z->offload && z->stage > 1 && c->parallel.pipeline > 1)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: zero_optimization.offload_optimizer goes with it at "
                          "stage 1 alone on a GPU; give zero_optimization.stage 1");
    return 0;
}

/* What ranks tell each other of picks is in the host's memory, and what they share in a GPU's. */
static int check_experts_there(const struct dt_config *c, struct dt_err *err)
{
    if (c->model.shape.balance_experts && c->parallel.pipeline > 1)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.pipeline: stages tell each other on CPUs alone so far which "
                          "experts were picked; drop it, set output_router_logits to false, or "
                          "train.device to \"cpu\"");
    if (c->parallel.context > 1)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.context: of a model with experts ranks share samples on CPUs "
                          "alone so far; drop it, or set train.device to \"cpu\"");
    return 0;
}

int dt_config_check_gpu(const struct dt_config *c, struct dt_err *err)
{
    size_t head_dim = c->model.shape.head_dim;
    if (c->parallel.context > 1 && c->parallel.context_by == DT_BY_RING)
        return dt_err_set(err, DT_E_USAGE,
                          "parallel.context_by: keys and values go round on CPUs alone so far; "
                          "drop it, or set train.device to \"cpu\"");
    if (c->has_model && head_dim > DT_GPU_HEAD_DIM_MOST)
        return dt_err_set(err, DT_E_USAGE,
                          "attention on a GPU takes heads of at most %d numbers, and those of this "
                          "model have %zu; set train.device to \"cpu\"",
                          DT_GPU_HEAD_DIM_MOST, head_dim);
    if (c->has_model && c->model.shape.attention_dropout > 0)
        return dt_err_set(err, DT_E_USAGE,
                          "model.config.%s: weights of attention are dropped on CPUs alone so far; "
                          "set it to 0, or train.device to \"cpu\"",
                          c->model.shape.family == DT_GPT2 ? "attn_pdrop" : "attention_dropout");
    if (c->has_model && c->model.shape.experts > 0 && check_experts_there(c, err) < 0)
        return -1;
    return check_offload(c, err);
}

static int settle_device(const struct dt_reading *r)
{
    static const char *const known[] = {"auto", "cpu", "cuda"};
    const char *device = r->draft->device ? r->draft->device : known[0];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(device, known[i]) != 0)
            continue;
        strcpy(r->draft->c.train.device, known[i]);
        return 0;
    }
    return dt_err_set(r->err, DT_E_USAGE, "train.device: \"%.40s\" is none of auto, cpu, cuda",
                      device);
}

static int settle_model(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_config *c = &d->c;
    c->model.recompute = d->recompute == DT_UNSET ? d->recompute_block : d->recompute == 1;
    c->has_data = c->data.train_count > 0;
    c->data.positions = d->positions > 0 ? (size_t)d->positions : c->model.shape.positions;
    if (c->has_model && c->data.positions > c->model.shape.positions)
        return dt_err_set(r->err, DT_E_USAGE,
                          "data.sequence_length: %zu is more than the %zu positions of the model",
                          c->data.positions, c->model.shape.positions);
    return dt_config_check_experts(r);
}

static int settle_csv(struct dt_config_draft *d)
{
    if (!d->csv)
        return 0;
    const char *path = d->csv_path && d->csv_path[0] ? d->csv_path : "csv_monitor";
    d->c.train.csv_path = strdup(path);
    d->c.train.csv_job = strdup(d->csv_job ? d->csv_job : "DeepSpeedJobName");
    return d->c.train.csv_path && d->c.train.csv_job ? 0 : -1;
}

static int settle_upload(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_config_train *t = &d->c.train;
    struct dt_url url;
    t->upload_keep_last = d->upload_keep_last == DT_UNSET ? t->keep_last : d->upload_keep_last;
    if (!t->upload_to && !t->upload_cmd)
        return 0;
    if (t->upload_to && dt_url_parse(t->upload_to, &url, r->err) < 0)
        return dt_err_wrap(r->err, "train.upload_to");
    if (!t->save_dir)
        return contradiction(r, "train.upload_to, train.upload_cmd: train.save_dir does not say "
                                "where checkpoints are written first");
    if (t->upload_cmd && d->upload_keep_last != DT_UNSET)
        return contradiction(r, "train.upload_keep_last: a command uploads and removes nothing; "
                                "drop it, or train.upload_cmd");
    return 0;
}

/* NAME of the block BLOCK is written as null. */
static bool is_null(const struct dt_reading *r, const char *block, const char *name)
{
    const struct cJSON *in = cJSON_GetObjectItemCaseSensitive(r->doc->root, block);
    return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(in, name));
}

/* data.validation "" or null is none, which an override says of a file that names one. */
static int settle_validation(const struct dt_reading *r)
{
    struct dt_config_data *data = &r->draft->c.data;
    struct dt_config_train *t = &r->draft->c.train;
    const char *judge = t->keep_best ? "train.keep_best" : "train.early_stop";
    bool off = data->validation ? !*data->validation : is_null(r, "data", "validation");
    if (off) {
        free(data->validation);
        data->validation = NULL;
        t->validate_every = 0;
    }
    if (t->validate_every > 0 && !data->validation)
        return contradiction(r, "train.validate_every: there is no data.validation");
    if (t->keep_best && !t->save_dir)
        return contradiction(r, "train.keep_best: train.save_dir does not say where");
    if ((t->keep_best || t->patience > 0) && !data->validation)
        return dt_err_set(r->err, DT_E_USAGE, "%s: there is no data.validation", judge);
    if ((t->keep_best || t->patience > 0) && (t->validate_every == 0 || t->validation_batches == 0))
        return dt_err_set(r->err, DT_E_USAGE,
                          "%s: train.validate_every and train.validation_batches are to be above 0",
                          judge);
    return 0;
}

static int settle_train(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_config_train *t = &d->c.train;
    if (d->steps_per_print > 0 && d->log_every >= 0 && d->steps_per_print != d->log_every)
        dt_config_warn(r, "steps_per_print %lld gives way to train.log_every %lld",
                       (long long)d->steps_per_print, (long long)d->log_every);
    t->log_every = d->log_every >= 0        ? d->log_every
                   : d->steps_per_print > 0 ? d->steps_per_print
                                            : LOG_EVERY;
    t->vault = (enum dt_vault_use)d->vault;
    if (t->save_dir && !*t->save_dir)
        return contradiction(r, "train.save_dir: expected the name of a folder; without this key "
                                "nothing is saved");
    if (t->save_every > 0 && !t->save_dir)
        return contradiction(r, "train.save_every: train.save_dir does not say where to");
    if (settle_validation(r) < 0 || settle_upload(r) < 0)
        return -1;
    if (settle_csv(d) < 0)
        return dt_err_set(r->err, DT_E_MEMORY, "no memory for csv_monitor");
    return 0;
}

int dt_config_settle(const struct dt_reading *r)
{
    static int (*const parts[])(const struct dt_reading *) = {
        dt_take_model_folder,
        settle_device,
        settle_optimizer,
        dt_config_settle_schedule,
        settle_precision,
        settle_zero,
        settle_model,
        dt_config_settle_lora,
        dt_config_settle_dpo,
        settle_train,
        dt_config_settle_parallel,
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](r) < 0)
            return -1;
    return 0;
}
