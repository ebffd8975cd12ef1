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

void dt_sheet_add_speed(struct dt_sheet *s, const struct dt_speed *speed)
{
    if (s->speed_count < DT_SHEET_SPEEDS)
        s->speeds[s->speed_count++] = *speed;
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
    for (size_t i = 0; i < from->speed_count; i++)
        dt_sheet_add_speed(s, &from->speeds[i]);
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

static void put_speed(const struct dt_speed *v, struct dt_buf *out)
{
    dt_buf_put_text(out, v->device);
    dt_buf_put_text(out, v->id);
    dt_buf_put_text(out, v->kind);
    dt_buf_put_u64(out, v->flops);
    dt_buf_put_u64(out, v->written);
    dt_buf_put_u64(out, v->got);
}

static void read_speed(struct dt_reader *r, struct dt_speed *v)
{
    dt_read_text(r, v->device, sizeof v->device);
    dt_read_text(r, v->id, sizeof v->id);
    dt_read_text(r, v->kind, sizeof v->kind);
    v->flops = dt_read_u64(r);
    v->written = dt_read_u64(r);
    v->got = dt_read_u64(r);
}

void dt_sheet_put_compared(const struct dt_sheet *s, struct dt_buf *out)
{
    dt_buf_put_u32(out, (uint32_t)s->trait_count);
    for (size_t i = 0; i < s->trait_count; i++) {
        dt_buf_put_text(out, s->traits[i].name);
        dt_buf_put_text(out, s->traits[i].value);
    }
    dt_buf_put_u32(out, (uint32_t)s->speed_count);
    for (size_t i = 0; i < s->speed_count; i++)
        put_speed(&s->speeds[i], out);
}

/* 0: none, or more than MOST. */
static uint32_t read_count(struct dt_reader *r, uint32_t most)
{
    uint32_t count = dt_read_u32(r);
    r->bad = r->bad || count > most;
    return r->bad ? 0 : count;
}

bool dt_sheet_read_compared(struct dt_sheet *s, struct dt_bytes bytes)
{
    struct dt_reader r = dt_reader_over(bytes.at, bytes.len);
    s->trait_count = s->speed_count = 0;
    for (uint32_t left = read_count(&r, DT_SHEET_TRAITS); left > 0 && !r.bad; left--) {
        struct dt_trait *t = &s->traits[s->trait_count++];
        dt_read_text(&r, t->name, sizeof t->name);
        dt_read_text(&r, t->value, sizeof t->value);
    }
    for (uint32_t left = read_count(&r, DT_SHEET_SPEEDS); left > 0 && !r.bad; left--)
        read_speed(&r, &s->speeds[s->speed_count++]);
    return !r.bad && dt_reader_left(&r) == 0;
}
