/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/table.h"

#include "base/utf8.h"

#include <string.h>

#define PROBE_WIDTH 11 /* of the longest name, and a blank */
#define INDENT (5 + PROBE_WIDTH)
#define NARROWEST 48

static const char *const colours[] = {
    [DT_GRADE_OK] = "\033[32m",
    [DT_GRADE_NOTE] = "",
    [DT_GRADE_WARN] = "\033[33m",
    [DT_GRADE_FAIL] = "\033[1;31m",
};

/* Words of TEXT in lines of COLUMNS, all but the first INDENT blanks in. */
static void put_wrapped(struct dt_buf *out, const char *text, size_t columns)
{
    size_t at = INDENT;
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at > INDENT && at + 1 + n > columns) {
            dt_buf_printf(out, "\n%*s", INDENT, "");
            at = INDENT;
        } else if (at > INDENT) {
            dt_buf_put_str(out, " ");
            at++;
        }
        dt_buf_printf(out, "%.*s", (int)n, text);
        at += n;
        text += n;
        text += strspn(text, " ");
    }
    dt_buf_put_str(out, "\n");
}

/* Names of files and answers of the system are among the words. */
static void put_remark(const struct dt_remark *r, bool colour, size_t columns, struct dt_buf *out)
{
    struct dt_buf raw = {0}, text = {0};
    const char *on = colour ? colours[r->grade] : "", *off = *on ? "\033[0m" : "";
    dt_buf_put_str(&raw, r->sentence);
    if (*r->advice)
        dt_buf_printf(&raw, " (%s)", r->advice);
    dt_utf8_put_visible(&text, dt_buf_cstr(&raw), "");
    dt_buf_printf(out, "%s%-4s%s %-*s", on,
                  r->grade == DT_GRADE_FAIL ? "FAIL" : dt_grade_name(r->grade), off, PROBE_WIDTH,
                  r->probe);
    put_wrapped(out, dt_buf_cstr(&text), columns);
    dt_buf_finish(&text);
    dt_buf_finish(&raw);
}

void dt_table_put(const struct dt_sheet *s, bool colour, size_t columns, struct dt_buf *out)
{
    if (columns < NARROWEST)
        columns = NARROWEST;
    for (int grade = DT_GRADE_FAIL; grade >= DT_GRADE_OK; grade--)
        for (size_t i = 0; i < s->remark_count; i++)
            if (s->remarks[i].grade == (enum dt_grade)grade)
                put_remark(&s->remarks[i], colour, columns, out);
}

static void put_json_remark(const struct dt_remark *r, struct dt_json_writer *w)
{
    dt_json_put_object(w, NULL);
    dt_json_put_text(w, "grade", dt_grade_name(r->grade));
    dt_json_put_text(w, "probe", r->probe);
    dt_json_put_text(w, "sentence", r->sentence);
    dt_json_put_text(w, "advice", *r->advice ? r->advice : NULL);
    dt_json_put_end(w);
}

static void put_json_speed(const struct dt_speed *v, struct dt_json_writer *w)
{
    dt_json_put_object(w, NULL);
    dt_json_put_text(w, "device", v->device);
    dt_json_put_text(w, "id", *v->id ? v->id : NULL);
    dt_json_put_text(w, "kind", v->kind);
    dt_json_put_uint(w, "flops", v->flops);
    dt_json_put_uint(w, "written", v->written);
    dt_json_put_uint(w, "got", v->got);
    dt_json_put_end(w);
}

void dt_table_put_json(const struct dt_sheet *s, struct dt_json_writer *w)
{
    dt_json_put_object(w, NULL);
    dt_json_put_text(w, "verdict", dt_grade_name(dt_sheet_worst(s)));
    dt_json_put_array(w, "remarks");
    for (size_t i = 0; i < s->remark_count; i++)
        put_json_remark(&s->remarks[i], w);
    dt_json_put_end(w);
    dt_json_put_object(w, "traits");
    for (size_t i = 0; i < s->trait_count; i++)
        dt_json_put_text(w, s->traits[i].name, s->traits[i].value);
    dt_json_put_end(w);
    dt_json_put_array(w, "speeds");
    for (size_t i = 0; i < s->speed_count; i++)
        put_json_speed(&s->speeds[i], w);
    dt_json_put_end(w);
    dt_json_put_end(w);
}
