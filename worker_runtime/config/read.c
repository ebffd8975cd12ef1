/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the document and does with each member what its row says. */
#include "worker_runtime/config/keys.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

#define PATH_MOST 256

void dt_config_warn(const struct dt_reading *r, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (r->warnings)
        dt_buf_printf(r->warnings, "%s\n", text);
}

int dt_config_refuse(const struct dt_reading *r, const struct cJSON *v, const char *fmt, ...)
{
    char path[PATH_MOST], text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dt_err_set(r->err, DT_E_USAGE, "%s: %s", dt_json_path(r->doc, v, path, sizeof path),
                      text);
}

static const struct dt_key *find_in(const struct dt_key *keys, const char *path)
{
    for (; keys->path; keys++)
        if (strcmp(keys->path, path) == 0)
            return keys;
    return NULL;
}

const struct dt_key *dt_key_find(const char *path)
{
    const struct dt_key *k = find_in(dt_deepspeed_keys, path);
    return k ? k : find_in(dt_own_keys, path);
}

static const char *last_name(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

/* Whether K is a member of the block PREFIX. */
static bool is_within(const struct dt_key *k, const char *prefix)
{
    size_t n = strlen(prefix);
    const char *name = last_name(k->path);
    if (n == 0)
        return name == k->path;
    return name == k->path + n + 1 && strncmp(k->path, prefix, n) == 0;
}

struct best {
    size_t distance;
    const char *path;
};

static void look(const struct dt_key *keys, const char *prefix, const char *name, struct best *b)
{
    for (; keys->path; keys++) {
        const char *known = last_name(keys->path);
        size_t far = strcmp(known, name) == 0 ? 0 : SIZE_MAX;
        if (is_within(keys, prefix))
            far = dt_str_distance(name, known);
        if (far < b->distance)
            *b = (struct best){far, keys->path};
    }
}

static struct best nearest(const char *prefix, const char *name, size_t below)
{
    struct best b = {below, NULL};
    look(dt_deepspeed_keys, prefix, name, &b);
    look(dt_own_keys, prefix, name, &b);
    return b;
}

const char *dt_key_suggestion(const char *prefix, const char *name, char *out, size_t size)
{
    struct best b = nearest(prefix, name, dt_str_guess(name) + 1);
    *out = '\0';
    if (b.path)
        snprintf(out, size, "; did you mean %s?", b.path);
    return out;
}

static bool is_auto(const struct cJSON *v)
{
    return cJSON_IsString(v) && strcmp(v->valuestring, "auto") == 0;
}

/* What turns nothing on: false, 0, "none", {"enabled": false}. */
static bool is_off(const struct cJSON *v)
{
    const struct cJSON *enabled = cJSON_GetObjectItemCaseSensitive(v, "enabled");
    if (cJSON_IsObject(v))
        return !v->child || cJSON_IsFalse(enabled);
    if (cJSON_IsNumber(v))
        return v->valuedouble == 0;
    if (cJSON_IsString(v))
        return strcmp(v->valuestring, "none") == 0;
    return cJSON_IsFalse(v) || cJSON_IsNull(v);
}

static bool is_idle(const struct dt_key *k, const struct cJSON *v)
{
    if (is_auto(v))
        return true;
    if (!k->idle)
        return is_off(v);
    char *text = dt_json_text(v);
    bool same = text && strcmp(text, k->idle) == 0;
    free(text);
    return same;
}

/* The object that V is a member of is needed by dt_json_*(), which find members by name. */
struct value {
    const struct cJSON *in, *v;
    const struct dt_key *key;
};

static int take_int(const struct dt_reading *r, const struct value *x, int64_t *out)
{
    return dt_json_int(r->doc, x->in, x->v->string, (int64_t)x->key->min, (int64_t)x->key->max, out,
                       r->err);
}

/* What turns YAML into JSON leaves "5e-5" a string. */
static bool is_number_as_text(const struct cJSON *v, double *out)
{
    char *end = NULL;
    if (!cJSON_IsString(v) || !strchr("+-.0123456789", v->valuestring[0]))
        return false;
    *out = strtod(v->valuestring, &end);
    return end != v->valuestring && !*end && isfinite(*out);
}

static int take_real(const struct dt_reading *r, const struct value *x, double *out)
{
    if (!is_number_as_text(x->v, out) &&
        dt_json_number(r->doc, x->in, x->v->string, out, r->err) < 0)
        return -1;
    if (*out >= x->key->min && *out <= x->key->max)
        return 0;
    return dt_config_refuse(r, x->v, "expected a number from %g to %g, found %g", x->key->min,
                            x->key->max, *out);
}

static int take_text(const struct dt_reading *r, const struct value *x, char **out)
{
    const char *text;
    if (dt_json_string(r->doc, x->in, x->v->string, &text, r->err) < 0)
        return -1;
    char *copy = strdup(text);
    if (!copy)
        return dt_err_set(r->err, DT_E_MEMORY, "no memory for %s", x->key->path);
    free(*out);
    *out = copy;
    return 0;
}

static int take_choice(const struct dt_reading *r, const struct value *x, int *out)
{
    const char *text, *word = x->key->words;
    if (dt_json_string(r->doc, x->in, x->v->string, &text, r->err) < 0)
        return -1;
    for (int i = 0; *word; i++) {
        size_t n = strcspn(word, "|");
        if (strlen(text) == n && strncasecmp(text, word, n) == 0) {
            *out = i;
            return 0;
        }
        word += n + (word[n] == '|');
    }
    return dt_config_refuse(r, x->v, "\"%.40s\" is none of %s", text, x->key->words);
}

static int take_flag(const struct dt_reading *r, const struct value *x, bool *out)
{
    return dt_json_bool(r->doc, x->in, x->v->string, out, r->err);
}

static int take_auto(const struct dt_reading *r, const struct value *x, void *at)
{
    if (x->key->automatic == DT_AUTO_REFUSED)
        return dt_config_refuse(r, x->v, "\"auto\" cannot be worked out here; write a value");
    if (x->key->automatic == DT_AUTO_MARKED && x->key->kind == DT_KEY_INT)
        *(int64_t *)at = DT_AUTO;
    else if (x->key->automatic == DT_AUTO_MARKED)
        *(double *)at = DT_AUTO;
    return 0;
}

static int take_plain(const struct dt_reading *r, const struct value *x)
{
    void *at = (char *)r->draft + x->key->at;
    int64_t n = 0;
    bool flag = false;
    if (is_auto(x->v) && x->key->kind != DT_KEY_TEXT)
        return take_auto(r, x, at);
    switch (x->key->kind) {
    case DT_KEY_FLAG:
        return take_flag(r, x, at);
    case DT_KEY_INT:
        return take_int(r, x, at);
    case DT_KEY_REAL:
        return take_real(r, x, at);
    case DT_KEY_TEXT:
        return take_text(r, x, at);
    case DT_KEY_CHOICE:
        return take_choice(r, x, at);
    case DT_KEY_THREE:
        if (take_flag(r, x, &flag) < 0)
            return -1;
        *(int *)at = flag;
        return 0;
    case DT_KEY_COUNT:
        if (take_int(r, x, &n) < 0)
            return -1;
        *(size_t *)at = (size_t)n;
        return 0;
    case DT_KEY_SMALL:
        if (take_int(r, x, &n) < 0)
            return -1;
        *(int *)at = (int)n;
        return 0;
    default:
        return x->key->take(r, x->v);
    }
}

static int read_block(const struct dt_reading *r, const struct cJSON *object, const char *prefix);

static int take_block(const struct dt_reading *r, const struct value *x)
{
    const struct cJSON *block;
    const char *other = x->key->words; /* another name of this block */
    if (x->key->take && !cJSON_IsObject(x->v))
        return x->key->take(r, x->v);
    if (dt_json_object(r->doc, x->in, x->v->string, &block, r->err) < 0)
        return -1;
    if (other && dt_json_has(x->in, other))
        return dt_config_refuse(r, x->v, "it is the old name of %s, which is there too; drop one",
                                other);
    if (x->key->at)
        *(bool *)((char *)r->draft + x->key->at) = true;
    return read_block(r, block, other ? other : x->key->path);
}

static int take(const struct dt_reading *r, const struct value *x)
{
    char path[PATH_MOST];
    switch (x->key->kind) {
    case DT_KEY_BLOCK:
        return take_block(r, x);
    case DT_KEY_SAME:
        return 0;
    case DT_KEY_IDLE:
        if (!is_idle(x->key, x->v))
            dt_config_warn(r, "%s: %s", dt_json_path(r->doc, x->v, path, sizeof path),
                           x->key->words);
        return 0;
    case DT_KEY_REFUSE:
        return is_idle(x->key, x->v) ? 0 : dt_config_refuse(r, x->v, "%s", x->key->words);
    default:
        return take_plain(r, x);
    }
}

/* Keys of stage 3 may be written without "stage3_". */
static const struct dt_key *find_short(const char *prefix, const char *name)
{
    char path[PATH_MOST];
    if (strcmp(prefix, "zero_optimization") != 0)
        return NULL;
    snprintf(path, sizeof path, "%s.stage3_%s", prefix, name);
    return dt_key_find(path);
}

/* V, which is PATH, has no row. */
static int pass_over(const struct dt_reading *r, const struct cJSON *v, const char *prefix,
                     const char *path)
{
    char hint[PATH_MOST];
    const char *given = r->sources ? dt_merge_overriding(r->sources, path) : NULL;
    bool foreign = !*prefix && !strchr(v->string, '.') &&
                   !nearest(prefix, v->string, dt_str_slip(v->string) + 1).path;
    if (given && strcspn(given, "=") > strlen(path))
        return dt_err_set(r->err, DT_E_USAGE, "%.*s: there is no such setting%s",
                          (int)strcspn(given, "="), given,
                          dt_key_suggestion(prefix, v->string, hint, sizeof hint));
    if (given || (!foreign && v->string[0] != '_'))
        return dt_config_refuse(r, v, "there is no such setting%s",
                                dt_key_suggestion(prefix, v->string, hint, sizeof hint));
    dt_config_warn(r, "%s: there is no such setting, and it is ignored",
                   dt_json_path(r->doc, v, hint, sizeof hint));
    return 0;
}

static int read_member(const struct dt_reading *r, const struct cJSON *object,
                       const struct cJSON *v, const char *prefix)
{
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s%s%s", prefix, *prefix ? "." : "", v->string);
    struct value x = {object, v, dt_key_find(path)};
    /* A name with a dot would be found as a path. */
    if (x.key && !is_within(x.key, prefix))
        x.key = NULL;
    if (!x.key) {
        x.key = find_short(prefix, v->string);
        if (x.key && dt_json_has(object, last_name(x.key->path)))
            return dt_config_refuse(r, v, "%s, its other name, is there too; drop one",
                                    last_name(x.key->path));
    }
    if (!x.key)
        return pass_over(r, v, prefix, path);
    return cJSON_IsNull(v) ? 0 : take(r, &x);
}

static int read_block(const struct dt_reading *r, const struct cJSON *object, const char *prefix)
{
    for (const struct cJSON *v = object->child; v; v = v->next)
        if (read_member(r, object, v, prefix) < 0)
            return -1;
    return 0;
}

int dt_config_read(const struct dt_reading *r)
{
    if (!cJSON_IsObject(r->doc->root))
        return dt_err_set(r->err, DT_E_USAGE, "a configuration is a JSON object: { ... }");
    /* A model's config.json has nothing but keys that would be passed over one by one. */
    const struct cJSON *type = cJSON_GetObjectItemCaseSensitive(r->doc->root, "model_type");
    if (type && !dt_json_has(r->doc->root, "model"))
        return dt_config_refuse(r, type,
                                "a file with this key describes a model, and not a run; write a "
                                "configuration whose model.config is the name of this file");
    return read_block(r, r->doc->root, "");
}
