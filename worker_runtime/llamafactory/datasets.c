/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/llamafactory/datasets.h"

#include "base/fs.h"
#include "base/str.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INFO_MAX ((size_t)16 << 20) /* bytes of dataset_info.json */
#define NAME_MOST 200
#define NAMES_SHOWN 5

/* An entry, and what is told of it when something is wrong. */
struct entry {
    struct factory_datasets *of;
    const struct dt_factory_data *data;
    const struct cJSON *v;
    struct dt_err *err;
};

static int refuse(const struct entry *e, const struct cJSON *v, const char *why)
{
    char path[NAME_MOST];
    return dt_err_set(e->err, DT_E_USAGE, "%s: %s",
                      dt_json_path(&e->of->info, v, path, sizeof path), why);
}

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory for the list of datasets");
}

/* -- what the parts of an example are called -------------------------------------------------- */

/* A name in a block of names. */
struct name {
    const char *key;
    size_t at; /* in struct dt_columns */
};

#define AT(field) offsetof(struct dt_columns, field)

static const struct name columns[] = {
    {"prompt", AT(prompt)},   {"query", AT(query)},       {"response", AT(response)},
    {"history", AT(history)}, {"messages", AT(messages)}, {"system", AT(system)},
    {"chosen", AT(chosen)},   {"rejected", AT(rejected)}, {NULL, 0},
};
static const struct name tags[] = {
    {"role_tag", AT(role)},           {"content_tag", AT(content)},    {"user_tag", AT(user)},
    {"assistant_tag", AT(assistant)}, {"system_tag", AT(system_role)}, {NULL, 0},
};

/* Parts of an example that are not done here, and what is to be said of them. */
static const struct {
    const char *key, *why;
} strangers[] = {
    {"tools", "calls of tools are not done here; leave that column out"},
    {"images", "images are not trained on here"},
    {"videos", "videos are not trained on here"},
    {"audios", "sounds are not trained on here"},
    {"kto_tag", "answers that are good or bad by themselves belong to the stage kto, which is not "
                "done here"},
    {"function_tag", NULL},
    {"observation_tag", NULL},
};

static int take_name(const struct entry *e, const struct cJSON *v, const struct name *names,
                     struct dt_columns *out)
{
    for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++)
        if (strcmp(v->string, strangers[i].key) == 0)
            return strangers[i].why ? refuse(e, v, strangers[i].why) : 0;
    for (; names->key; names++) {
        if (strcmp(v->string, names->key) != 0)
            continue;
        if (!cJSON_IsString(v))
            return refuse(e, v, "expected a name");
        *(const char **)((char *)out + names->at) = v->valuestring;
        return 0;
    }
    return refuse(e, v, "there is no such name in dataset_info.json");
}

static int take_names(const struct entry *e, const char *block, const struct name *names,
                      struct dt_columns *out)
{
    const struct cJSON *in = cJSON_GetObjectItemCaseSensitive(e->v, block);
    if (!in || cJSON_IsNull(in))
        return 0;
    if (!cJSON_IsObject(in))
        return refuse(e, in, "expected an object");
    for (const struct cJSON *v = in->child; v; v = v->next)
        if (!cJSON_IsNull(v) && take_name(e, v, names, out) < 0)
            return -1;
    return 0;
}

static int check_columns(const struct entry *e, bool turns, const struct dt_columns *c)
{
    bool pairs = e->data->pairs;
    if (turns && !c->messages)
        return refuse(e, e->v, "columns.messages is missing: where are the turns?");
    if (!turns && (!c->prompt || (!pairs && !c->response)))
        return refuse(e, e->v,
                      pairs ? "columns.prompt is missing"
                            : "columns.prompt or columns.response is missing");
    if (pairs && (!c->chosen || !c->rejected))
        return refuse(e, e->v,
                      "columns.chosen or columns.rejected is missing: where are the two answers?");
    return 0;
}

/* Where "columns" is there, what it does not name is not there. */
static int read_columns(const struct entry *e, bool turns, struct dt_columns *out)
{
    static const struct dt_columns alpaca = {.prompt = "instruction",
                                             .query = "input",
                                             .response = "output",
                                             .history = "history",
                                             .system = "system"};
    static const struct dt_columns sharegpt = {.messages = "conversations", .system = "system"};
    static const struct dt_columns roles = {.role = "from",
                                            .content = "value",
                                            .user = "human",
                                            .assistant = "gpt",
                                            .system_role = "system"};
    bool named = dt_json_has(e->v, "columns");
    *out = named ? (struct dt_columns){0} : turns ? sharegpt : alpaca;
    out->role = roles.role;
    out->content = roles.content;
    out->user = roles.user;
    out->assistant = roles.assistant;
    out->system_role = roles.system_role;
    if (take_names(e, "columns", columns, out) < 0 || take_names(e, "tags", tags, out) < 0)
        return -1;
    if (!turns)
        out->messages = NULL;
    return check_columns(e, turns, out);
}

/* -- entries ---------------------------------------------------------------------------------- */

static int check_stage(const struct entry *e)
{
    const struct cJSON *ranking = cJSON_GetObjectItemCaseSensitive(e->v, "ranking");
    if (cJSON_IsTrue(ranking) && !e->data->pairs)
        return refuse(e, ranking, "pairs of answers are for the stage dpo, and this one is sft");
    if (!cJSON_IsTrue(ranking) && e->data->pairs)
        return refuse(
            e, e->v,
            "the stage dpo wants pairs of answers, which a dataset with \"ranking\": true "
            "has");
    return 0;
}

static int check_keys(const struct entry *e)
{
    static const struct {
        const char *key, *why;
    } rows[] = {
        {"hf_hub_url", "nothing is downloaded here; fetch it, and write file_name"},
        {"ms_hub_url", "nothing is downloaded here; fetch it, and write file_name"},
        {"om_hub_url", "nothing is downloaded here; fetch it, and write file_name"},
        {"cloud_file_name", "nothing is downloaded here; fetch it, and write file_name"},
        {"script_url", "programs of datasets are not run here; write file_name"},
        {"num_samples", "examples are not drawn by chance here; remove it, or write max_samples"},
    };
    bool named = dt_json_has(e->v, "file_name");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(e->v, rows[i].key);
        if (v && !cJSON_IsNull(v) && !(named && strstr(rows[i].key, "_url")))
            return refuse(e, v, rows[i].why);
    }
    return named ? check_stage(e) : refuse(e, e->v, "file_name is missing");
}

static int read_entry(const struct entry *e, struct factory_dataset *out)
{
    const char *file, *form = "alpaca", *folder = e->data->folder;
    if (!cJSON_IsObject(e->v))
        return refuse(e, e->v, "expected an object");
    if (check_keys(e) < 0 || dt_json_string(&e->of->info, e->v, "file_name", &file, e->err) < 0)
        return -1;
    if (dt_json_has(e->v, "formatting") &&
        dt_json_string(&e->of->info, e->v, "formatting", &form, e->err) < 0)
        return -1;
    bool turns = strcmp(form, "sharegpt") == 0 || strcmp(form, "openai") == 0;
    if (!turns && strcmp(form, "alpaca") != 0)
        return refuse(e, cJSON_GetObjectItemCaseSensitive(e->v, "formatting"),
                      "it is none of alpaca, sharegpt, openai");
    bool whole = file[0] == '/';
    if (snprintf(out->path, sizeof out->path, "%s%s%s", whole ? "" : folder, whole ? "" : "/",
                 file) >= (int)sizeof out->path)
        return refuse(e, e->v, "the path is too long");
    out->entry = e->v;
    out->source.most = (uint64_t)e->data->most;
    return read_columns(e, turns, &out->source.columns);
}

static int read_info(struct factory_datasets *d, const char *path, struct dt_err *err)
{
    struct dt_buf text = {0};
    int rc = dt_fs_read(path, INFO_MAX, &text, err);
    if (rc < 0 && err)
        err->code = DT_E_USAGE; /* a person wrote dataset_dir */
    if (rc == 0) {
        rc = dt_json_parse(&d->info, (const char *)text.at, text.len, INFO_MAX, err);
        if (rc == 0 && !cJSON_IsObject(d->info.root))
            rc = dt_err_set(err, DT_E_USAGE, "expected an object with a member for each dataset");
        if (rc < 0)
            dt_err_wrap(err, "%s", path);
    }
    dt_buf_finish(&text);
    return rc < 0 ? dt_err_wrap(err, "dataset_dir") : 0;
}

static const char *nearest(const struct factory_datasets *d, const char *name)
{
    size_t least = dt_str_guess(name) + 1;
    const char *best = NULL;
    for (const struct cJSON *v = d->info.root->child; v; v = v->next) {
        size_t far = dt_str_distance(name, v->string);
        if (far < least) {
            least = far;
            best = v->string;
        }
    }
    return best;
}

/* NAME is none of those in FOLDER: which one may be meant, or which there are. */
static int refuse_name(const struct factory_datasets *d, const char *name, const char *folder,
                       struct dt_err *err)
{
    const char *meant = nearest(d, name);
    struct dt_buf there = {0};
    int count = 0;
    for (const struct cJSON *v = d->info.root->child; v && !meant; v = v->next, count++)
        if (count < NAMES_SHOWN)
            dt_buf_printf(&there, "%s%.40s", count ? ", " : "it has ", v->string);
    if (meant)
        dt_buf_printf(&there, "did you mean \"%.60s\"?", meant);
    else if (count > NAMES_SHOWN)
        dt_buf_printf(&there, " and %d more", count - NAMES_SHOWN);
    else if (count == 0)
        dt_buf_put_str(&there, "it is empty");
    dt_err_set(err, DT_E_USAGE, "dataset: %.60s/dataset_info.json has no \"%.60s\"; %s", folder,
               name, dt_buf_cstr(&there));
    dt_buf_finish(&there);
    return -1;
}

static int add(struct factory_datasets *d, const struct dt_factory_data *data, const char *name,
               struct dt_err *err)
{
    struct factory_dataset *more = realloc(d->at, (d->count + 1) * sizeof *more);
    struct entry e = {d, data, cJSON_GetObjectItemCaseSensitive(d->info.root, name), err};
    if (!more)
        return no_memory(err);
    d->at = more;
    if (!e.v)
        return refuse_name(d, name, data->folder, err);
    d->at[d->count] = (struct factory_dataset){0};
    if (read_entry(&e, &d->at[d->count]) < 0)
        return dt_err_wrap(err, "%.100s/dataset_info.json", data->folder);
    d->count++;
    return 0;
}

int factory_datasets_open(struct factory_datasets *d, const struct dt_factory_data *data,
                          const char *names, struct dt_err *err)
{
    char path[PATH_MAX];
    *d = (struct factory_datasets){0};
    if (snprintf(path, sizeof path, "%s/dataset_info.json", data->folder) >= (int)sizeof path)
        return dt_err_set(err, DT_E_USAGE, "dataset_dir: the path is too long");
    if (read_info(d, path, err) < 0)
        return -1;
    char *all = strdup(names), *rest = all, *name;
    int rc = all ? 0 : no_memory(err);
    while (rc == 0 && (name = strsep(&rest, ",")))
        if (*(name = dt_str_trim(name)))
            rc = add(d, data, name, err);
    free(all);
    if (rc == 0 && d->count == 0)
        rc = dt_err_set(err, DT_E_USAGE, "dataset: it names none");
    return rc;
}

void factory_datasets_close(struct factory_datasets *d)
{
    dt_json_finish(&d->info);
    free(d->at);
    *d = (struct factory_datasets){0};
}
