/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/fields.h"

#include "base/clock.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/str.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- numbers as hexadecimal digits ------------------------------------------------------------ */

static bool read_hex64(const char *text, uint64_t *v)
{
    size_t len = strlen(text);
    *v = 0;
    if (len < 1 || len > 16)
        return false;
    for (; *text; text++) {
        if (dt_hex_value(*text) < 0)
            return false;
        *v = *v << 4 | (uint64_t)dt_hex_value(*text);
    }
    return true;
}

/* -- values in a struct ----------------------------------------------------------------------- */

int64_t dt_field_number(const struct dt_field *f, const void *from)
{
    const void *at = (const char *)from + f->at;
    switch (f->kind) {
    case DT_FIELD_INT:
        return *(const int *)at;
    case DT_FIELD_INT64:
    case DT_FIELD_TIME:
        return *(const int64_t *)at;
    case DT_FIELD_BOOL:
        return *(const bool *)at;
    case DT_FIELD_ENUM:
        return *(const unsigned *)at;
    case DT_FIELD_HEX64:
        return (int64_t) * (const uint64_t *)at;
    case DT_FIELD_BYTES:
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
    case DT_FIELD_OBJECT:
        break;
    }
    return 0;
}

static void set_number(const struct dt_field *f, void *to, int64_t v)
{
    void *at = (char *)to + f->at;
    switch (f->kind) {
    case DT_FIELD_INT:
        *(int *)at = (int)v;
        return;
    case DT_FIELD_INT64:
    case DT_FIELD_TIME:
        *(int64_t *)at = v;
        return;
    case DT_FIELD_BOOL:
        *(bool *)at = v != 0;
        return;
    case DT_FIELD_ENUM:
        *(unsigned *)at = (unsigned)v;
        return;
    case DT_FIELD_HEX64:
        *(uint64_t *)at = (uint64_t)v;
        return;
    case DT_FIELD_BYTES:
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
    case DT_FIELD_OBJECT:
        assert(!"these are no numbers");
    }
}

static bool is_within(const struct dt_field *f, int64_t v)
{
    switch (f->kind) {
    case DT_FIELD_INT:
    case DT_FIELD_INT64:
        return v >= f->min && v <= f->max;
    case DT_FIELD_TIME:
        return (v >= f->min && v <= f->max) || (v == DT_FOREVER && f->max == DT_FIELD_FOREVER);
    case DT_FIELD_BOOL:
        return v == 0 || v == 1;
    case DT_FIELD_ENUM:
        return v >= 0 && v < f->max;
    case DT_FIELD_HEX64:
    case DT_FIELD_BYTES:
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
    case DT_FIELD_OBJECT:
        break;
    }
    return true;
}

bool dt_field_fits(const struct dt_field *f, const void *from)
{
    return is_within(f, dt_field_number(f, from));
}

static const char *text_of(const struct dt_field *f, const void *from)
{
    const void *at = (const char *)from + f->at;
    const char *text = f->kind == DT_FIELD_TEXT ? at : *(const char *const *)at;
    return text ? text : "";
}

static bool is_text(const struct dt_field *f)
{
    return f->kind == DT_FIELD_STRING || f->kind == DT_FIELD_TEXT;
}

static void clear_all(const struct dt_field *f, void *to);

static bool is_equal(const void *a, const void *b, const struct dt_field *f)
{
    if (is_text(f))
        return strcmp(text_of(f, a), text_of(f, b)) == 0;
    if (f->kind == DT_FIELD_BYTES)
        return memcmp((const char *)a + f->at, (const char *)b + f->at, (size_t)f->max) == 0;
    return dt_field_number(f, a) == dt_field_number(f, b);
}

bool dt_fields_equal(const void *a, const void *b, const struct dt_field *f)
{
    for (; f->name; f++)
        if (!is_equal(a, b, f))
            return false;
    return true;
}

/* What F is where it was left out. */
static void clear(const struct dt_field *f, void *to)
{
    char *at = (char *)to + f->at;
    if (f->kind == DT_FIELD_STRING)
        *(const char **)at = "";
    else if (f->kind == DT_FIELD_TEXT)
        *at = '\0';
    else if (f->kind == DT_FIELD_OBJECT)
        clear_all(f->fields, at);
    else
        set_number(f, to, 0);
}

static void clear_all(const struct dt_field *f, void *to)
{
    for (; f->name; f++)
        clear(f, to);
}

/* To be written. One that no reader would take is nothing to send quietly, nor is another one. */
static int64_t checked_number(const struct dt_field *f, const void *from)
{
    int64_t v = dt_field_number(f, from);
    if (!is_within(f, v))
        dt_bug("%s is %" PRId64 ", and not from %" PRId64 " to %" PRId64, f->name, v, f->min,
               f->max);
    return v;
}

/* -- writing ---------------------------------------------------------------------------------- */

static bool is_left_out(const struct dt_field *f, const void *from)
{
    if (!f->optional)
        return false;
    if (f->kind == DT_FIELD_OBJECT)
        return dt_field_number(f->fields, (const char *)from + f->at) == 0;
    return is_text(f) ? !*text_of(f, from) : dt_field_number(f, from) == 0;
}

static void put_number(struct dt_buf *out, const void *from, const struct dt_field *f)
{
    int64_t v = checked_number(f, from);
    bool endless = f->kind == DT_FIELD_TIME && v == DT_FOREVER;
    dt_buf_printf(out, "%" PRId64, endless ? DT_FIELD_FOREVER : v);
}

static void put_hex(struct dt_buf *out, const uint8_t *bytes, size_t len)
{
    char text[2 * DT_FIELD_BYTES_MAX + 1];
    assert(len <= DT_FIELD_BYTES_MAX);
    dt_hex(bytes, len, text);
    dt_buf_put_str(out, text);
}

static void put_value(struct dt_buf *out, const void *from, const struct dt_field *f)
{
    const void *at = (const char *)from + f->at;
    switch (f->kind) {
    case DT_FIELD_INT:
    case DT_FIELD_INT64:
    case DT_FIELD_TIME:
        put_number(out, from, f);
        return;
    case DT_FIELD_BOOL:
        dt_buf_put_str(out, *(const bool *)at ? "true" : "false");
        return;
    case DT_FIELD_HEX64:
        dt_buf_printf(out, "\"%" PRIx64 "\"", *(const uint64_t *)at);
        return;
    case DT_FIELD_BYTES:
        dt_buf_put_u8(out, '"');
        put_hex(out, at, (size_t)f->max);
        dt_buf_put_u8(out, '"');
        return;
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
        dt_json_quote_most(out, text_of(f, from), strlen(text_of(f, from)), (size_t)f->max);
        return;
    case DT_FIELD_ENUM:
        dt_buf_printf(out, "\"%s\"", f->value_name((int)dt_field_number(f, from)));
        return;
    case DT_FIELD_OBJECT:
        dt_buf_put_u8(out, '{');
        dt_fields_put(out, at, f->fields);
        dt_buf_put_u8(out, '}');
        return;
    }
}

void dt_fields_put(struct dt_buf *out, const void *from, const struct dt_field *f)
{
    for (; f->name; f++) {
        if (is_left_out(f, from))
            continue;
        if (!out->bad && out->len > 0 && out->at[out->len - 1] != '{')
            dt_buf_put_u8(out, ',');
        dt_buf_put_u8(out, '"');
        dt_buf_put_str(out, f->name);
        dt_buf_put(out, "\":", 2);
        put_value(out, from, f);
    }
}

/* -- reading ---------------------------------------------------------------------------------- */

struct reading {
    const struct dt_json *doc;
    const struct cJSON *object;
    struct dt_err *err;
};

/* "node.name" */
static const char *path_of(const struct reading *r, const struct dt_field *f, char *out,
                           size_t size)
{
    char object[160];
    if (r->object != r->doc->root)
        snprintf(out, size, "%s.%s", dt_json_path(r->doc, r->object, object, sizeof object),
                 f->name);
    else
        snprintf(out, size, "%s", f->name);
    return out;
}

static int unexpected(const struct reading *r, const struct dt_field *f, const char *found,
                      const char *wanted)
{
    char path[200], text[64];
    return dt_err_set(r->err, DT_E_PROTOCOL, "%s: expected %s, found \"%s\"",
                      path_of(r, f, path, sizeof path), wanted,
                      dt_str_printable(dt_bytes_of(found), text, sizeof text));
}

static int get_number(const struct reading *r, const struct dt_field *f, void *to)
{
    int64_t v;
    if (dt_json_int(r->doc, r->object, f->name, f->min, f->max, &v, r->err) < 0)
        return -1;
    set_number(f, to, f->kind == DT_FIELD_TIME && v == DT_FIELD_FOREVER ? DT_FOREVER : v);
    return 0;
}

static int get_words(const struct reading *r, const struct dt_field *f, const char *text, void *at)
{
    char path[200];
    size_t len = strlen(text);
    if (len < (size_t)f->min)
        return unexpected(r, f, text, "at least one character");
    if (len > (size_t)f->max)
        return dt_err_set(r->err, DT_E_PROTOCOL, "%s: %zu bytes; at most %d are taken",
                          path_of(r, f, path, sizeof path), len, (int)f->max);
    if (f->kind == DT_FIELD_TEXT)
        memcpy(at, text, len + 1);
    else
        *(const char **)at = text;
    return 0;
}

static int get_enum(const struct reading *r, const struct dt_field *f, const char *text, void *at)
{
    for (int v = 0; v < f->max; v++)
        if (strcmp(text, f->value_name(v)) == 0) {
            *(unsigned *)at = (unsigned)v;
            return 0;
        }
    return unexpected(r, f, text, "a word that version 1 of the protocol has for it");
}

/* What goes as a JSON string, whatever it stands for. */
static int get_text(const struct reading *r, const struct dt_field *f, void *at)
{
    const char *text;
    if (dt_json_string(r->doc, r->object, f->name, &text, r->err) < 0)
        return -1;
    if (is_text(f))
        return get_words(r, f, text, at);
    if (f->kind == DT_FIELD_ENUM)
        return get_enum(r, f, text, at);
    if (f->kind == DT_FIELD_HEX64)
        return read_hex64(text, at) ? 0 : unexpected(r, f, text, "1 to 16 hexadecimal digits");
    char wanted[40];
    snprintf(wanted, sizeof wanted, "%d hexadecimal digits", 2 * (int)f->max);
    return dt_hex_read(text, at, (size_t)f->max) ? 0 : unexpected(r, f, text, wanted);
}

static int get_value(const struct reading *r, const struct dt_field *f, void *to)
{
    void *at = (char *)to + f->at;
    const struct cJSON *inner;
    switch (f->kind) {
    case DT_FIELD_INT:
    case DT_FIELD_INT64:
    case DT_FIELD_TIME:
        return get_number(r, f, to);
    case DT_FIELD_BOOL:
        return dt_json_bool(r->doc, r->object, f->name, at, r->err);
    case DT_FIELD_HEX64:
    case DT_FIELD_BYTES:
    case DT_FIELD_STRING:
    case DT_FIELD_TEXT:
    case DT_FIELD_ENUM:
        return get_text(r, f, at);
    case DT_FIELD_OBJECT:
        if (dt_json_object(r->doc, r->object, f->name, &inner, r->err) < 0)
            return -1;
        return dt_fields_get(r->doc, inner, f->fields, at, r->err);
    }
    return -1;
}

int dt_fields_get(const struct dt_json *doc, const struct cJSON *object,
                  const struct dt_field *fields, void *to, struct dt_err *err)
{
    struct reading r = {.doc = doc, .object = object ? object : doc->root, .err = err};
    for (const struct dt_field *f = fields; f->name; f++) {
        if (f->optional && !dt_json_has(r.object, f->name))
            clear(f, to);
        else if (get_value(&r, f, to) < 0)
            return -1;
    }
    return 0;
}

/* -- as bytes --------------------------------------------------------------------------------- */

void dt_fields_pack(struct dt_buf *out, const void *from, const struct dt_field *f)
{
    for (; f->name; f++) {
        assert(f->kind != DT_FIELD_BYTES && f->kind != DT_FIELD_STRING &&
               f->kind != DT_FIELD_OBJECT);
        if (f->kind == DT_FIELD_TEXT)
            dt_buf_put_text(out, text_of(f, from));
        else
            dt_buf_put_i64(out, checked_number(f, from));
    }
}

static void unpack_value(struct dt_reader *in, void *to, const struct dt_field *f)
{
    if (f->kind == DT_FIELD_TEXT) {
        dt_read_text(in, (char *)to + f->at, (size_t)f->max + 1);
        return;
    }
    int64_t v = dt_read_i64(in);
    in->bad = in->bad || !is_within(f, v);
    set_number(f, to, v);
}

void dt_fields_unpack(struct dt_reader *in, void *to, const struct dt_field *fields, size_t count)
{
    for (const struct dt_field *f = fields; f->name; f++) {
        bool ended = f->optional && dt_reader_left(in) == 0;
        if ((size_t)(f - fields) >= count || ended)
            clear(f, to);
        else
            unpack_value(in, to, f);
    }
}
