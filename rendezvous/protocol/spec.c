/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/protocol/spec.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define KIND_NUMBER DT_FIELD_INT
#define KIND_TIME DT_FIELD_TIME
#define KIND_TRUTH DT_FIELD_BOOL
#define KIND_HASH DT_FIELD_HEX64
#define KIND_TEXT DT_FIELD_TEXT

/* clang-format off */
#define FIELD(kind_, member, least, most, later) \
    {.name = #member, .kind = kind_, .optional = later, .at = offsetof(struct dt_run_spec, member), \
     .min = least, .max = most},
#define ROW_FIELD(kind, member, least, most, ...) FIELD(KIND_##kind, member, least, most, false)
#define LATER_FIELD(kind, member, least, most, ...) FIELD(KIND_##kind, member, least, most, true)
#define LOOK(kind, member, least, most, ...) {__VA_ARGS__},
/* clang-format on */

const struct dt_field dt_spec_fields[] = {DT_RUN_SPEC(ROW_FIELD, LATER_FIELD){0}};
const struct dt_spec_look dt_spec_looks[] = {DT_RUN_SPEC(LOOK, LOOK)};

static const char *text_of(size_t row, int64_t v, char *out, size_t size)
{
    const struct dt_field *f = &dt_spec_fields[row];
    const char *const *words = dt_spec_looks[row].words;
    if (f->kind == DT_FIELD_BOOL)
        snprintf(out, size, "%s", words[v] ? words[v] : v ? "yes" : "no");
    else if (v == f->min && words[0])
        snprintf(out, size, "%s", words[0]);
    else if (f->kind == DT_FIELD_TIME && v == DT_FOREVER)
        snprintf(out, size, "for ever");
    else if (f->kind == DT_FIELD_TIME)
        dt_str_from_duration(v, out, size);
    else
        snprintf(out, size, "%" PRId64, v);
    return out;
}

const char *dt_spec_text(const struct dt_run_spec *spec, size_t row, char *out, size_t size)
{
    const struct dt_field *f = &dt_spec_fields[row];
    if (f->kind != DT_FIELD_TEXT)
        return text_of(row, dt_field_number(f, spec), out, size);
    snprintf(out, size, "%s", (const char *)spec + f->at);
    return out;
}

bool dt_spec_is_same(const struct dt_run_spec *a, const struct dt_run_spec *b, size_t row)
{
    const struct dt_field *f = &dt_spec_fields[row];
    if (f->kind == DT_FIELD_TEXT)
        return strcmp((const char *)a + f->at, (const char *)b + f->at) == 0;
    return dt_field_number(f, a) == dt_field_number(f, b);
}

int dt_spec_check(const struct dt_run_spec *spec, size_t *row, struct dt_err *err)
{
    char text[32], least[32], most[32];
    for (*row = 0; dt_spec_fields[*row].name; ++*row) {
        const struct dt_field *f = &dt_spec_fields[*row];
        int64_t v = dt_field_number(f, spec);
        if (!dt_field_fits(f, spec))
            return dt_err_set(err, DT_E_USAGE, "%s is too %s; give %s to %s",
                              text_of(*row, v, text, sizeof text), v < f->min ? "little" : "much",
                              text_of(*row, f->min, least, sizeof least),
                              text_of(*row, f->max, most, sizeof most));
    }
    return 0;
}
