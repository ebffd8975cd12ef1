/* SPDX-License-Identifier: Apache-2.0 */
/* adapter_config.json, as peft writes and reads it. */
#include "worker_runtime/model/lora.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"

static void put_target(void *writer, const char *name)
{
    dt_json_put_text(writer, NULL, name);
}

/* A float in as few digits as give it again. */
static void put_pattern(void *writer, const char *pattern, double number)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        double off = (double)strtof(text, NULL) - number;
        if (!(off < 0 || off > 0))
            break;
    }
    dt_json_put_raw(writer, pattern, "%s", text);
}

int dt_lora_put_patterns(const struct dt_lora *l, const struct dt_shape *s,
                         struct dt_json_writer *w, bool alphas)
{
    dt_json_put_object(w, alphas ? "alpha_pattern" : "rank_pattern");
    int rc = dt_lora_each_pattern(l, s, alphas, put_pattern, w, NULL);
    dt_json_put_end(w);
    return rc;
}

void dt_lora_put_saved(const struct dt_lora *l, const struct dt_shape *s, struct dt_json_writer *w)
{
    dt_json_put_array(w, "modules_to_save");
    if (l->saves_embedding)
        dt_json_put_text(w, NULL, dt_lora_embedding(s));
    if (l->saves_head)
        dt_json_put_text(w, NULL, "lm_head");
    dt_json_put_end(w);
}

int dt_lora_put_targets(const struct dt_lora *l, const struct dt_shape *s, struct dt_json_writer *w)
{
    dt_json_put_array(w, "target_modules");
    int rc = dt_lora_each_target(l, s, put_target, w, NULL);
    dt_json_put_end(w);
    return rc;
}

/* In the order of their names, as peft has them. */
void dt_lora_write(const struct dt_lora *l, const struct dt_shape *s, const char *base,
                   struct dt_buf *out)
{
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED, .lines = 2};
    dt_json_put_object(&w, NULL);
    if (dt_lora_put_patterns(l, s, &w, true) < 0)
        out->bad = true;
    dt_json_put_text(&w, "base_model_name_or_path", base);
    dt_json_put_text(&w, "bias", "none");
    dt_json_put_bool(&w, "fan_in_fan_out", s->family == DT_GPT2);
    dt_json_put_bool(&w, "inference_mode", true);
    dt_json_put_bool(&w, "init_lora_weights", true);
    dt_json_put_null(&w, "layers_pattern");
    dt_json_put_null(&w, "layers_to_transform");
    dt_json_put_number(&w, "lora_alpha", (double)l->alpha);
    dt_json_put_raw(&w, "lora_dropout", "%.7g", (double)l->dropout);
    if (l->saves_embedding || l->saves_head)
        dt_lora_put_saved(l, s, &w);
    else
        dt_json_put_null(&w, "modules_to_save");
    dt_json_put_text(&w, "peft_type", "LORA");
    dt_json_put_uint(&w, "r", l->r);
    if (dt_lora_put_patterns(l, s, &w, false) < 0)
        out->bad = true;
    if (dt_lora_put_targets(l, s, &w) < 0)
        out->bad = true;
    dt_json_put_text(&w, "task_type", "CAUSAL_LM");
    dt_json_put_bool(&w, "use_dora", l->dora);
    dt_json_put_bool(&w, "use_rslora", l->rslora);
    dt_json_put_end(&w);
    dt_buf_put_u8(out, '\n');
}

/* What has no effect: null, false, nothing in it, or the word for that. */
static bool is_off(const struct cJSON *v)
{
    if (cJSON_IsArray(v) || cJSON_IsObject(v))
        return !v->child;
    if (cJSON_IsString(v))
        return strcmp(v->valuestring, "none") == 0;
    return !v || cJSON_IsNull(v) || cJSON_IsFalse(v);
}

static int refuse_others(const struct dt_json *doc, struct dt_err *err)
{
    static const char *const ours_is_off[] = {
        "alora_invocation_tokens",
        "bias",
        "exclude_modules",
        "layer_replication",
        "layers_to_transform",
        "lora_bias",
        "target_parameters",
        "trainable_token_indices",
        "use_qalora",
    };
    for (size_t i = 0; i < sizeof ours_is_off / sizeof *ours_is_off; i++)
        if (!is_off(cJSON_GetObjectItemCaseSensitive(doc->root, ours_is_off[i])))
            return dt_err_set(err, DT_E_USAGE,
                              "%s: adapters with it are not implemented; LoRA, rsLoRA and DoRA are",
                              ours_is_off[i]);
    return 0;
}

/* Some ways to begin take a part of the model away, which the adapters then stand for: they are of
 * no use with the model as its folder has it. */
static int check_beginning(const struct dt_json *doc, struct dt_err *err)
{
    static const char *const leave_the_model[] = {"gaussian", "eva", "orthogonal"};
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(doc->root, "init_lora_weights");
    if (!cJSON_IsString(v))
        return 0;
    for (size_t i = 0; i < sizeof leave_the_model / sizeof *leave_the_model; i++)
        if (strcmp(v->valuestring, leave_the_model[i]) == 0)
            return 0;
    return dt_err_set(err, DT_E_USAGE,
                      "init_lora_weights: adapters that begin as \"%.40s\" change the model that "
                      "they are beside; let peft convert them to plain LoRA",
                      v->valuestring);
}

static int read_targets(struct dt_lora *l, const struct dt_shape *s, const struct dt_json *doc,
                        struct dt_err *err)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(doc->root, "target_modules");
    l->targets = 0;
    if (cJSON_IsString(v) && strcmp(v->valuestring, "all-linear") == 0)
        return dt_lora_target_all(l, s, err);
    if (!cJSON_IsArray(v) || !v->child)
        return dt_err_set(err, DT_E_USAGE,
                          "target_modules: expected a list of names, or \"all-linear\"");
    for (const struct cJSON *c = v->child; c; c = c->next) {
        if (!cJSON_IsString(c))
            return dt_err_set(err, DT_E_USAGE, "target_modules: expected names");
        if (dt_lora_target(l, s, c->valuestring, err) < 0)
            return dt_err_wrap(err, "target_modules");
    }
    return 0;
}

/* Patterns may well be of layers that have no adapter, which peft takes no notice of. */
static int read_patterns(struct dt_lora *l, const struct dt_shape *s, const struct dt_json *doc,
                         struct dt_err *err)
{
    static const char *const names[] = {"rank_pattern", "alpha_pattern"};
    for (int i = 0; i < 2; i++) {
        const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(doc->root, names[i]);
        if (!is_off(v) && dt_lora_pattern(l, s, i == 1, v, false, err) < 0)
            return dt_err_wrap(err, "%s", names[i]);
    }
    return 0;
}

static int read_saved(struct dt_lora *l, const struct dt_shape *s, const struct dt_json *doc,
                      struct dt_err *err)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(doc->root, "modules_to_save");
    l->saves_embedding = l->saves_head = false;
    if (is_off(v))
        return 0;
    if (!cJSON_IsArray(v))
        return dt_err_set(err, DT_E_USAGE, "modules_to_save: expected a list of names");
    for (const struct cJSON *c = v->child; c; c = c->next)
        if (dt_lora_save(l, s, cJSON_IsString(c) ? c->valuestring : "", err) < 0)
            return dt_err_wrap(err, "modules_to_save");
    return 0;
}

/* peft's defaults, for what is absent. */
static int read_numbers(struct dt_lora *l, const struct dt_json *doc, struct dt_err *err)
{
    int64_t r = 8;
    double alpha = 8, dropout = 0;
    bool rslora = false, dora = false;
    if (dt_json_has(doc->root, "r") &&
        dt_json_int(doc, NULL, "r", 1, DT_LORA_RANK_MOST, &r, err) < 0)
        return -1;
    if (dt_json_has(doc->root, "lora_alpha") &&
        dt_json_number(doc, NULL, "lora_alpha", &alpha, err) < 0)
        return -1;
    if (dt_json_has(doc->root, "lora_dropout") &&
        dt_json_number(doc, NULL, "lora_dropout", &dropout, err) < 0)
        return -1;
    if (dt_json_has(doc->root, "use_rslora") &&
        dt_json_bool(doc, NULL, "use_rslora", &rslora, err) < 0)
        return -1;
    if (dt_json_has(doc->root, "use_dora") && dt_json_bool(doc, NULL, "use_dora", &dora, err) < 0)
        return -1;
    if (!(alpha > 0 && alpha <= DT_LORA_ALPHA_MOST) ||
        !(dropout >= 0 && dropout <= DT_DROPOUT_MOST))
        return dt_err_set(err, DT_E_USAGE, "lora_alpha %g or lora_dropout %g cannot be", alpha,
                          dropout);
    l->r = (size_t)r;
    l->alpha = (float)alpha;
    l->dropout = (float)dropout;
    l->rslora = rslora;
    l->dora = dora;
    return 0;
}

int dt_lora_read(struct dt_lora *l, const struct dt_shape *s, const struct dt_json *doc,
                 struct dt_err *err)
{
    const char *type;
    if (dt_json_string(doc, NULL, "peft_type", &type, err) < 0)
        return -1;
    if (strcmp(type, "LORA") != 0)
        return dt_err_set(err, DT_E_USAGE, "peft_type: \"%.40s\" is not LORA", type);
    if (s->experts > 0)
        return dt_err_set(err, DT_E_USAGE,
                          "they are adapters of a model with experts, which are not taken so far");
    if (refuse_others(doc, err) < 0 || check_beginning(doc, err) < 0 ||
        read_numbers(l, doc, err) < 0)
        return -1;
    dt_lora_finish(l);
    if (read_targets(l, s, doc, err) < 0 || read_patterns(l, s, doc, err) < 0)
        return -1;
    return read_saved(l, s, doc, err);
}
