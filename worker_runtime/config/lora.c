/* SPDX-License-Identifier: Apache-2.0 */
/* The block "lora": adapters of the model, new ones or those of a folder. */
#include "worker_runtime/config/keys.h"

#include "base/fs.h"
#include "base/json_write.h"
#include "worker_runtime/ckpt/checkpoint.h"
#include "worker_runtime/config/model_file.h"
#include "worker_runtime/no_folder.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define R 8

int dt_take_lora_targets(const struct dt_reading *r, const struct cJSON *v)
{
    bool all = cJSON_IsString(v) && strcmp(v->valuestring, "all-linear") == 0;
    if (!all && !(cJSON_IsArray(v) && v->child))
        return dt_config_refuse(r, v,
                                "expected a list of names, [\"q_proj\", \"v_proj\"], or "
                                "\"all-linear\"");
    r->draft->lora_targets = v;
    return 0;
}

int dt_take_lora_saved(const struct dt_reading *r, const struct cJSON *v)
{
    if (!cJSON_IsArray(v))
        return dt_config_refuse(r, v, "expected a list of names, [\"lm_head\"]");
    r->draft->lora_saved = v;
    return 0;
}

int dt_take_lora_ranks(const struct dt_reading *r, const struct cJSON *v)
{
    r->draft->lora_ranks = v;
    return 0;
}

int dt_take_lora_alphas(const struct dt_reading *r, const struct cJSON *v)
{
    r->draft->lora_alphas = v;
    return 0;
}

static int settle_patterns(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_lora *l = &d->c.lora;
    const struct dt_shape *s = &d->c.model.shape;
    if (d->lora_ranks && dt_lora_pattern(l, s, false, d->lora_ranks, true, r->err) < 0)
        return dt_err_wrap(r->err, "lora.rank_pattern");
    if (d->lora_alphas && dt_lora_pattern(l, s, true, d->lora_alphas, true, r->err) < 0)
        return dt_err_wrap(r->err, "lora.alpha_pattern");
    return 0;
}

static int settle_saved(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    const struct cJSON *c = d->lora_saved ? d->lora_saved->child : NULL;
    for (; c; c = c->next) {
        if (!cJSON_IsString(c))
            return dt_config_refuse(r, c, "expected the name of a module");
        if (dt_lora_save(&d->c.lora, &d->c.model.shape, c->valuestring, r->err) < 0)
            return dt_err_wrap(r->err, "lora.modules_to_save");
    }
    return 0;
}

static int settle_targets(const struct dt_reading *r)
{
    struct dt_lora *l = &r->draft->c.lora;
    const struct dt_shape *s = &r->draft->c.model.shape;
    const struct cJSON *v = r->draft->lora_targets;
    if (!cJSON_IsArray(v))
        return dt_lora_target_all(l, s, r->err);
    for (const struct cJSON *c = v->child; c; c = c->next) {
        if (!cJSON_IsString(c))
            return dt_config_refuse(r, c, "expected the name of a layer");
        if (dt_lora_target(l, s, c->valuestring, r->err) < 0)
            return dt_err_wrap(r->err, "lora.target_modules");
    }
    return 0;
}

static int no_adapters(const char *folder, struct dt_err *err)
{
    if (dt_is_missing(folder))
        return dt_no_folder(folder, err);
    return dt_err_set(err, DT_E_USAGE,
                      "%.100s has no adapter_config.json; name the folder of adapters, or the "
                      "train.save_dir of a run that trains some",
                      folder);
}

/* The adapters of FOLDER; of a run's folder, its newest checkpoint says what they are. 1: it does
 * not exist, or has none. */
static int take_adapters(const struct dt_reading *r, const char *folder)
{
    struct dt_lora *l = &r->draft->c.lora;
    struct dt_json doc = {0};
    char path[PATH_MAX], room[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/adapter_config.json",
                 dt_ckpt_weights_folder(folder, room)) >= PATH_MAX)
        return dt_err_set(r->err, DT_E_USAGE, "the path is too long");
    bool missing = !dt_fs_exists(path);
    int rc = missing ? no_adapters(folder, r->err) : dt_model_file_read(&doc, path, r->err);
    if (rc == 0 && dt_lora_read(l, &r->draft->c.model.shape, &doc, r->err) < 0)
        rc = dt_err_wrap(r->err, "%s", path);
    dt_json_finish(&doc);
    return rc < 0 && missing ? 1 : rc;
}

/* What a folder of adapters says of them is not said again. A run that goes on has them in its own
 * checkpoints, and needs that folder no longer: one that begins anew without it fails later. */
static int settle_from(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_err why = {0}, *err = r->err;
    struct dt_reading own = *r;
    const char *from = d->c.lora_from, *saves = d->c.train.save_dir;
    if (d->lora_r > 0 || d->lora_alpha > 0 || d->lora_targets || d->lora_saved || d->lora_ranks ||
        d->lora_alphas || d->lora_rslora >= 0 || d->lora_dora >= 0)
        return dt_err_set(err, DT_E_USAGE,
                          "lora.from: that folder says r, alpha, rank_pattern, alpha_pattern, "
                          "target_modules, modules_to_save, use_rslora and use_dora; drop those, "
                          "or start new adapters without it");
    int rc = take_adapters(r, from);
    own.err = &why;
    if (rc == 1 && saves && take_adapters(&own, saves) == 0) {
        dt_config_warn(r, "lora.from: there is no %s; the adapters are taken to be as in %s", from,
                       saves);
        return 0;
    }
    return rc != 0 ? dt_err_wrap(err, "lora.from") : 0;
}

/* lora.from "" is none, which an override says of a file that names one. */
static void drop_empty_folder(struct dt_config *c)
{
    if (!c->lora_from || *c->lora_from)
        return;
    free(c->lora_from);
    c->lora_from = NULL;
}

int dt_config_settle_lora(const struct dt_reading *r)
{
    struct dt_config_draft *d = r->draft;
    struct dt_lora *l = &d->c.lora;
    drop_empty_folder(&d->c);
    if (!d->lora_block || !d->c.has_model)
        return 0;
    if (d->c.lora_from) {
        if (settle_from(r) < 0)
            return -1;
    } else {
        l->r = d->lora_r > 0 ? (size_t)d->lora_r : R;
        l->alpha = d->lora_alpha > 0 ? (float)d->lora_alpha : 2 * (float)l->r;
        l->rslora = d->lora_rslora == 1;
        l->dora = d->lora_dora == 1;
        if (settle_targets(r) < 0 || settle_patterns(r) < 0 || settle_saved(r) < 0)
            return -1;
    }
    if (d->lora_dropout >= 0)
        l->dropout = (float)d->lora_dropout;
    if (d->lora_plus_ratio > 0)
        l->plus_ratio = (float)d->lora_plus_ratio;
    l->seed = d->c.train.seed;
    d->c.lora_nf4 = d->lora_base == 1;
    return 0;
}

/* -- the block as text ------------------------------------------------------------------------ */

void dt_config_put_lora(const struct dt_config *c, struct dt_buf *out)
{
    const struct dt_lora *l = &c->lora;
    const struct dt_shape *s = &c->model.shape;
    struct dt_json_writer w = {.out = out};
    dt_json_put_object(&w, NULL);
    dt_json_put_uint(&w, "r", l->r);
    dt_json_put_raw(&w, "alpha", "%.9g", (double)l->alpha);
    dt_json_put_raw(&w, "dropout", "%.9g", (double)l->dropout);
    dt_json_put_bool(&w, "use_rslora", l->rslora);
    dt_json_put_bool(&w, "use_dora", l->dora);
    dt_json_put_text(&w, "base", c->lora_nf4 ? "nf4" : "full");
    if (dt_lora_put_patterns(l, s, &w, false) < 0 || dt_lora_put_patterns(l, s, &w, true) < 0)
        out->bad = true;
    dt_lora_put_saved(l, s, &w);
    if (dt_lora_put_targets(l, s, &w) < 0)
        out->bad = true;
    dt_json_put_end(&w);
}
