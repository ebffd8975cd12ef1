/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/config/merge.h"

#include "base/fs.h"
#include "worker_runtime/config/config.h"
#include "worker_runtime/config/model_file.h"
#include "worker_runtime/no_folder.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX ((size_t)1 << 20)
#define PATH_MOST 256
#define OVERRIDE_SHOWN "override \"%.80s\""

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory to read the configuration");
}

/* Files that are read stand beside the configuration; what is written lands where the process
 * stands. */
static const struct read_path {
    const char *block, *name;
    bool is_model; /* or adapters: it may be a name of the hub, by mistake */
} read_paths[] = {{"data", "train", false},
                  {"data", "validation", false},
                  {"model", "config", true},
                  {"model", "weights", true},
                  {"lora", "from", true}};

/* V becomes a path from FOLDER on, where it is one from there. A name of the hub that is no path
 * from anywhere stays as it is, and who opens it says how to fetch that. */
static int move_path(struct cJSON *v, const struct read_path *of, const char *folder,
                     struct dt_err *err)
{
    char path[4096];
    if (!cJSON_IsString(v) || !v->valuestring[0] || v->valuestring[0] == '/' || !*folder ||
        strcmp(folder, ".") == 0)
        return 0;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, v->valuestring) >= sizeof path)
        return dt_err_set(err, DT_E_USAGE, "%s.%s: the path is too long", of->block, of->name);
    if (of->is_model && dt_is_name_of_hub(v->valuestring) && !dt_fs_exists(path) &&
        !dt_fs_exists(v->valuestring))
        return 0;
    return cJSON_SetValuestring(v, path) ? 0 : no_memory(err);
}

/* A value is a path, or a list of paths and of objects that have one. */
static int move_paths(struct cJSON *root, const struct read_path *of, const char *folder,
                      struct dt_err *err)
{
    struct cJSON *in = cJSON_GetObjectItemCaseSensitive(root, of->block), *one;
    struct cJSON *v = cJSON_IsObject(in) ? cJSON_GetObjectItemCaseSensitive(in, of->name) : NULL;
    if (!cJSON_IsArray(v))
        return move_path(v, of, folder, err);
    cJSON_ArrayForEach(one, v)
    {
        struct cJSON *path =
            cJSON_IsObject(one) ? cJSON_GetObjectItemCaseSensitive(one, "path") : one;
        if (move_path(path, of, folder, err) < 0)
            return -1;
    }
    return 0;
}

static int parse(struct dt_json *doc, char *text, size_t len, const char *folder,
                 struct dt_err *err)
{
    if (dt_jsonc_strip(text, len, err) < 0 || dt_json_parse(doc, text, len, FILE_MAX, err) < 0)
        return -1;
    if (!cJSON_IsObject(doc->root))
        return dt_err_set(err, DT_E_USAGE, "a configuration is a JSON object: { ... }");
    if (dt_json_no_duplicates(doc, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof read_paths / sizeof *read_paths; i++)
        if (move_paths(doc->root, &read_paths[i], folder, err) < 0)
            return -1;
    return 0;
}

int dt_merge_parse(struct dt_json *doc, const char *text, size_t len, const char *name,
                   const char *folder, struct dt_err *err)
{
    *doc = (struct dt_json){0};
    if (len > FILE_MAX)
        return dt_err_set(err, DT_E_LIMIT, "%s: %zu bytes; at most %zu are taken", name, len,
                          FILE_MAX);
    char *copy = malloc(len + 1);
    if (!copy)
        return no_memory(err);
    if (len)
        memcpy(copy, text, len);
    copy[len] = '\0';
    int rc = parse(doc, copy, len, folder, err);
    free(copy);
    return rc < 0 ? dt_err_wrap(err, "%s", name) : 0;
}

/* By its name, as everything else might be meant to be JSON. */
static bool is_yaml(const char *path, const char *text)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0) &&
           text[strspn(text, " \t\r\n")] != '{';
}

int dt_merge_file(struct dt_json *doc, const char *path, struct dt_err *err)
{
    struct dt_buf text = {0};
    char folder[4096] = "";
    const char *slash = strrchr(path, '/');
    *doc = (struct dt_json){0};
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    int rc = dt_fs_read_any(path, FILE_MAX, &text, err);
    if (rc < 0 && err)
        err->code = DT_E_USAGE;
    if (rc == 0 && is_yaml(path, dt_buf_cstr(&text)))
        rc = dt_err_set(err, DT_E_USAGE,
                        "%s: a configuration is JSON, and this is YAML; one of LLaMA-Factory's is "
                        "named by --llamafactory",
                        path);
    if (rc == 0)
        rc = dt_merge_parse(doc, (const char *)text.at, text.len, path, folder, err);
    dt_buf_finish(&text);
    return rc;
}

/* "auto" stands for what another source says, and null says nothing. */
static bool gives_way(const struct cJSON *v)
{
    return cJSON_IsNull(v) || (cJSON_IsString(v) && strcmp(v->valuestring, "auto") == 0);
}

static int take_in(struct dt_merge *m, struct cJSON *into, const struct cJSON *from,
                   struct dt_err *err);

/* Both have it. */
static int take_same(struct dt_merge *m, struct cJSON *into, struct cJSON *mine,
                     const struct cJSON *theirs, struct dt_err *err)
{
    char path[PATH_MOST];
    if (cJSON_IsObject(mine) && cJSON_IsObject(theirs))
        return take_in(m, mine, theirs, err);
    if (gives_way(theirs) || cJSON_Compare(mine, theirs, true))
        return 0;
    if (!gives_way(mine))
        return dt_err_set(err, DT_E_USAGE, "%s: %s has another value than %s; drop one",
                          dt_json_path(&m->doc, mine, path, sizeof path), m->name, m->second_name);
    struct cJSON *copy = cJSON_Duplicate(theirs, true);
    if (!copy || !cJSON_ReplaceItemInObjectCaseSensitive(into, theirs->string, copy)) {
        cJSON_Delete(copy);
        return no_memory(err);
    }
    return 0;
}

static int take_in(struct dt_merge *m, struct cJSON *into, const struct cJSON *from,
                   struct dt_err *err)
{
    for (const struct cJSON *v = from->child; v; v = v->next) {
        struct cJSON *mine = cJSON_GetObjectItemCaseSensitive(into, v->string);
        if (mine) {
            if (take_same(m, into, mine, v, err) < 0)
                return -1;
            continue;
        }
        struct cJSON *copy = cJSON_Duplicate(v, true);
        if (!copy || !cJSON_AddItemToObject(into, v->string, copy)) {
            cJSON_Delete(copy);
            return no_memory(err);
        }
    }
    return 0;
}

int dt_merge_second(struct dt_merge *m, struct dt_err *err)
{
    return take_in(m, m->doc.root, m->second.root, err);
}

/* JSON where it is, else the text itself: train.device=cpu. */
static struct cJSON *value_of(const char *text, struct dt_err *err)
{
    struct dt_json doc = {0};
    if (dt_json_parse(&doc, text, strlen(text), FILE_MAX, NULL) < 0)
        doc.root = cJSON_CreateString(text);
    if (!doc.root)
        no_memory(err);
    else if (dt_json_no_duplicates(&doc, err) < 0)
        dt_json_finish(&doc);
    return doc.root;
}

static int put(struct cJSON *in, const char *name, struct cJSON *v, struct dt_err *err)
{
    bool there = cJSON_GetObjectItemCaseSensitive(in, name);
    if (v && (there ? cJSON_ReplaceItemInObjectCaseSensitive(in, name, v)
                    : cJSON_AddItemToObject(in, name, v)))
        return 0;
    cJSON_Delete(v);
    return no_memory(err);
}

/* The block NAME of IN, made when it is not there. */
static struct cJSON *block_of(struct cJSON *in, const char *name, struct dt_err *err)
{
    struct cJSON *v = cJSON_GetObjectItemCaseSensitive(in, name);
    if (!v || cJSON_IsNull(v)) {
        if (put(in, name, cJSON_CreateObject(), err) < 0)
            return NULL;
        v = cJSON_GetObjectItemCaseSensitive(in, name);
    }
    if (cJSON_IsObject(v))
        return v;
    dt_err_set(err, DT_E_USAGE, "%.60s is no block with settings in it", name);
    return NULL;
}

/* A setting of a model whose config.json is a file: what stands in the file comes into the
 * document, and gives way to what is set. The file itself stays as it is. */
static int open_model_file(struct cJSON *root, const char *path, struct dt_err *err)
{
    static const char model_config[] = "model.config.";
    struct cJSON *model = cJSON_GetObjectItemCaseSensitive(root, "model");
    const struct cJSON *file = cJSON_GetObjectItemCaseSensitive(model, "config");
    struct dt_json doc;
    if (!file)
        file = cJSON_GetObjectItemCaseSensitive(model, "weights");
    if (strncmp(path, model_config, strlen(model_config)) != 0 || !cJSON_IsString(file))
        return 0;
    if (dt_model_file_read(&doc, file->valuestring, err) < 0)
        return -1;
    return put(model, "config", doc.root, err);
}

/* PATH is cut at its dots. */
static int set_path(struct cJSON *root, char *path, const char *value, struct dt_err *err)
{
    struct cJSON *in = root;
    if (open_model_file(root, path, err) < 0)
        return -1;
    for (char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        *dot = '\0';
        in = *path ? block_of(in, path, err) : NULL;
        if (!in)
            return *path ? -1 : dt_err_set(err, DT_E_USAGE, "expected BLOCK.KEY=VALUE");
    }
    if (!*path)
        return dt_err_set(err, DT_E_USAGE, "expected BLOCK.KEY=VALUE");
    struct cJSON *v = value_of(value, err);
    return v ? put(in, path, v, err) : -1;
}

static int set_one(struct cJSON *root, const char *override, struct dt_err *err)
{
    const char *equals = strchr(override, '=');
    char path[PATH_MOST];
    if (!equals || (size_t)(equals - override) >= sizeof path)
        return dt_err_set(err, DT_E_USAGE, "expected BLOCK.KEY=VALUE");
    memcpy(path, override, (size_t)(equals - override));
    path[equals - override] = '\0';
    return set_path(root, path, equals + 1, err);
}

int dt_merge_overrides(struct dt_merge *m, struct dt_err *err)
{
    for (const char *const *o = m->overrides; o && *o; o++)
        if (set_one(m->doc.root, *o, err) < 0)
            return dt_err_wrap(err, OVERRIDE_SHOWN, *o);
    return 0;
}

/* How many names of PATH, from the first on, lead to something in DOC; *AT is the last of that. */
static int depth_in(const struct dt_json *doc, const char *path, const struct cJSON **at)
{
    char name[PATH_MOST];
    int depth = 0;
    *at = doc->root;
    for (; *path; depth++) {
        size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        const struct cJSON *next = cJSON_GetObjectItemCaseSensitive(*at, name);
        if (!next)
            break;
        *at = next;
        path += n + (path[n] == '.');
    }
    return depth;
}

/* Something that is missing is missed by the source that has the most of the way to it; one that
 * gives way is not to blame for the value of the other. */
static bool is_of_second(const struct dt_merge *m, const char *path)
{
    const struct cJSON *theirs = NULL, *value = NULL;
    int depth = m->second_name ? depth_in(&m->second, path, &theirs) : 0;
    return depth > 0 && depth == depth_in(&m->doc, path, &value) &&
           (gives_way(value) || !gives_way(theirs));
}

/* "a.b" is within "a.b", and "a.b[1]" is, and "a.bc" is not. */
static bool is_within(const char *path, const char *block, size_t len)
{
    return strncmp(path, block, len) == 0 && (!path[len] || strchr(".[", path[len]));
}

/* The last one, as it is the one that counts. */
static const char *find_override(const struct dt_merge *m, const char *path)
{
    const char *found = NULL;
    for (const char *const *o = m->overrides; o && *o; o++)
        if (is_within(path, *o, strcspn(*o, "=")))
            found = *o;
    return found;
}

const char *dt_merge_overriding(const struct dt_merge *m, const char *path)
{
    const char *found = find_override(m, path);
    for (const char *const *o = m->overrides; !found && o && *o; o++)
        if (strncmp(*o, path, strlen(path)) == 0 && (*o)[strlen(path)] == '.')
            found = *o;
    return found;
}

int dt_merge_blame(const struct dt_merge *m, struct dt_err *err)
{
    char path[PATH_MOST];
    if (!err)
        return -1;
    snprintf(path, sizeof path, "%.*s", (int)strcspn(err->text, ": "), err->text);
    const char *override = find_override(m, path);
    if (override)
        return dt_err_wrap(err, OVERRIDE_SHOWN, override);
    path[strcspn(path, "[")] = '\0';
    if (is_of_second(m, path))
        return dt_err_wrap(err, "%s", m->second_name);
    return m->name ? dt_err_wrap(err, "%s", m->name) : -1;
}

/* TEXT behind the name FRONT and a colon, or else TEXT. */
static const char *behind(const char *text, const char *front, size_t len)
{
    bool begins = strncmp(text, front, len) == 0 && strncmp(text + len, ": ", 2) == 0;
    return begins ? text + len + 2 : text;
}

void dt_merge_rename(struct dt_err *err, const char *override, const char *name)
{
    char shown[120];
    struct dt_err was = *err;
    snprintf(shown, sizeof shown, OVERRIDE_SHOWN, override);
    const char *reason = behind(was.text, shown, strlen(shown));
    if (reason == was.text)
        return;
    reason = behind(reason, override, strcspn(override, "="));
    dt_err_set(err, was.code, "%s: %s", name, reason);
}

void dt_merge_finish(struct dt_merge *m)
{
    dt_json_finish(&m->doc);
    dt_json_finish(&m->second);
}
