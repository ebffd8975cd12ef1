/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a config file. All from memory, so that a fuzzer can drive it. */
#include "base/opt/given.h"

#include "base/buf.h"
#include "base/str.h"

#include <ctype.h>
#include <string.h>

struct line {
    const char *file;
    int number;
    const char *name, *value; /* value NULL: a bare name */
    size_t name_len, value_len;
};

static void trim(const char **at, size_t *len)
{
    while (*len && isspace((unsigned char)**at)) {
        ++*at;
        --*len;
    }
    while (*len && isspace((unsigned char)(*at)[*len - 1]))
        --*len;
}

/* Takes the next line off the front of TEXT. False at the end of it. */
static bool next_line(const char **text, const char *end, const char **at, size_t *len)
{
    if (*text == end)
        return false;
    *at = *text;
    const char *eol = memchr(*text, '\n', (size_t)(end - *text));
    *len = (size_t)((eol ? eol : end) - *at);
    *text = eol ? eol + 1 : end;
    return true;
}

static void split(struct line *l, const char *at, size_t len)
{
    const char *equals = memchr(at, '=', len);
    l->name = at;
    l->name_len = equals ? (size_t)(equals - at) : len;
    l->value = equals ? equals + 1 : NULL;
    l->value_len = equals ? len - l->name_len - 1 : 0;
    trim(&l->name, &l->name_len);
    if (l->value)
        trim(&l->value, &l->value_len);
}

static int unknown_name(const struct dt_opt_program *program, const struct line *l,
                        struct dt_err *err)
{
    char shown[64], hint[96];
    struct dt_bytes name = {(const uint8_t *)l->name, l->name_len};
    return dt_err_set(err, DT_E_USAGE, "%s:%d: \"%s\" is no option%s", l->file, l->number,
                      dt_str_printable(name, shown, sizeof shown),
                      dt_opt_suggestion(program, l->name, l->name_len, "", hint, sizeof hint));
}

/* The option that line L sets, or NULL and *err. */
static const struct dt_opt *option_of(const struct dt_opt_program *program,
                                      const struct dt_opt_given *g, const struct line *l,
                                      struct dt_err *err)
{
    const struct dt_opt *o = dt_opt_named(program, l->name, l->name_len);
    if (!o) {
        unknown_name(program, l, err);
        return NULL;
    }
    /* Not asked for repeatable ones: a million lines of one would cost their square. */
    const struct dt_opt_value *before = o->repeat ? NULL : dt_opt_given_find(g, o);
    if (o->no_config)
        dt_err_set(err, DT_E_USAGE, "%s:%d: %s cannot stand in a config file", l->file, l->number,
                   o->name);
    else if (o->arg && !l->value)
        dt_err_set(err, DT_E_USAGE, "%s:%d: %s needs a value: %s = %s", l->file, l->number, o->name,
                   o->name, o->arg);
    else if (before && before->source == DT_OPT_FROM_CONFIG)
        dt_err_set(err, DT_E_USAGE, "%s:%d: %s is set a second time; drop one", l->file, l->number,
                   o->name);
    else
        return o;
    return NULL;
}

int dt_opt_given_read_config(struct dt_opt_given *g, const struct dt_opt_program *program,
                             const char *text, size_t len, const char *file_name,
                             struct dt_err *err)
{
    if (len > DT_OPT_CONFIG_MAX)
        return dt_err_set(err, DT_E_USAGE, "%s: longer than 1 MiB, which no config file is",
                          file_name);
    struct line l = {.file = file_name};
    const char *end = text + len, *at;
    size_t n;
    while (next_line(&text, end, &at, &n)) {
        l.number++;
        trim(&at, &n);
        if (n == 0 || *at == '#')
            continue;
        if (memchr(at, '\0', n))
            return dt_err_set(err, DT_E_USAGE, "%s:%d: a NUL byte; is this a text file?", file_name,
                              l.number);
        split(&l, at, n);
        const struct dt_opt *o = option_of(program, g, &l, err);
        if (!o || dt_opt_given_add(g, o, DT_OPT_FROM_CONFIG, l.value, l.value_len, err, "%s:%d: %s",
                                   file_name, l.number, o->name) < 0)
            return -1;
    }
    return 0;
}
