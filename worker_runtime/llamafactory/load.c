/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/llamafactory/llamafactory.h"

#include "base/fs.h"
#include "worker_runtime/config/keys.h"
#include "worker_runtime/config/merge.h"
#include "worker_runtime/config/yaml.h"
#include "worker_runtime/llamafactory/keys.h"
#include "worker_runtime/llamafactory/tokens.h"
#include "worker_runtime/no_folder.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dt_factory_finish(struct dt_factory *f)
{
    free(f->data.dataset);
    free(f->data.eval_dataset);
    free(f->data.folder);
    free(f->data.template);
    free(f->data.system);
    free(f->resume);
    *f = (struct dt_factory){0};
}

/* JSON begins with a brace, and YAML as people write it does not. */
static int parse(struct dt_json *doc, const char *text, size_t len, struct dt_err *err)
{
    size_t blank = strspn(text, " \t\r\n");
    if (text[blank] != '{')
        return dt_yaml_parse(doc, text, len, err);
    if (dt_json_parse(doc, text, len, DT_YAML_MAX, err) < 0)
        return -1;
    if (dt_json_no_duplicates(doc, err) == 0)
        return 0;
    dt_json_finish(doc);
    return -1;
}

static int read_file(struct dt_json *doc, const char *path, struct dt_err *err)
{
    struct dt_buf text = {0};
    *doc = (struct dt_json){0};
    int rc = *path ? dt_fs_read_any(path, DT_YAML_MAX, &text, err) : 0;
    if (rc < 0 && err)
        err->code = DT_E_USAGE; /* a person wrote the path */
    if (rc == 0 && parse(doc, dt_buf_cstr(&text), text.len, err) < 0)
        rc = dt_err_wrap(err, "%s", path);
    dt_buf_finish(&text);
    return rc;
}

/* -- overrides -------------------------------------------------------------------------------- */

/* Whether OVERRIDE is of a key that the file could have: no key of ours without a block in front
 * has such a name and another meaning. One that nobody knows is the file's, too, which knows best
 * what was meant. */
static bool is_of_file(const char *override)
{
    size_t n = strcspn(override, "=");
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)n, override);
    for (const struct factory_key *k = factory_keys; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return true;
    return !strchr(name, '.') && !dt_key_find(name);
}

/* Whether V is what is meant by VALUE, and not the text VALUE: to YAML nothing and a comment are
 * null as well. */
static bool is_meant(const struct cJSON *v, const char *value)
{
    char first = value[strspn(value, " \t")];
    if (cJSON_IsNull(v))
        return first == 'n' || first == 'N' || first == '~';
    return v && (!cJSON_IsString(v) || *value == '\'' || *value == '"');
}

/* The name and the value of OVERRIDE, as one object. */
static int read_override(struct dt_json *one, const char *override, struct dt_err *err)
{
    struct dt_buf text = {0};
    size_t n = strcspn(override, "=");
    char name[80];
    snprintf(name, sizeof name, "%.*s", (int)n, override);
    const char *value = override + n + (override[n] == '=');
    dt_buf_printf(&text, "%s: %s", name, value);
    int rc = text.bad ? -1 : dt_yaml_parse(one, dt_buf_cstr(&text), text.len, NULL);
    dt_buf_finish(&text);
    if (rc == 0 && is_meant(one->root->child, value))
        return 0;
    dt_json_finish(one); /* a text is whole, with what would be a comment in a file */
    one->root = cJSON_CreateObject();
    if (one->root && cJSON_AddStringToObject(one->root, name, value))
        return 0;
    dt_json_finish(one);
    return dt_err_set(err, DT_E_MEMORY, "no memory for --set");
}

/* KEY=VALUE is KEY: VALUE of a file. */
static int set_one(struct dt_json *file, const char *override, struct dt_err *err)
{
    struct dt_json one = {0};
    if (read_override(&one, override, err) < 0)
        return -1;
    struct cJSON *v = cJSON_DetachItemViaPointer(one.root, one.root->child);
    cJSON_DeleteItemFromObjectCaseSensitive(file->root, v->string);
    cJSON_AddItemToArray(file->root, v); /* with the name that it has */
    dt_json_finish(&one);
    return 0;
}

/* Those of the file are set in it; REST gets the others, which is to be freed. */
static int set_in_file(struct dt_json *file, const char *const *overrides, const char ***rest,
                       struct dt_err *err)
{
    size_t all = 0, count = 0;
    while (overrides && overrides[all])
        all++;
    *rest = calloc(all + 1, sizeof **rest);
    if (!*rest)
        return dt_err_set(err, DT_E_MEMORY, "no memory for --set");
    for (size_t i = 0; i < all; i++) {
        if (!is_of_file(overrides[i]))
            (*rest)[count++] = overrides[i];
        else if (set_one(file, overrides[i], err) < 0)
            return -1;
    }
    return 0;
}

/* -- the run ---------------------------------------------------------------------------------- */

static const char *text_at(const struct dt_json *doc, const char *block, const char *key)
{
    const struct cJSON *in = cJSON_GetObjectItemCaseSensitive(doc->root, block);
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(in, key);
    return cJSON_IsString(v) && v->valuestring[0] ? v->valuestring : NULL;
}

/* Names the files of tokens in the run, unless an override names others. */
static int put_tokens(struct factory_reading *r)
{
    const char *model = text_at(r->run, "model", "weights");
    const char *output = text_at(r->run, "train", "save_dir");
    const struct cJSON *data = cJSON_GetObjectItemCaseSensitive(r->run->root, "data");
    struct factory_names names;
    struct dt_err none;
    if (dt_json_has(data, "train"))
        return 0;
    if (!model || !output)
        return factory_refuse(r, model ? "output_dir" : "model_name_or_path",
                              "expected the name of a folder");
    if (!dt_is_folder(model)) {
        dt_no_folder(model, &none);
        return factory_refuse(r, "model_name_or_path", "%s", none.text);
    }
    if (factory_name_tokens(&r->draft->f.data, model, output, &names, r->err) < 0)
        return -1;
    r->draft->f.makes_tokens = true;
    if (factory_put(r, "data.train", cJSON_CreateString(names.train)) < 0)
        return -1;
    return names.validation[0]
               ? factory_put(r, "data.validation", cJSON_CreateString(names.validation))
               : 0;
}

/* An error about a key of ours that stands for one of the file names that one. */
static int blame(const char *path, struct dt_err *err)
{
    struct dt_err was;
    size_t n = strlen(path);
    if (!err || strncmp(err->text, path, n) != 0 || strncmp(err->text + n, ": ", 2) != 0)
        return -1;
    was = *err;
    const char *text = was.text + n + 2;
    size_t len = strcspn(text, ":");
    for (const struct factory_key *k = factory_keys; k->name; k++)
        if (k->to && strlen(k->to) == len && strncmp(k->to, text, len) == 0)
            return dt_err_set(err, was.code, "%s: %s%s", path, k->name, text + len);
    return -1;
}

/* Nothing of pairs, as settle_pairs() has it of adapters. */
static void drop_nothing(struct dt_shape *s)
{
    s->embedding_dropout = s->branch_dropout = s->attention_dropout = 0;
}

static int understand(struct factory_reading *r, struct dt_merge *m, struct dt_config *c)
{
    if (r->draft->deepspeed) {
        m->second_name = r->draft->deepspeed;
        if (dt_merge_file(&m->second, m->second_name, r->err) < 0)
            return dt_err_wrap(r->err, "%s: deepspeed", m->name);
        if (factory_settle_deepspeed(r, &m->second, m->second_name) < 0)
            return -1;
        if (dt_merge_second(m, r->err) < 0)
            return factory_blame_both(r, &m->second, m->second_name);
    }
    if (dt_merge_overrides(m, r->err) < 0)
        return -1;
    if (factory_settle_cutoff(r) < 0 || put_tokens(r) < 0)
        return dt_err_wrap(r->err, "%s", m->name);
    if (dt_config_understand(c, m, r->warnings, r->err) < 0)
        return blame(m->name, r->err);
    if (r->draft->f.data.pairs)
        drop_nothing(&c->model.shape);
    return 0;
}

static int translate(struct factory_reading *r, const char *path)
{
    r->run->root = cJSON_CreateObject();
    if (!r->run->root)
        return dt_err_set(r->err, DT_E_MEMORY, "no memory to read the configuration");
    if (factory_read(r) < 0 || factory_settle(r) < 0)
        return dt_err_wrap(r->err, "%s", path);
    return 0;
}

int dt_factory_load(struct dt_factory *f, struct dt_config *c, const char *path,
                    const char *const *overrides, struct dt_buf *warnings, struct dt_err *err)
{
    struct factory_draft draft;
    struct dt_json file;
    const char *name = *path ? path : "the command line";
    struct dt_merge m = {.name = name};
    struct factory_reading r = {&draft, &file, &m.doc, warnings, err};
    const char **rest = NULL;
    memset(c, 0, sizeof *c);
    *f = (struct dt_factory){0};
    factory_draft_init(&draft);
    int rc = read_file(&file, path, err);
    if (rc == 0)
        rc = set_in_file(&file, overrides, &rest, err);
    m.overrides = rest;
    if (rc == 0)
        rc = translate(&r, name);
    if (rc == 0)
        rc = understand(&r, &m, c);
    if (rc == 0) {
        *f = draft.f;
        draft.f = (struct dt_factory){0}; /* its texts have moved */
    }
    factory_draft_finish(&draft);
    dt_json_finish(&file);
    dt_merge_finish(&m);
    free(rest);
    return rc;
}
