/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_write.h"

#include "base/json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

static void put_line(struct dt_json_writer *w)
{
    dt_buf_printf(w->out, "\n%*s", 2 * w->depth, "");
}

/* All that stands before a value. */
static void put_name(struct dt_json_writer *w, const char *name)
{
    bool spaced = w->style == DT_JSON_SPACED;
    if (w->follows)
        dt_buf_put_u8(w->out, ',');
    if (w->depth > 0 && w->depth <= w->lines)
        put_line(w);
    else if (w->follows && spaced)
        dt_buf_put_u8(w->out, ' ');
    if (name) {
        dt_json_quote(w->out, name, strlen(name));
        dt_buf_put_str(w->out, spaced ? ": " : ":");
    }
    w->follows = true;
}

static void begin(struct dt_json_writer *w, const char *name, bool array)
{
    put_name(w, name);
    assert(w->depth < DT_JSON_DEPTH);
    dt_buf_put_u8(w->out, array ? '[' : '{');
    w->arrays = array ? w->arrays | 1u << w->depth : w->arrays & ~(1u << w->depth);
    w->depth++;
    w->follows = false;
}

void dt_json_put_object(struct dt_json_writer *w, const char *name)
{
    begin(w, name, false);
}

void dt_json_put_array(struct dt_json_writer *w, const char *name)
{
    begin(w, name, true);
}

void dt_json_put_end(struct dt_json_writer *w)
{
    bool on_lines = w->follows && w->depth <= w->lines;
    assert(w->depth > 0);
    w->depth--;
    if (on_lines)
        put_line(w);
    dt_buf_put_u8(w->out, w->arrays >> w->depth & 1 ? ']' : '}');
    w->follows = true;
}

void dt_json_put_text(struct dt_json_writer *w, const char *name, const char *text)
{
    put_name(w, name);
    if (text)
        dt_json_quote(w->out, text, strlen(text));
    else
        dt_buf_put_str(w->out, "null");
}

void dt_json_put_int(struct dt_json_writer *w, const char *name, int64_t value)
{
    dt_json_put_raw(w, name, "%" PRId64, value);
}

void dt_json_put_uint(struct dt_json_writer *w, const char *name, uint64_t value)
{
    dt_json_put_raw(w, name, "%" PRIu64, value);
}

void dt_json_put_bool(struct dt_json_writer *w, const char *name, bool value)
{
    dt_json_put_raw(w, name, "%s", value ? "true" : "false");
}

void dt_json_put_null(struct dt_json_writer *w, const char *name)
{
    dt_json_put_text(w, name, NULL);
}

void dt_json_put_number(struct dt_json_writer *w, const char *name, double value)
{
    if (isfinite(value))
        dt_json_put_raw(w, name, "%.17g", value);
    else
        dt_json_put_null(w, name);
}

void dt_json_put_raw(struct dt_json_writer *w, const char *name, const char *fmt, ...)
{
    va_list ap;
    put_name(w, name);
    va_start(ap, fmt);
    dt_buf_vprintf(w->out, fmt, ap);
    va_end(ap);
}
