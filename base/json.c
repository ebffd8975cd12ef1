/* SPDX-License-Identifier: Apache-2.0 */
/* cJSON takes more than JSON: control characters, broken UTF-8, "\u0000" that cuts a string short.
 * So a scan over the text comes first and refuses those; what cJSON then says about structure
 * stands. */
#include "base/json.h"

#include "base/str.h"
#include "base/utf8.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 100
#define PATH_TEXT 200
/* Beyond this a double, which is all cJSON keeps, may not be the number that was written. */
#define EXACT_MAX ((int64_t)1 << 53)

/* "line 3, column 7: WHY". Columns count bytes. */
static int no_json(const char *text, size_t at, const char *why, struct dt_err *err)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = text[i] == '\n' ? 1 : column + 1;
        line += text[i] == '\n';
    }
    return dt_err_set(err, DT_E_USAGE, "line %zu, column %zu: %s", line, column, why);
}

/* How many bytes from S on stand for themselves in a string. Most do, so that nothing else is asked
 * about them one by one. */
static size_t plain_run(const uint8_t *s, size_t len)
{
    size_t n = 0;
    while (n < len && s[n] >= 0x20 && s[n] < 0x7f && s[n] != '"' && s[n] != '\\')
        n++;
    return n;
}

/* What is wrong with the character at TEXT[I], or NULL. */
static const char *wrong_char(const uint8_t *text, size_t i, size_t len, bool in_string)
{
    static const uint8_t nul[] = "\\u0000";
    uint8_t c = text[i];
    if (c < 0x20 && (in_string || !(c == '\t' || c == '\n' || c == '\r')))
        return in_string ? "a control character in a string" : "a control character";
    if (in_string && len - i >= 6 && memcmp(text + i, nul, 6) == 0)
        return "\\u0000 in a string";
    return dt_utf8_len(text + i, len - i) ? NULL : "this is not UTF-8";
}

static int scan(const char *bytes, size_t len, struct dt_err *err)
{
    const uint8_t *text = (const uint8_t *)bytes;
    bool in_string = false;
    int depth = 0;
    for (size_t i = 0; i < len;) {
        size_t plain = in_string ? plain_run(text + i, len - i) : 0;
        if (plain) {
            i += plain;
            continue;
        }
        const char *wrong = wrong_char(text, i, len, in_string);
        if (wrong)
            return no_json(bytes, i, wrong, err);
        uint8_t c = text[i];
        if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '[' || c == '{') && ++depth > DEPTH_MAX)
            return no_json(bytes, i, "nested more than 100 deep", err);
        else if (!in_string && (c == ']' || c == '}'))
            depth--;
        /* Behind a backslash a quote ends nothing; a newline there is still to be found. */
        if (in_string && c == '\\' && i + 1 < len && (text[i + 1] == '"' || text[i + 1] == '\\'))
            i++;
        i += dt_utf8_len(text + i, len - i);
    }
    return in_string || depth > 0 ? no_json(bytes, len, "the JSON ends early", err) : 0;
}

int dt_json_parse(struct dt_json *doc, const char *text, size_t len, size_t max, struct dt_err *err)
{
    doc->root = NULL;
    if (len > max)
        return dt_err_set(err, DT_E_LIMIT, "%zu bytes of JSON; at most %zu are taken", len, max);
    if (scan(text, len, err) < 0)
        return -1;
    const char *end = text;
    doc->root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    size_t at = end ? (size_t)(end - text) : 0;
    if (!doc->root)
        return no_json(text, at < len ? at : len,
                       at < len ? "this is no JSON" : "the JSON ends early", err);
    while (at < len && strchr(" \t\r\n", text[at]))
        at++;
    if (at == len)
        return 0;
    dt_json_finish(doc);
    return no_json(text, at, "something follows the JSON", err);
}

void dt_json_finish(struct dt_json *doc)
{
    cJSON_Delete(doc->root);
    doc->root = NULL;
}

/* Writes into PATH, from AT on, how NODE is reached from HERE. */
static bool find_path(const struct cJSON *here, const struct cJSON *node, char *path, size_t at)
{
    if (here == node)
        return true;
    int index = 0;
    for (const struct cJSON *c = here->child; c; c = c->next, index++) {
        char name[64];
        size_t left = PATH_TEXT - at, n;
        if (cJSON_IsArray(here))
            n = (size_t)snprintf(path + at, left, "[%d]", index);
        else
            n = (size_t)snprintf(path + at, left, "%s%s", at ? "." : "",
                                 dt_str_printable(dt_bytes_of(c->string), name, sizeof name));
        if (find_path(c, node, path, n < left ? at + n : PATH_TEXT - 1))
            return true;
        path[at] = '\0';
    }
    return false;
}

const char *dt_json_path(const struct dt_json *doc, const struct cJSON *node, char *out,
                         size_t size)
{
    char path[PATH_TEXT] = "";
    bool inside = doc->root && node && find_path(doc->root, node, path, 0);
    snprintf(out, size, "%s", inside && *path ? path : "the document");
    return out;
}

/* How an error shows what stands there. */
static const char *shown(const struct cJSON *v, char out[64])
{
    char text[56];
    if (cJSON_IsString(v))
        snprintf(out, 64, "\"%s\"",
                 dt_str_printable(dt_bytes_of(v->valuestring), text, sizeof text));
    else if (cJSON_IsNumber(v))
        snprintf(out, 64, "%.16g", v->valuedouble);
    else if (cJSON_IsBool(v))
        snprintf(out, 64, cJSON_IsTrue(v) ? "true" : "false");
    else
        snprintf(out, 64, cJSON_IsNull(v) ? "null" : cJSON_IsArray(v) ? "an array" : "an object");
    return out;
}

static int unexpected(const struct dt_json *doc, const struct cJSON *v, const char *wanted,
                      struct dt_err *err)
{
    char path[PATH_TEXT], found[64];
    return dt_err_set(err, DT_E_USAGE, "%s: expected %s, found %s",
                      dt_json_path(doc, v, path, sizeof path), wanted, shown(v, found));
}

static const struct cJSON *member(const struct dt_json *doc, const struct cJSON *object,
                                  const char *name, struct dt_err *err)
{
    char path[PATH_TEXT];
    if (!object)
        object = doc->root;
    if (!cJSON_IsObject(object)) {
        unexpected(doc, object, "an object", err);
        return NULL;
    }
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!v)
        dt_err_set(err, DT_E_USAGE, "%s: \"%s\" is missing",
                   dt_json_path(doc, object, path, sizeof path), name);
    return v;
}

int dt_json_string(const struct dt_json *doc, const struct cJSON *object, const char *name,
                   const char **out, struct dt_err *err)
{
    const struct cJSON *v = member(doc, object, name, err);
    if (!v)
        return -1;
    if (!cJSON_IsString(v))
        return unexpected(doc, v, "a string", err);
    *out = v->valuestring;
    return 0;
}

int dt_json_int(const struct dt_json *doc, const struct cJSON *object, const char *name,
                int64_t min, int64_t max, int64_t *out, struct dt_err *err)
{
    const struct cJSON *v = member(doc, object, name, err);
    if (!v)
        return -1;
    if (!cJSON_IsNumber(v) || v->valuedouble != floor(v->valuedouble))
        return unexpected(doc, v, "a whole number", err);
    if (min < -EXACT_MAX)
        min = -EXACT_MAX;
    if (max > EXACT_MAX)
        max = EXACT_MAX;
    if (v->valuedouble < (double)min || v->valuedouble > (double)max) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "a whole number from %lld to %lld", (long long)min,
                 (long long)max);
        return unexpected(doc, v, wanted, err);
    }
    *out = (int64_t)v->valuedouble;
    return 0;
}

int dt_json_number(const struct dt_json *doc, const struct cJSON *object, const char *name,
                   double *out, struct dt_err *err)
{
    const struct cJSON *v = member(doc, object, name, err);
    if (!v)
        return -1;
    if (!cJSON_IsNumber(v) || !isfinite(v->valuedouble))
        return unexpected(doc, v, "a number", err);
    *out = v->valuedouble;
    return 0;
}

int dt_json_bool(const struct dt_json *doc, const struct cJSON *object, const char *name, bool *out,
                 struct dt_err *err)
{
    const struct cJSON *v = member(doc, object, name, err);
    if (!v)
        return -1;
    if (!cJSON_IsBool(v))
        return unexpected(doc, v, "true or false", err);
    *out = cJSON_IsTrue(v);
    return 0;
}

int dt_json_object(const struct dt_json *doc, const struct cJSON *object, const char *name,
                   const struct cJSON **out, struct dt_err *err)
{
    const struct cJSON *v = member(doc, object, name, err);
    if (!v)
        return -1;
    if (!cJSON_IsObject(v))
        return unexpected(doc, v, "an object", err);
    *out = v;
    return 0;
}

int dt_json_array(const struct dt_json *doc, const struct cJSON *object, const char *name,
                  const struct cJSON **out, struct dt_err *err)
{
    const struct cJSON *v = member(doc, object, name, err);
    if (!v)
        return -1;
    if (!cJSON_IsArray(v))
        return unexpected(doc, v, "an array", err);
    *out = v;
    return 0;
}

const struct cJSON *dt_json_first(const struct cJSON *array)
{
    return array->child;
}

const struct cJSON *dt_json_next(const struct cJSON *element)
{
    return element->next;
}

bool dt_json_has(const struct cJSON *object, const char *name)
{
    const struct cJSON *v = cJSON_GetObjectItemCaseSensitive(object, name);
    return v && !cJSON_IsNull(v);
}

static bool listed(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

int dt_json_only(const struct dt_json *doc, const struct cJSON *object, const char *const *names,
                 struct dt_err *err)
{
    char path[PATH_TEXT];
    if (!object)
        object = doc->root;
    if (!cJSON_IsObject(object))
        return unexpected(doc, object, "an object", err);
    for (const struct cJSON *c = object->child; c; c = c->next)
        if (!listed(c->string, names))
            return dt_err_set(err, DT_E_USAGE, "%s: there is no such setting",
                              dt_json_path(doc, c, path, sizeof path));
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct cJSON *const *)a)->string,
                  (*(const struct cJSON *const *)b)->string);
}

/* A member of OBJECT whose name another has too, or NULL. Sorted first, as objects may be large. */
static const struct cJSON *find_duplicate(const struct cJSON *object, bool *no_memory)
{
    size_t count = 0, i = 0;
    for (const struct cJSON *c = object->child; c; c = c->next)
        count++;
    const struct cJSON **all = malloc((count + 1) * sizeof *all), *found = NULL;
    *no_memory = !all;
    if (!all)
        return NULL;
    for (const struct cJSON *c = object->child; c; c = c->next)
        all[i++] = c;
    qsort(all, count, sizeof *all, by_name);
    for (i = 1; i < count && !found; i++)
        found = by_name(&all[i - 1], &all[i]) == 0 ? all[i] : NULL;
    free(all);
    return found;
}

static int no_duplicates_in(const struct dt_json *doc, const struct cJSON *v, struct dt_err *err)
{
    char path[PATH_TEXT];
    bool no_memory = false;
    const struct cJSON *twice = cJSON_IsObject(v) ? find_duplicate(v, &no_memory) : NULL;
    if (no_memory)
        return dt_err_set(err, DT_E_MEMORY, "no memory to check %s",
                          dt_json_path(doc, v, path, sizeof path));
    if (twice)
        return dt_err_set(err, DT_E_USAGE, "%s: it is there twice",
                          dt_json_path(doc, twice, path, sizeof path));
    for (const struct cJSON *c = v->child; c; c = c->next)
        if (no_duplicates_in(doc, c, err) < 0)
            return -1;
    return 0;
}

int dt_json_no_duplicates(const struct dt_json *doc, struct dt_err *err)
{
    return no_duplicates_in(doc, doc->root, err);
}

static void quote_ascii(struct dt_buf *out, uint8_t c)
{
    static const char short_forms[0x20] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    if (c == '"' || c == '\\')
        dt_buf_printf(out, "\\%c", c);
    else if (c < 0x20 && short_forms[c])
        dt_buf_printf(out, "\\%c", short_forms[c]);
    else
        dt_buf_printf(out, "\\u%04x", c);
}

void dt_json_quote_most(struct dt_buf *out, const char *text, size_t len, size_t most)
{
    static const char stand_in[] = "\xef\xbf\xbd"; /* U+FFFD */
    const uint8_t *s = (const uint8_t *)text;
    dt_buf_put_u8(out, '"');
    for (size_t i = 0, n; i < len; i += n ? n : 1) {
        n = plain_run(s + i, len - i < most ? len - i : most);
        if (n) {
            dt_buf_put(out, s + i, n);
            most -= n;
            continue;
        }
        n = dt_utf8_len(s + i, len - i);
        size_t read_as = n ? n : strlen(stand_in);
        if (read_as > most)
            break;
        most -= read_as;
        if (n == 1 && (s[i] < 0x20 || s[i] == '"' || s[i] == '\\' || s[i] == 0x7f))
            quote_ascii(out, s[i]);
        else if (n > 1 && dt_utf8_steers(s + i, n))
            dt_buf_printf(out, "\\u%04x", dt_utf8_code(s + i, n));
        else if (n)
            dt_buf_put(out, s + i, n);
        else
            dt_buf_put_str(out, stand_in);
    }
    dt_buf_put_u8(out, '"');
}

void dt_json_quote(struct dt_buf *out, const char *text, size_t len)
{
    dt_json_quote_most(out, text, len, SIZE_MAX);
}

/* Such a character stands in strings alone. */
static char *escape_steering(const char *json)
{
    struct dt_buf out = {0};
    const uint8_t *s = (const uint8_t *)json;
    for (size_t left = strlen(json), n; left > 0; s += n, left -= n) {
        n = dt_utf8_len(s, left);
        if (n && dt_utf8_steers(s, n))
            dt_buf_printf(&out, "\\u%04x", dt_utf8_code(s, n));
        else
            dt_buf_put(&out, s, n = n ? n : 1);
    }
    dt_buf_put_u8(&out, '\0');
    if (!out.bad)
        return (char *)out.at;
    dt_buf_finish(&out);
    return NULL;
}

char *dt_json_text(const struct cJSON *value)
{
    char *raw = cJSON_PrintUnformatted(value);
    char *text = raw ? escape_steering(raw) : NULL;
    cJSON_free(raw);
    return text;
}
