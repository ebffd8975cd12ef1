/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through the lines once. A line whose value is on the lines below looks at the next one: how
 * far that is indented says whether it belongs to the key. */
#include "worker_runtime/config/yaml.h"

#include "base/utf8.h"
#include "worker_runtime/config/yaml_scalar.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 8
#define KEYS_MAX 1000 /* of one mapping: each is compared with those before it */

struct yaml {
    const char *next, *end; /* the lines that were not looked at */
    size_t number;          /* of the line at hand, from 1 on */
    size_t indent;          /* of that line; its text is LINE */
    struct dt_yaml_piece line;
    bool over; /* there is no line any more */
    int depth;
    struct dt_err *err;
};

static int refuse(struct yaml *y, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int refuse(struct yaml *y, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dt_err_set(y->err, DT_E_USAGE, "line %zu: %s", y->number, text);
}

static int no_memory(struct yaml *y)
{
    return dt_err_set(y->err, DT_E_MEMORY, "line %zu: no memory", y->number);
}

static struct cJSON *keep(struct yaml *y, struct cJSON *v)
{
    if (!v)
        no_memory(y);
    return v;
}

/* -- lines ------------------------------------------------------------------------------------ */

static int check_characters(struct yaml *y, const char *from, const char *end)
{
    for (const char *p = from; p < end;) {
        size_t n = dt_utf8_len((const uint8_t *)p, (size_t)(end - p));
        if (n == 0)
            return refuse(y, "this is not UTF-8");
        if ((unsigned char)*p < 0x20 && *p != '\t')
            return refuse(y, "a control character");
        p += n;
    }
    return 0;
}

static bool is_blank(struct dt_yaml_piece p)
{
    dt_yaml_skip(&p);
    return p.at == p.end || *p.at == '#';
}

/* The next line that says something. */
static int advance(struct yaml *y)
{
    while (y->next < y->end) {
        const char *from = y->next;
        const char *stop = memchr(from, '\n', (size_t)(y->end - from));
        y->next = stop ? stop + 1 : y->end;
        y->number++;
        stop = stop ? stop : y->end;
        if (stop > from && stop[-1] == '\r')
            stop--;
        if (check_characters(y, from, stop) < 0)
            return -1;
        y->line = (struct dt_yaml_piece){from, stop};
        if (is_blank(y->line))
            continue;
        y->indent = strspn(from, " ");
        y->line.at += y->indent;
        return *y->line.at == '\t' ? refuse(y, "a tab in front of a key; write blanks") : 0;
    }
    y->over = true;
    return 0;
}

static bool is_item(const struct yaml *y)
{
    struct dt_yaml_piece p = y->line;
    return *p.at == '-' && (p.end - p.at == 1 || p.at[1] == ' ' || p.at[1] == '\t');
}

/* -- values on a line ------------------------------------------------------------------------- */

static struct cJSON *read_value(struct yaml *y, struct dt_yaml_piece *p, bool in_flow);
static struct cJSON *read_nested(struct yaml *y, struct dt_yaml_piece *flow, bool list);

/* What stands behind a value on its line is a comment, or nothing. */
static int check_rest(struct yaml *y, struct dt_yaml_piece p)
{
    dt_yaml_skip(&p);
    if (is_blank(p))
        return 0;
    return refuse(y, "what is \"%.*s\"? A value is over in front of it",
                  (int)(p.end - p.at < 40 ? p.end - p.at : 40), p.at);
}

/* Behind a value in a list: another one follows (1), or CLOSE ends it (0). */
static int read_separator(struct yaml *y, struct dt_yaml_piece *p, char close)
{
    dt_yaml_skip(p);
    if (p->at < p->end && *p->at == close) {
        p->at++;
        return 0;
    }
    if (p->at < p->end && *p->at == ',') {
        p->at++;
        return 1;
    }
    return refuse(y, "%c or , is missing; what begins with %c ends on its line", close,
                  close == ']' ? '[' : '{');
}

static bool closes(struct dt_yaml_piece *p, char close)
{
    dt_yaml_skip(p);
    if (p->at == p->end || *p->at != close)
        return false;
    p->at++;
    return true;
}

/* Owns V. */
static int add_member(struct yaml *y, struct cJSON *object, const char *key, struct cJSON *v)
{
    int rc = 0;
    if (cJSON_GetObjectItemCaseSensitive(object, key))
        rc = refuse(y, "%.60s is there twice", key);
    else if (cJSON_GetArraySize(object) >= KEYS_MAX)
        rc = refuse(y, "more than %d keys", KEYS_MAX);
    else if (!cJSON_AddItemToObject(object, key, v))
        rc = no_memory(y);
    if (rc < 0)
        cJSON_Delete(v);
    return rc;
}

static int read_flow_list(struct yaml *y, struct dt_yaml_piece *p, struct cJSON *list)
{
    int more = !closes(p, ']');
    while (more == 1) {
        if (closes(p, ']')) /* behind a comma */
            return 0;
        struct cJSON *v = read_value(y, p, true);
        if (!v)
            return -1;
        cJSON_AddItemToArray(list, v);
        more = read_separator(y, p, ']');
    }
    return more;
}

/* KEY, up to behind its colon. */
static int read_key(struct yaml *y, struct dt_yaml_piece *p, struct dt_buf *key, bool in_flow)
{
    const char *why = dt_yaml_key(p, key, in_flow);
    if (why)
        return refuse(y, "%s", why);
    return key->bad ? no_memory(y) : 0;
}

static int read_flow_map(struct yaml *y, struct dt_yaml_piece *p, struct cJSON *map)
{
    int more = !closes(p, '}');
    struct dt_buf key = {0};
    while (more == 1) {
        if (closes(p, '}')) {
            more = 0;
            break;
        }
        dt_buf_clear(&key);
        struct cJSON *v = read_key(y, p, &key, true) < 0 ? NULL : read_value(y, p, true);
        more = v && add_member(y, map, dt_buf_cstr(&key), v) == 0 ? read_separator(y, p, '}') : -1;
    }
    dt_buf_finish(&key);
    return more;
}

static struct cJSON *read_flow(struct yaml *y, struct dt_yaml_piece *p)
{
    bool list = *p->at++ == '[';
    return read_nested(y, p, list);
}

static struct cJSON *read_quoted(struct yaml *y, struct dt_yaml_piece *p)
{
    struct dt_buf text = {0};
    struct cJSON *v = NULL;
    const char *why = dt_yaml_quoted(p, &text);
    if (why)
        refuse(y, "%s", why);
    else
        v = keep(y, text.bad ? NULL : cJSON_CreateString(dt_buf_cstr(&text)));
    dt_buf_finish(&text);
    return v;
}

/* One of its own, or one that IN_FLOW is a part of a list. */
static struct cJSON *read_value(struct yaml *y, struct dt_yaml_piece *p, bool in_flow)
{
    dt_yaml_skip(p);
    if (p->at < p->end && (*p->at == '"' || *p->at == '\''))
        return read_quoted(y, p);
    if (p->at < p->end && (*p->at == '[' || *p->at == '{'))
        return read_flow(y, p);
    struct dt_yaml_piece plain = *p;
    const char *why = dt_yaml_plain(p, in_flow, &plain);
    if (!why)
        return keep(y, dt_yaml_resolve(plain));
    refuse(y, "%s", why);
    return NULL;
}

/* -- blocks ----------------------------------------------------------------------------------- */

/* What the lines below the one at hand say of its key; null where they say nothing. */
static struct cJSON *read_below(struct yaml *y, size_t indent)
{
    if (advance(y) < 0)
        return NULL;
    bool deeper = !y->over && y->indent > indent;
    bool list = !y->over && y->indent >= indent && is_item(y);
    return deeper || list ? read_nested(y, NULL, list) : keep(y, cJSON_CreateNull());
}

/* The value of the line at hand, of which P is left; then the next line is at hand. */
static struct cJSON *read_of_key(struct yaml *y, struct dt_yaml_piece p, size_t indent)
{
    if (is_blank(p))
        return read_below(y, indent);
    struct cJSON *v = read_value(y, &p, false);
    if (v && check_rest(y, p) == 0 && advance(y) == 0)
        return v;
    cJSON_Delete(v);
    return NULL;
}

static int read_member(struct yaml *y, struct cJSON *map)
{
    struct dt_buf key = {0};
    struct dt_yaml_piece p = y->line;
    size_t indent = y->indent;
    int rc = is_item(y) ? refuse(y, "an entry of a list where a key is expected")
                        : read_key(y, &p, &key, false);
    struct cJSON *v = rc == 0 ? read_of_key(y, p, indent) : NULL;
    rc = v ? add_member(y, map, dt_buf_cstr(&key), v) : -1;
    dt_buf_finish(&key);
    return rc;
}

static int read_item(struct yaml *y, struct cJSON *list)
{
    struct dt_yaml_piece p = {y->line.at + 1, y->line.end};
    if (is_blank(p))
        return refuse(y, "an entry of a list without a value on its line");
    struct cJSON *v = read_value(y, &p, false);
    if (!v)
        return -1;
    cJSON_AddItemToArray(list, v);
    return check_rest(y, p) < 0 ? -1 : advance(y);
}

/* All lines with the indent of the one at hand. */
static int read_lines(struct yaml *y, struct cJSON *block, bool list)
{
    size_t indent = y->indent;
    while (!y->over && y->indent == indent && (!list || is_item(y)))
        if ((list ? read_item(y, block) : read_member(y, block)) < 0)
            return -1;
    if (!y->over && y->indent > indent)
        return refuse(y, "this line is indented more than the one above it, which has a value");
    return 0;
}

/* A list or a map, of FLOW's brackets or, where that is NULL, of lines. */
static struct cJSON *read_nested(struct yaml *y, struct dt_yaml_piece *flow, bool list)
{
    struct cJSON *v = keep(y, list ? cJSON_CreateArray() : cJSON_CreateObject());
    int rc = v && y->depth >= DEPTH_MAX ? refuse(y, "nested more than %d deep", DEPTH_MAX) : 0;
    y->depth++;
    if (v && rc == 0 && flow)
        rc = list ? read_flow_list(y, flow, v) : read_flow_map(y, flow, v);
    else if (v && rc == 0)
        rc = read_lines(y, v, list);
    y->depth--;
    if (rc == 0)
        return v;
    cJSON_Delete(v);
    return NULL;
}

static bool is_marker(const struct yaml *y)
{
    struct dt_yaml_piece p = {y->line.at, y->line.end};
    if (y->over || y->indent || p.end - p.at < 3 || memcmp(p.at, "---", 3) != 0)
        return false;
    p.at += 3;
    return is_blank(p);
}

static struct cJSON *read_document(struct yaml *y)
{
    if (advance(y) < 0 || (is_marker(y) && advance(y) < 0))
        return NULL;
    if (y->over)
        return keep(y, cJSON_CreateObject());
    struct cJSON *v = read_nested(y, NULL, false);
    if (!v || y->over)
        return v;
    refuse(y, "this line is indented less than those above it");
    cJSON_Delete(v);
    return NULL;
}

int dt_yaml_parse(struct dt_json *doc, const char *text, size_t len, struct dt_err *err)
{
    bool marked = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    struct yaml y = {.err = err};
    doc->root = NULL;
    if (len > DT_YAML_MAX)
        return dt_err_set(err, DT_E_LIMIT, "line 1: %zu bytes; at most %zu are taken", len,
                          DT_YAML_MAX);
    if (len > 0) {
        y.next = text + (marked ? 3 : 0);
        y.end = text + len;
    }
    doc->root = read_document(&y);
    return doc->root ? 0 : -1;
}
