/* SPDX-License-Identifier: Apache-2.0 */
/* From the draft to the keys of a run: what follows from several keys, and what contradicts. */
#include "worker_runtime/llamafactory/keys.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put_text(const struct factory_reading *r, const char *path, const char *text)
{
    return factory_put(r, path, cJSON_CreateString(text));
}

static int put_number(const struct factory_reading *r, const char *path, double x)
{
    return factory_put(r, path, cJSON_CreateNumber(x));
}

static int put_flag(const struct factory_reading *r, const char *path, bool on)
{
    return factory_put(r, path, cJSON_CreateBool(on));
}

static void warn(const struct factory_reading *r, const char *text)
{
    if (r->warnings)
        dt_buf_printf(r->warnings, "%s\n", text);
}

static bool is_written(const struct factory_reading *r, const char *key)
{
    return dt_json_has(r->file->root, key);
}

/* NAMES, with commas between them, without the white space around each. */
static struct cJSON *list_of(const char *names)
{
    struct cJSON *list = cJSON_CreateArray();
    for (const char *at = names; list && *at;) {
        size_t n = strcspn(at, ",");
        const char *from = at + strspn(at, " ");
        size_t len = (size_t)(at + n - from);
        while (len > 0 && from[len - 1] == ' ')
            len--;
        char *name = strndup(from, len);
        struct cJSON *v = name && len ? cJSON_CreateString(name) : NULL;
        free(name);
        if (len && (!v || !cJSON_AddItemToArray(list, v))) {
            cJSON_Delete(v);
            cJSON_Delete(list);
            return NULL;
        }
        at += n + (at[n] == ',');
    }
    return list;
}

/* -- the stage -------------------------------------------------------------------------------- */

static int settle_stage(const struct factory_reading *r)
{
    static const struct {
        const char *name, *instead;
    } others[] = {
        {"pt", "make a file of tokens by dtrun-train tokenize --key NAME, and train on that by a "
               "configuration (--config)"},
        {"rm", "stage: dpo learns from the same pairs of answers, without a model that rewards"},
        {"ppo", "stage: dpo learns from pairs of answers, without a model that rewards"},
        {"kto", "stage: dpo learns from pairs of answers, one of them chosen and one rejected"},
    };
    struct factory_draft *d = r->draft;
    d->f.data.pairs = strcmp(d->stage, "dpo") == 0;
    if (d->f.data.pairs || strcmp(d->stage, "sft") == 0)
        return 0;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(d->stage, others[i].name) == 0)
            return factory_refuse(r, "stage", "%s is not done here, and sft and dpo are; %s",
                                  d->stage, others[i].instead);
    return factory_refuse(r, "stage", "\"%.40s\" is not done here; sft and dpo are", d->stage);
}

static bool is_same_folder(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    while (n > 1 && a[n - 1] == '/')
        n--;
    while (m > 1 && b[m - 1] == '/')
        m--;
    return n == m && strncmp(a, b, n) == 0;
}

/* What the answers of a pair are compared with, and how it is trained on. LLaMA-Factory trains on
 * pairs without dropout, whatever is written. */
static int settle_pairs(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    struct cJSON *lora = cJSON_GetObjectItemCaseSensitive(r->run->root, "lora");
    const struct cJSON *model =
        cJSON_GetObjectItemCaseSensitive(r->file->root, "model_name_or_path");
    double dropout = 0;
    if (!d->f.data.pairs)
        return 0;
    if (d->ref_model && cJSON_IsString(model) && !is_same_folder(d->ref_model, model->valuestring))
        return factory_refuse(r, "ref_model",
                              "answers are compared with the model that the run begins with, which "
                              "model_name_or_path names; remove it");
    if (factory_number(cJSON_GetObjectItemCaseSensitive(lora, "dropout"), &dropout) &&
        dropout > 0) {
        warn(r, "lora_dropout: the stage dpo trains without dropout, as LLaMA-Factory does");
        cJSON_DeleteItemFromObjectCaseSensitive(lora, "dropout");
        return put_number(r, "lora.dropout", 0);
    }
    return d->adapter ? put_number(r, "lora.dropout", 0) : 0;
}

/* -- the model -------------------------------------------------------------------------------- */

static int settle_method(const struct factory_reading *r)
{
    struct factory_draft *d = r->draft;
    bool lora = strcmp(d->finetuning, "lora") == 0;
    if (!lora && strcmp(d->finetuning, "full") != 0)
        return factory_refuse(r, "finetuning_type",
                              "\"%.40s\" is not implemented; lora and full are", d->finetuning);
    if (d->bits != 0 && (d->bits != 4 || !lora))
        return factory_refuse(r, "quantization_bit",
                              "the model that adapters are beside may have 4 bits (NF4); write 4 "
                              "with finetuning_type: lora, or remove it");
    if (d->bits == 4 && put_text(r, "lora.base", "nf4") < 0)
        return -1;
    if (!is_written(r, "model_name_or_path"))
        return factory_refuse(r, "model_name_or_path", "it is missing; name the model's folder");
    if (!d->adapter)
        return 0;
    if (!lora)
        return factory_refuse(r, "adapter_name_or_path", "it goes with finetuning_type: lora");
    if (strchr(d->adapter, ','))
        return factory_refuse(r, "adapter_name_or_path",
                              "one folder is gone on with; merge the others into their model by "
                              "dtrun-train merge");
    return put_text(r, "lora.from", d->adapter);
}

/* Whether new adapters are made: other runs have no use for what is said of them. */
static bool makes_adapters(const struct factory_draft *d)
{
    return strcmp(d->finetuning, "lora") == 0 && !d->adapter;
}

static bool has_adapters_for(const struct factory_draft *d, const struct factory_key *k)
{
    bool trains_some = makes_adapters(d) || d->adapter;
    return (!k->of_adapters || makes_adapters(d)) && (!k->of_any || trains_some);
}

static bool has_pairs_for(const struct factory_draft *d, const struct factory_key *k)
{
    return !k->of_pairs || d->f.data.pairs;
}

static int settle_adapters(const struct factory_reading *r)
{
    struct factory_draft *d = r->draft;
    if (!makes_adapters(d))
        return 0;
    bool all = strcmp(d->targets, "all") == 0;
    if (!d->targets[strspn(d->targets, " ,")])
        return factory_refuse(r, "lora_target",
                              "it names no layer; write all, or names of layers with commas "
                              "between them, such as q_proj,v_proj");
    if (factory_put(r, "lora.target_modules",
                    all ? cJSON_CreateString("all-linear") : list_of(d->targets)) < 0)
        return -1;
    return d->saved ? factory_put(r, "lora.modules_to_save", list_of(d->saved)) : 0;
}

/* Keys that are written, and that the run HAS nothing for. */
static void warn_of_unused(const struct factory_reading *r,
                           bool (*has)(const struct factory_draft *, const struct factory_key *),
                           const char *why)
{
    struct dt_buf unused = {0};
    for (const struct factory_key *k = factory_keys; k->name; k++)
        if (is_written(r, k->name) && !has(r->draft, k))
            dt_buf_printf(&unused, "%s%s", unused.len ? ", " : "", k->name);
    if (unused.len && r->warnings)
        dt_buf_printf(r->warnings, "%s: %s, and it is ignored\n", dt_buf_cstr(&unused), why);
    dt_buf_finish(&unused);
}

/* Keys that stand for one of ours each. */
static int settle_same(const struct factory_reading *r)
{
    int rc = 0;
    warn_of_unused(r, has_adapters_for, "no new adapters are made");
    warn_of_unused(r, has_pairs_for, "the stage is sft");
    for (const struct factory_key *k = factory_keys; k->name && rc == 0; k++) {
        bool written = is_written(r, k->name);
        bool useful = has_adapters_for(r->draft, k) && has_pairs_for(r->draft, k);
        const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(r->file->root, k->name);
        if (useful && k->kind == FACTORY_TO && (written || k->fallback))
            rc = factory_put(r, k->to,
                             written ? cJSON_Duplicate(v, true) : cJSON_Parse(k->fallback));
    }
    return rc;
}

/* -- training --------------------------------------------------------------------------------- */

static int settle_optimizer(const struct factory_reading *r)
{
    /* They differ in how they compute, and not in what. */
    static const char *const known[] = {
        "adamw_torch",        "adamw_torch_fused", "adamw_hf",
        "adamw_apex_fused",   "adamw_torch_xla",   "adamw_torch_npu_fused",
        "adamw_anyprecision", "paged_adamw_32bit", "paged_adamw"};
    const struct factory_draft *d = r->draft;
    const double betas[] = {d->beta1, d->beta2};
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found = found || strcmp(d->optimizer, known[i]) == 0;
    if (!found)
        return factory_refuse(r, "optim", "\"%.40s\" is not implemented; adamw_torch is",
                              d->optimizer);
    return put_text(r, "optimizer.type", "AdamW") < 0
               ? -1
               : factory_put(r, "optimizer.params.betas", cJSON_CreateDoubleArray(betas, 2));
}

static int settle_steps(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    if (d->max_steps > 0)
        return put_number(r, "train.steps", (double)d->max_steps);
    if (!(d->epochs > 0))
        return factory_refuse(r, "num_train_epochs",
                              "it is 0, and max_steps is %lld, so there is nothing to train; write "
                              "a number above 0 for one of them",
                              (long long)d->max_steps);
    return put_number(r, "train.epochs", d->epochs);
}

/* A number of steps counts more than a share of them, and newer trainers take such a share under
 * the name of the number. */
static int settle_warmup(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    bool share = d->warmup_steps > 0 && d->warmup_steps < 1;
    if (d->warmup_steps >= 1)
        return put_number(r, "scheduler.params.warmup_num_steps", d->warmup_steps);
    return put_number(r, "scheduler.params.warmup_ratio",
                      share ? d->warmup_steps : d->warmup_ratio);
}

static int settle_schedule(const struct factory_reading *r)
{
    const char *type = r->draft->schedule;
    if (put_text(r, "scheduler.type", type) < 0)
        return -1;
    return strcmp(type, "constant") == 0 ? 0 : settle_warmup(r);
}

/* fp16 as torch's GradScaler begins with it; a DeepSpeed file has its own scaler. */
static int settle_precision(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    if (d->bf16 && d->fp16)
        return factory_refuse(r, "bf16", "fp16 is true as well; drop one");
    if (d->bf16)
        return put_flag(r, "bf16.enabled", true);
    if (!d->fp16)
        return 0;
    if (put_flag(r, "fp16.enabled", true) < 0)
        return -1;
    if (d->deepspeed)
        return 0;
    return put_number(r, "fp16.initial_scale_power", 16) < 0 ||
                   put_number(r, "fp16.loss_scale_window", 2000) < 0 ||
                   put_number(r, "fp16.hysteresis", 1) < 0
               ? -1
               : 0;
}

/* -- data ------------------------------------------------------------------------------------- */

/* Of a pair its two answers are trained on, and a sample holds one pair. */
static int check_pairs(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    const struct {
        const char *key;
        bool on;
    } rows[] = {{"packing", d->f.data.packing},
                {"neat_packing", d->neat_packing},
                {"train_on_prompt", d->f.data.train_on_prompt},
                {"mask_history", d->f.data.mask_history}};
    for (size_t i = 0; d->f.data.pairs && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].on)
            return factory_refuse(r, rows[i].key,
                                  "it is for the stage sft; in the stage dpo a sample is one pair, "
                                  "and its two answers are trained on");
    return 0;
}

static int settle_data(const struct factory_reading *r)
{
    struct factory_draft *d = r->draft;
    struct dt_factory_data *of = &d->f.data;
    if (!of->dataset || !*of->dataset)
        return factory_refuse(r, "dataset", "it is missing; name a dataset of dataset_info.json");
    if (!of->template)
        return factory_refuse(r, "template", "it is missing; name that of the model");
    if (check_pairs(r) < 0)
        return -1;
    if (of->eval_dataset && of->validation > 0)
        return factory_refuse(r, "val_size", "eval_dataset says what is validated on; drop one");
    if (of->train_on_prompt && of->mask_history)
        return factory_refuse(r, "mask_history",
                              "train_on_prompt trains on all of a conversation; drop one");
    if (is_written(r, "packing") && of->packing && !d->neat_packing)
        return factory_refuse(r, "packing",
                              "packed conversations do not see each other here; write "
                              "neat_packing: true beside it, which asks for that");
    of->packing = of->packing || d->neat_packing;
    return put_flag(r, "data.packing", of->packing) < 0 ||
                   put_flag(r, "data.shuffle", !d->no_shuffle) < 0
               ? -1
               : 0;
}

/* Everything that is set aside is validated on. */
static int settle_validation(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    bool there = d->f.data.eval_dataset || d->f.data.validation > 0;
    bool by_steps = strcmp(d->eval_strategy, "steps") == 0;
    if (!by_steps && strcmp(d->eval_strategy, "no") != 0 && strcmp(d->eval_strategy, "epoch") != 0)
        return factory_refuse(r, "eval_strategy", "\"%.40s\" is none of no, steps, epoch",
                              d->eval_strategy);
    if (!there)
        return by_steps ? factory_refuse(r, "eval_strategy",
                                         "there is nothing to validate on; write val_size, or "
                                         "eval_dataset")
                        : 0;
    if (strcmp(d->eval_strategy, "epoch") == 0)
        warn(r, "eval_strategy: epochs are not validated one by one, and the run is when it ends; "
                "write steps, and eval_steps");
    if (by_steps && put_number(r, "train.validate_every",
                               (double)(d->eval_steps ? d->eval_steps : d->logging_steps)) < 0)
        return -1;
    return put_number(r, "train.validation_batches", 1e9);
}

/* -- folders ---------------------------------------------------------------------------------- */

static int settle_saving(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    struct cJSON *train = cJSON_GetObjectItemCaseSensitive(r->run->root, "train");
    if (!is_written(r, "output_dir"))
        return factory_refuse(r, "output_dir", "it is missing; name a folder for checkpoints");
    if (strcmp(d->save_strategy, "steps") == 0)
        return 0;
    if (strcmp(d->save_strategy, "no") != 0 && strcmp(d->save_strategy, "epoch") != 0)
        return factory_refuse(r, "save_strategy", "\"%.40s\" is none of no, steps, epoch",
                              d->save_strategy);
    if (strcmp(d->save_strategy, "epoch") == 0)
        warn(r,
             "save_strategy: epochs are not saved one by one, and the run is when it ends; write "
             "steps, and save_steps");
    cJSON_DeleteItemFromObjectCaseSensitive(train, "save_every");
    return put_number(r, "train.save_every", 0);
}

/* A run that does not overwrite its folder goes on from there, as ours do. */
static int settle_resume(const struct factory_reading *r)
{
    struct factory_draft *d = r->draft;
    const char *from = d->resume_from;
    if (from && strcmp(from, "no") != 0)
        from = strcmp(from, "yes") == 0 ? "auto" : from;
    else
        from = d->overwrite ? "none" : NULL;
    d->f.resume = from ? strdup(from) : NULL;
    return from && !d->f.resume ? dt_err_set(r->err, DT_E_MEMORY, "no memory for %s", from) : 0;
}

static int settle_rest(const struct factory_reading *r)
{
    const struct factory_draft *d = r->draft;
    if (d->on_cpu && put_text(r, "train.device", "cpu") < 0)
        return -1;
    return put_number(r, "train.log_every", (double)d->logging_steps) < 0 ||
                   put_flag(r, "model.activation_checkpointing", !d->no_recompute) < 0
               ? -1
               : 0;
}

int factory_settle(const struct factory_reading *r)
{
    static int (*const parts[])(const struct factory_reading *) = {
        settle_stage,      settle_method, settle_same,     settle_adapters,  settle_pairs,
        settle_optimizer,  settle_steps,  settle_schedule, settle_precision, settle_data,
        settle_validation, settle_saving, settle_resume,   settle_rest,
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i](r) < 0)
            return -1;
    return 0;
}
