/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/sheet.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *dt_grade_name(enum dt_grade g)
{
    static const char *const names[] = {
        [DT_GRADE_OK] = "ok",
        [DT_GRADE_NOTE] = "note",
        [DT_GRADE_WARN] = "warn",
        [DT_GRADE_FAIL] = "fail",
    };
    return names[g];
}

void dt_sheet_remark(struct dt_sheet *s, const char *probe, enum dt_grade grade, const char *advice,
                     const char *fmt, ...)
{
    va_list ap;
    if (s->remark_count >= DT_SHEET_REMARKS)
        return;
    struct dt_remark *r = &s->remarks[s->remark_count++];
    r->grade = grade;
    snprintf(r->probe, sizeof r->probe, "%s", probe);
    snprintf(r->advice, sizeof r->advice, "%s", advice ? advice : "");
    va_start(ap, fmt);
    vsnprintf(r->sentence, sizeof r->sentence, fmt, ap);
    va_end(ap);
}

void dt_sheet_set(struct dt_sheet *s, const char *name, const char *fmt, ...)
{
    va_list ap;
    if (s->trait_count >= DT_SHEET_TRAITS)
        return;
    struct dt_trait *t = &s->traits[s->trait_count++];
    snprintf(t->name, sizeof t->name, "%s", name);
    va_start(ap, fmt);
    vsnprintf(t->value, sizeof t->value, fmt, ap);
    va_end(ap);
}

const char *dt_sheet_trait(const struct dt_sheet *s, const char *name)
{
    for (size_t i = 0; i < s->trait_count; i++)
        if (strcmp(s->traits[i].name, name) == 0)
            return s->traits[i].value;
    return NULL;
}

void dt_sheet_add(struct dt_sheet *s, const struct dt_sheet *from)
{
    for (size_t i = 0; i < from->remark_count && s->remark_count < DT_SHEET_REMARKS; i++)
        s->remarks[s->remark_count++] = from->remarks[i];
    for (size_t i = 0; i < from->trait_count && s->trait_count < DT_SHEET_TRAITS; i++)
        s->traits[s->trait_count++] = from->traits[i];
}

enum dt_grade dt_sheet_worst(const struct dt_sheet *s)
{
    enum dt_grade worst = DT_GRADE_OK;
    for (size_t i = 0; i < s->remark_count; i++)
        if (s->remarks[i].grade > worst)
            worst = s->remarks[i].grade;
    return worst;
}

int dt_sheet_status(const struct dt_sheet *s)
{
    enum dt_grade worst = dt_sheet_worst(s);
    return worst == DT_GRADE_FAIL ? 1 : worst == DT_GRADE_WARN ? DT_SHEET_WARNED : 0;
}

void dt_sheet_put_traits(const struct dt_sheet *s, struct dt_buf *out)
{
    dt_buf_put_u32(out, (uint32_t)s->trait_count);
    for (size_t i = 0; i < s->trait_count; i++) {
        dt_buf_put_text(out, s->traits[i].name);
        dt_buf_put_text(out, s->traits[i].value);
    }
}

bool dt_sheet_read_traits(struct dt_sheet *s, struct dt_bytes bytes)
{
    struct dt_reader r = dt_reader_over(bytes.at, bytes.len);
    uint32_t count = dt_read_u32(&r);
    s->trait_count = 0;
    if (count > DT_SHEET_TRAITS)
        return false;
    for (uint32_t i = 0; i < count && !r.bad; i++) {
        struct dt_trait *t = &s->traits[s->trait_count++];
        dt_read_text(&r, t->name, sizeof t->name);
        dt_read_text(&r, t->value, sizeof t->value);
    }
    return !r.bad && dt_reader_left(&r) == 0;
}
