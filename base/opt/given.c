/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt/given.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void dt_opt_given_finish(struct dt_opt_given *g)
{
    for (size_t i = 0; i < g->len; i++) {
        free(g->at[i].text);
        free(g->at[i].where);
    }
    free(g->at);
    *g = (struct dt_opt_given){0};
}

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory for the options");
}

/* The next free value of G, zeroed, or NULL. */
static struct dt_opt_value *next_value(struct dt_opt_given *g)
{
    if (g->len == g->size) {
        size_t size = g->size ? g->size * 2 : 16;
        struct dt_opt_value *at = realloc(g->at, size * sizeof *at);
        if (!at)
            return NULL;
        g->at = at;
        g->size = size;
    }
    struct dt_opt_value *v = &g->at[g->len];
    *v = (struct dt_opt_value){0};
    return v;
}

int dt_opt_given_add(struct dt_opt_given *g, const struct dt_opt *opt, enum dt_opt_source source,
                     const char *text, size_t text_len, struct dt_err *err, const char *where, ...)
{
    struct dt_opt_value *v = next_value(g);
    if (!v)
        return no_memory(err);
    va_list ap;
    va_start(ap, where);
    if (vasprintf(&v->where, where, ap) < 0)
        v->where = NULL;
    va_end(ap);
    v->opt = opt;
    v->source = source;
    v->text = text ? strndup(text, text_len) : strdup("yes");
    g->len++; /* from here on dt_opt_given_finish() frees what there is of it */
    return v->where && v->text ? 0 : no_memory(err);
}

int dt_opt_given_add_list(struct dt_opt_given *g, const struct dt_opt *opt,
                          enum dt_opt_source source, const char *list, const char *where,
                          struct dt_err *err)
{
    static const char between[] = " ,\t\n";
    if (!list[strspn(list, between)]) /* an unset variable of a unit must not allow everybody */
        return dt_err_set(err, DT_E_USAGE, "%s: it names nothing; give a value, or unset it",
                          where);
    for (const char *s = list + strspn(list, between); *s; s += strspn(s, between)) {
        size_t n = strcspn(s, between);
        if (dt_opt_given_add(g, opt, source, s, n, err, "%s", where) < 0)
            return -1;
        s += n;
    }
    return 0;
}

const struct dt_opt_value *dt_opt_given_find(const struct dt_opt_given *g, const struct dt_opt *opt)
{
    const struct dt_opt_value *found = NULL;
    for (size_t i = 0; i < g->len; i++)
        if (g->at[i].opt == opt && (!found || g->at[i].source >= found->source))
            found = &g->at[i];
    return found;
}

static int parse_value(const struct dt_opt_value *v, void *options, struct dt_err *err)
{
    const struct dt_opt *o = v->opt;
    dt_opt_parse_fn parse = o->parse ? o->parse : o->arg ? dt_opt_string : dt_opt_flag;
    if (v->source == DT_OPT_FROM_ENV && o->parse_env)
        parse = o->parse_env;
    if (parse(v->text, (char *)options + o->at, err) < 0)
        return dt_err_wrap(err, "%s", v->where);
    return 0;
}

static int add_fallback(struct dt_opt_given *g, const struct dt_opt *o, struct dt_err *err)
{
    char where[80];
    if (!o->fallback)
        return 0;
    snprintf(where, sizeof where, "the default of --%s", o->name);
    if (o->repeat)
        return dt_opt_given_add_list(g, o, DT_OPT_FROM_FALLBACK, o->fallback, where, err);
    return dt_opt_given_add(g, o, DT_OPT_FROM_FALLBACK, o->fallback, strlen(o->fallback), err, "%s",
                            where);
}

int dt_opt_given_apply(struct dt_opt_given *g, const struct dt_opt_program *program, void *options,
                       struct dt_opt_result *result, struct dt_err *err)
{
    for (const struct dt_opt *o = program->table; o->name; o++) {
        const struct dt_opt_value *last = dt_opt_given_find(g, o);
        if (!last) {
            if (add_fallback(g, o, err) < 0)
                return -1;
            last = dt_opt_given_find(g, o);
        }
        if (result && last && o - program->table < DT_OPT_ROWS_MAX)
            result->from[o - program->table] = (unsigned char)last->source;
        for (size_t i = 0; last && i < g->len; i++) {
            const struct dt_opt_value *v = &g->at[i];
            if (v->opt == o && v->source == last->source && parse_value(v, options, err) < 0)
                return -1;
        }
    }
    return 0;
}

bool dt_opt_spells(const struct dt_opt *opt, const char *name, size_t len)
{
    if (strlen(opt->name) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if (opt->name[i] != (name[i] == '_' ? '-' : name[i]))
            return false;
    return true;
}

const struct dt_opt *dt_opt_named(const struct dt_opt_program *program, const char *name,
                                  size_t len)
{
    for (const struct dt_opt *o = program->table; o->name; o++)
        if (dt_opt_spells(o, name, len))
            return o;
    for (const struct dt_opt *o = dt_opt_builtins(program); o->name; o++)
        if (dt_opt_spells(o, name, len))
            return o;
    return NULL;
}

const char *dt_opt_suggestion(const struct dt_opt_program *program, const char *name, size_t len,
                              const char *prefix, char *out, size_t size)
{
    char given[DT_STR_DISTANCE_MAX + 1];
    const char *is = NULL;
    bool fits = len < sizeof given;
    for (size_t i = 0; fits && i < len; i++)
        given[i] = name[i] == '_' ? '-' : name[i];
    given[fits ? len : 0] = '\0';
    size_t best = dt_str_guess(given) + 1;
    for (const struct dt_opt *o = program->table; fits && o->name; o++) {
        size_t d = o->hidden ? best : dt_str_distance(given, o->name);
        if (d < best) {
            best = d;
            is = o->name;
        }
    }
    *out = '\0';
    if (is)
        snprintf(out, size, "; did you mean %s%s?", prefix, is);
    return out;
}
