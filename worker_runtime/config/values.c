/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are more than a number, a flag or a word of a list. */
#include "base/str.h"
#include "worker_runtime/config/keys.h"
#include "worker_runtime/config/model_file.h"
#include "worker_runtime/no_folder.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_auto(const struct cJSON *v)
{
    return cJSON_IsString(v) && strcmp(v->valuestring, "auto") == 0;
}

const char *dt_config_text_of(const struct dt_reading *r, const struct cJSON *v)
{
    if (cJSON_IsString(v))
        return v->valuestring;
    dt_config_refuse(r, v, "expected a string");
    return NULL;
}

int dt_take_betas(const struct dt_reading *r, const struct cJSON *v)
{
    double *out[] = {&r->draft->beta1, &r->draft->beta2};
    if (is_auto(v))
        return 0;
    if (cJSON_GetArraySize(v) != 2 || !cJSON_IsArray(v))
        return dt_config_refuse(r, v, "expected two numbers, as [0.9, 0.999]");
    for (int i = 0; i < 2; i++) {
        const struct cJSON *beta = cJSON_GetArrayItem(v, i);
        if (!cJSON_IsNumber(beta) || !(beta->valuedouble >= 0 && beta->valuedouble < 1))
            return dt_config_refuse(r, beta, "expected a number from 0 to below 1");
        *out[i] = beta->valuedouble;
    }
    return 0;
}

/* Of what a device computes in fewer bits; on others they are floats in any case. */
int dt_take_sum_type(const struct dt_reading *r, const struct cJSON *v)
{
    const char *type;
    if (is_auto(v) || cJSON_IsNull(v))
        return 0;
    type = dt_config_text_of(r, v);
    if (!type)
        return -1;
    if (strcasecmp(type, "fp32") != 0 && strcasecmp(type, "bf16") != 0)
        return dt_config_refuse(r, v,
                                "gradients are added up in \"fp32\", or in \"bf16\" where a GPU "
                                "computes in it, not in \"%.40s\"; write one of these",
                                type);
    r->draft->c.zero.float_sums = strcasecmp(type, "fp32") == 0;
    return 0;
}

int dt_take_optimizer_type(const struct dt_reading *r, const struct cJSON *v)
{
    const char *type = dt_config_text_of(r, v);
    if (!type)
        return -1;
    if (strcasecmp(type, "adam") == 0)
        r->draft->optimizer = DT_ADAM;
    else if (strcasecmp(type, "adamw") == 0)
        r->draft->optimizer = DT_ADAMW;
    else
        return dt_config_refuse(
            r, v, "the optimizer \"%.40s\" is not implemented; Adam and AdamW are", type);
    return 0;
}

int dt_take_loss_scale(const struct dt_reading *r, const struct cJSON *v)
{
    if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble) || v->valuedouble < 0)
        return dt_config_refuse(r, v, "expected 0, for a scale that adapts itself, or a number");
    r->draft->loss_scale = v->valuedouble;
    return 0;
}

int dt_take_old_zero(const struct dt_reading *r, const struct cJSON *v)
{
    if (!cJSON_IsBool(v))
        return dt_config_refuse(r, v, "expected an object, as {\"stage\": 2}");
    r->draft->c.zero.stage = cJSON_IsTrue(v);
    return 0;
}

/* A device's name, or the flag of an older spelling. */
static int take_device(const struct dt_reading *r, const struct cJSON *v, bool *to_cpu)
{
    const char *device = cJSON_IsTrue(v)    ? "cpu"
                         : cJSON_IsFalse(v) ? "none"
                                            : dt_config_text_of(r, v);
    if (!device)
        return -1;
    if (strcmp(device, "nvme") == 0)
        return dt_config_refuse(r, v, "files as memory are not implemented; write \"cpu\"");
    if (strcmp(device, "cpu") == 0)
        *to_cpu = true;
    else if (strcmp(device, "none") != 0 && strcmp(device, "auto") != 0)
        return dt_config_refuse(r, v, "\"%.40s\" is none of none, cpu, nvme", device);
    return 0;
}

int dt_take_offload(const struct dt_reading *r, const struct cJSON *v)
{
    return take_device(r, v, &r->draft->offloads);
}

int dt_take_offload_params(const struct dt_reading *r, const struct cJSON *v)
{
    return take_device(r, v, &r->draft->offloads_params);
}

int dt_take_no_checkpointing(const struct dt_reading *r, const struct cJSON *v)
{
    if (!cJSON_IsBool(v))
        return dt_config_refuse(r, v, "expected an object, or false");
    r->draft->recompute_block = cJSON_IsTrue(v);
    return 0;
}

int dt_take_recompute(const struct dt_reading *r, const struct cJSON *v)
{
    static const char *const names[] = {"every", NULL};
    int64_t every;
    if (cJSON_IsBool(v)) {
        r->draft->recompute = cJSON_IsTrue(v);
        return 0;
    }
    if (!cJSON_IsObject(v))
        return dt_config_refuse(r, v, "expected true, false, or {\"every\": blocks}");
    if (dt_json_only(r->doc, v, names, r->err) < 0 ||
        dt_json_int(r->doc, v, "every", 1, 4096, &every, r->err) < 0)
        return -1;
    r->draft->recompute = true;
    r->draft->c.model.recompute_every = (size_t)every;
    return 0;
}

/* OBJECT (NULL: the root) of DOC, which is called NAME. */
static int read_model(const struct dt_reading *r, const struct dt_json *doc,
                      const struct cJSON *object, const char *name)
{
    struct dt_buf notes = {0};
    int rc = dt_shape_read(&r->draft->c.model.shape, doc, object, &notes, r->err);
    char *rest = notes.len ? (char *)dt_buf_cstr(&notes) : NULL, *line;
    while (rc == 0 && rest && (line = strsep(&rest, "\n")))
        if (*line)
            dt_config_warn(r, "%s: %s", name, line);
    dt_buf_finish(&notes);
    return rc;
}

static int read_model_file(const struct dt_reading *r, const char *path)
{
    struct dt_json doc;
    int rc = dt_model_file_read(&doc, path, r->err);
    if (rc == 0 && read_model(r, &doc, NULL, path) < 0)
        rc = dt_err_wrap(r->err, "%s", path);
    dt_json_finish(&doc);
    return rc;
}

int dt_take_model(const struct dt_reading *r, const struct cJSON *v)
{
    int rc;
    if (cJSON_IsObject(v))
        rc = read_model(r, r->doc, v, "model.config");
    else if (cJSON_IsString(v))
        rc = read_model_file(r, v->valuestring) < 0 ? dt_err_wrap(r->err, "model.config") : 0;
    else
        return dt_config_refuse(r, v, "expected a model's config.json, as an object or a path");
    r->draft->c.has_model = rc == 0;
    return rc;
}

int dt_take_model_folder(const struct dt_reading *r)
{
    struct dt_config *c = &r->draft->c;
    if (c->has_model || !c->model.weights || !c->model.weights[0])
        return 0;
    int rc = dt_is_missing(c->model.weights) ? dt_no_folder(c->model.weights, r->err)
                                             : read_model_file(r, c->model.weights);
    if (rc < 0)
        return dt_err_wrap(r->err, "model.weights");
    c->has_model = true;
    return 0;
}

static int add_file(const struct dt_reading *r, const struct cJSON *v, const char *path,
                    double weight)
{
    struct dt_config_data *d = &r->draft->c.data;
    if (!*path)
        return dt_config_refuse(r, v, "the name of a file is empty");
    struct dt_config_file *more = realloc(d->train, (d->train_count + 1) * sizeof *more);
    if (!more)
        return dt_err_set(r->err, DT_E_MEMORY, "no memory to read the configuration");
    d->train = more;
    d->train[d->train_count] = (struct dt_config_file){.path = strdup(path), .weight = weight};
    if (!d->train[d->train_count].path)
        return dt_err_set(r->err, DT_E_MEMORY, "no memory to read the configuration");
    d->train_count++;
    return 0;
}

static int take_weighted(const struct dt_reading *r, const struct cJSON *v)
{
    static const char *const names[] = {"path", "weight", NULL};
    const char *path;
    double weight = 1;
    if (dt_json_only(r->doc, v, names, r->err) < 0 ||
        dt_json_string(r->doc, v, "path", &path, r->err) < 0)
        return -1;
    if (dt_json_has(v, "weight") && dt_json_number(r->doc, v, "weight", &weight, r->err) < 0)
        return -1;
    if (!(weight > 0 && weight <= 1e6))
        return dt_config_refuse(r, v, "its weight is not above 0, or above a million");
    return add_file(r, v, path, weight);
}

int dt_take_train(const struct dt_reading *r, const struct cJSON *v)
{
    if (cJSON_IsString(v)) /* "" is none */
        return v->valuestring[0] ? add_file(r, v, v->valuestring, 1) : 0;
    if (!cJSON_IsArray(v) || !v->child)
        return dt_config_refuse(r, v,
                                "expected the name of a file, or a list of names and of objects "
                                "as {\"path\": \"a.bin\", \"weight\": 2}");
    for (const struct cJSON *f = v->child; f; f = f->next) {
        int rc = cJSON_IsString(f)   ? add_file(r, f, f->valuestring, 1)
                 : cJSON_IsObject(f) ? take_weighted(r, f)
                                     : dt_config_refuse(r, f, "expected a name or an object");
        if (rc < 0)
            return -1;
    }
    return 0;
}

int dt_take_raw_width(const struct dt_reading *r, const struct cJSON *v)
{
    double width = cJSON_IsNumber(v) ? v->valuedouble : -1;
    if (width != 0 && width != 2 && width != 4)
        return dt_config_refuse(r, v, "expected 2 or 4 bytes a token, or 0: files have a header");
    r->draft->c.data.raw_width = (int)width;
    return 0;
}

static int take_duration(const struct dt_reading *r, const struct cJSON *v, const char *key,
                         int64_t *out)
{
    const dt_ms most = 7 * 24 * 3600 * DT_SECOND;
    double seconds = cJSON_IsNumber(v) ? v->valuedouble : -1;
    dt_ms t;
    if (cJSON_IsString(v)) {
        if (dt_str_to_duration(v->valuestring, 1, most, &t, r->err) < 0)
            return dt_err_wrap(r->err, "%s", key);
    } else if (seconds >= 0.001 && seconds <= (double)(most / DT_SECOND)) {
        t = (dt_ms)(seconds * 1000);
    } else {
        return dt_config_refuse(r, v, "expected seconds, or a duration as \"10m\"");
    }
    *out = t;
    return 0;
}

int dt_take_timeout(const struct dt_reading *r, const struct cJSON *v)
{
    return take_duration(r, v, "train.collective_timeout",
                         &r->draft->c.train.collective_timeout_ms);
}

int dt_take_upload_timeout(const struct dt_reading *r, const struct cJSON *v)
{
    return take_duration(r, v, "train.upload_timeout", &r->draft->c.train.upload_timeout_ms);
}

/* A number of validations, or an object that has it. */
int dt_take_early_stop(const struct dt_reading *r, const struct cJSON *v)
{
    static const char *const names[] = {"patience", "min_delta", NULL};
    struct dt_config_train *t = &r->draft->c.train;
    double n = cJSON_IsNumber(v) ? v->valuedouble : 0;
    if (cJSON_IsFalse(v) || (cJSON_IsNumber(v) && n >= 0 && n <= 1e9 && n == floor(n))) {
        t->patience = (int64_t)n;
        return 0;
    }
    if (!cJSON_IsObject(v))
        return dt_config_refuse(r, v,
                                "expected a number of validations, false, or {\"patience\": 3, "
                                "\"min_delta\": 0.01}");
    if (dt_json_only(r->doc, v, names, r->err) < 0 ||
        dt_json_int(r->doc, v, "patience", 1, 1000000000, &t->patience, r->err) < 0 ||
        (dt_json_has(v, "min_delta") &&
         dt_json_number(r->doc, v, "min_delta", &t->min_delta, r->err) < 0))
        return -1;
    if (!(t->min_delta >= 0 && t->min_delta <= 1e6))
        return dt_config_refuse(r, cJSON_GetObjectItemCaseSensitive(v, "min_delta"),
                                "expected a number from 0 to a million");
    return 0;
}

int dt_take_balance(const struct dt_reading *r, const struct cJSON *v)
{
    static const char *const names[] = {"policy", NULL};
    enum dt_balance_policy *out = &r->draft->c.train.balance;
    const char *policy = "balance";
    if (cJSON_IsObject(v)) {
        if (dt_json_only(r->doc, v, names, r->err) < 0)
            return -1;
        if (dt_json_has(v, "policy") && dt_json_string(r->doc, v, "policy", &policy, r->err) < 0)
            return -1;
    } else if (!cJSON_IsBool(v)) {
        return dt_config_refuse(r, v, "expected true, false, or {\"policy\": \"balance\"}");
    }
    if (cJSON_IsFalse(v))
        *out = DT_BALANCE_OFF;
    else if (strcmp(policy, "balance") == 0)
        *out = DT_BALANCE_TIMES;
    else if (strcmp(policy, "utilization") == 0)
        *out = DT_BALANCE_UTILISATION;
    else
        return dt_config_refuse(r, cJSON_GetObjectItemCaseSensitive(v, "policy"),
                                "\"%.40s\" is neither balance nor utilization", policy);
    return 0;
}
