/* SPDX-License-Identifier: Apache-2.0 */
/* The command line and the environment, and the order of the sources. */
#include "base/opt/opt.h"

#include "base/fs.h"
#include "base/opt/given.h"
#include "base/str.h"

#include <ctype.h>
#include <string.h>

const struct dt_opt *dt_opt_builtins(const struct dt_opt_program *program)
{
    static const struct dt_opt rows[] = {
        {.name = "help",
         .letter = 'h',
         .help = "print this and exit",
         .no_env = true,
         .no_config = true},
        {.name = "version",
         .help = "print the version and exit",
         .no_env = true,
         .no_config = true,
         .exact = true},
        {0},
    };
    static const struct dt_opt help_alone[] = {
        {.name = "help",
         .letter = 'h',
         .help = "print this and exit",
         .no_env = true,
         .no_config = true},
        {0},
    };
    return program->version ? rows : help_alone;
}

const char *dt_opt_env_name(const struct dt_opt_program *program, const struct dt_opt *opt,
                            char *out, size_t size)
{
    *out = '\0';
    if (!program->env_prefix || opt->no_env)
        return out;
    if (opt->env) {
        snprintf(out, size, "%s", opt->env);
        return out;
    }
    snprintf(out, size, "%s%s", opt->env_prefix ? opt->env_prefix : program->env_prefix, opt->name);
    for (char *c = out; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    return out;
}

enum dt_opt_source dt_opt_source_of(const struct dt_opt_program *program,
                                    const struct dt_opt_result *result, const char *name)
{
    for (int i = 0; i < DT_OPT_ROWS_MAX && program->table[i].name; i++)
        if (dt_opt_spells(&program->table[i], name, strlen(name)))
            return result->from[i];
    return DT_OPT_FROM_FALLBACK;
}

const char *dt_opt_written(const struct dt_opt_program *program, const struct dt_opt_result *result,
                           const char *name, char *out, size_t size)
{
    const struct dt_opt *o = dt_opt_named(program, name, strlen(name));
    if (o && dt_opt_source_of(program, result, name) == DT_OPT_FROM_ENV)
        return dt_opt_env_name(program, o, out, size);
    snprintf(out, size, "--%s", name);
    return out;
}

/* The reader's state while it walks argv. */
struct walk {
    const struct dt_opt_program *program;
    int argc;
    char *const *argv;
    int at;
    struct dt_opt_given *given;
    struct dt_opt_result *result;
};

/* Candidates for an abbreviation: how many, the last of them, and all their names for the error. */
struct candidates {
    int count;
    const struct dt_opt *opt;
    char names[256];
};

static void add_candidate(struct candidates *c, const struct dt_opt *o)
{
    size_t used = strlen(c->names);
    snprintf(c->names + used, sizeof c->names - used, "%s--%s", c->count ? " or " : "", o->name);
    c->count++;
    c->opt = o;
}

/* Whether NAME begins O's name, in either spelling. */
static bool begins(const struct dt_opt *o, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (o->name[i] == '\0' || o->name[i] != (name[i] == '_' ? '-' : name[i]))
            return false;
    return true;
}

static void find_candidates(const struct dt_opt *rows, const char *name, size_t len, bool later,
                            struct candidates *c)
{
    for (const struct dt_opt *o = rows; o->name; o++)
        if (!o->exact && o->later == later && begins(o, name, len))
            add_candidate(c, o);
}

/* What to write instead of ARG, which stands there with its dashes and perhaps its value, if that
 * is an option of another program; NULL: it is none. */
static const char *find_foreign(const struct dt_opt_program *p, const char *arg)
{
    size_t len = strcspn(arg, "=");
    for (const struct dt_opt_foreign *f = p->foreign; f && f->written; f++) {
        struct dt_opt as_row = {.name = f->written};
        if (dt_opt_spells(&as_row, arg, len))
            return f->hint;
    }
    return NULL;
}

/* Sets *err, and returns NULL. */
static const struct dt_opt *no_such(const struct dt_opt_program *p, const char *arg, size_t len,
                                    struct dt_err *err)
{
    const char *foreign = find_foreign(p, arg);
    char shown[64], hint[96] = "";
    struct dt_bytes written = {(const uint8_t *)arg, len};
    if (!foreign && arg[1] == '-')
        dt_opt_suggestion(p, arg + 2, len - 2, "--", hint, sizeof hint);
    dt_err_set(err, DT_E_USAGE, "%s: no such option%s%s",
               dt_str_printable(written, shown, sizeof shown), foreign ? "; " : "",
               foreign ? foreign : hint);
    return NULL;
}

/* The option that the LEN characters at ARG, two dashes first, name in full or by its beginning, or
 * NULL and *err. */
static const struct dt_opt *find_long(const struct dt_opt_program *p, const char *arg, size_t len,
                                      struct dt_err *err)
{
    const char *name = arg + 2;
    const struct dt_opt *o = dt_opt_named(p, name, len - 2);
    if (o)
        return o;
    struct candidates c = {0};
    find_candidates(p->table, name, len - 2, false, &c);
    find_candidates(dt_opt_builtins(p), name, len - 2, false, &c);
    if (c.count == 0)
        find_candidates(p->table, name, len - 2, true, &c);
    if (c.count == 0)
        return no_such(p, arg, len, err);
    if (c.count == 1)
        return c.opt;
    char shown[64];
    struct dt_bytes written = {(const uint8_t *)arg, len};
    dt_err_set(err, DT_E_USAGE, "%s could be %s", dt_str_printable(written, shown, sizeof shown),
               c.names);
    return NULL;
}

/* The option of one letter of ARG, or NULL and *err. */
static const struct dt_opt *find_letter(const struct dt_opt_program *p, char letter,
                                        const char *arg, struct dt_err *err)
{
    for (const struct dt_opt *o = p->table; o->name; o++)
        if (o->letter == letter)
            return o;
    for (const struct dt_opt *o = dt_opt_builtins(p); o->name; o++)
        if (o->letter == letter)
            return o;
    if (find_foreign(p, arg))
        return no_such(p, arg, strlen(arg), err);
    return no_such(p, (const char[]){'-', letter, '\0'}, 2, err);
}

/* "-5" and "-.5" are values, as are texts with a space, as in argparse. */
static bool looks_like_option(const char *s)
{
    if (s[0] != '-' || s[1] == '\0' || strchr(s, ' '))
        return false;
    return s[1 + strspn(s + 1, "0123456789.")] != '\0';
}

/* Notes option O, written as WRITTEN; VALUE is what is attached to it or NULL. */
static int take(struct walk *w, const struct dt_opt *o, const char *written, const char *value,
                struct dt_err *err)
{
    const struct dt_opt *builtins = dt_opt_builtins(w->program);
    if (!o->arg && value)
        return dt_err_set(err, DT_E_USAGE, "%s: takes no value, found \"%s\"", written, value);
    if (o == builtins || o == builtins + 1) {
        w->result->help = o == builtins;
        w->result->version = !w->result->help;
        return 0;
    }
    if (o->arg && !value) {
        if (w->at == w->argc || looks_like_option(w->argv[w->at]))
            return dt_err_set(err, DT_E_USAGE, "%s: needs a value: %s%s%s", written, written,
                              written[1] == '-' ? "=" : " ", o->arg);
        value = w->argv[w->at++];
    }
    return dt_opt_given_add(w->given, o, DT_OPT_FROM_ARGS, value, value ? strlen(value) : 0, err,
                            "%s", written);
}

static int take_long(struct walk *w, const char *arg, struct dt_err *err)
{
    size_t len = strcspn(arg, "=");
    const char *value = arg[len] ? arg + len + 1 : NULL;
    const struct dt_opt *o = find_long(w->program, arg, len, err);
    if (!o)
        return -1;
    char written[80];
    snprintf(written, sizeof written, "--%s", o->name);
    return take(w, o, written, value, err);
}

/* "-x VALUE", "-xVALUE", "-x=VALUE", or flags in a row: "-mq". */
static int take_letters(struct walk *w, const char *arg, struct dt_err *err)
{
    for (const char *c = arg + 1; *c; c++) {
        const struct dt_opt *o = find_letter(w->program, *c, arg, err);
        if (!o)
            return -1;
        char written[3] = {'-', *c, '\0'};
        bool attached = c[1] != '\0' && (o->arg || c[1] == '=');
        if (take(w, o, written, attached ? c + 1 + (c[1] == '=') : NULL, err) < 0)
            return -1;
        if (attached || w->result->help || w->result->version)
            return 0;
    }
    return 0;
}

/* Notes the option that the next argument is. 1: it is one; 0: the options are over. */
static int take_next(struct walk *w, struct dt_err *err)
{
    const char *arg = w->at < w->argc ? w->argv[w->at] : "";
    if (strcmp(arg, "--") == 0) {
        while (w->at < w->argc && strcmp(w->argv[w->at], "--") == 0)
            w->at++;
        return 0;
    }
    if (arg[0] != '-' || arg[1] == '\0')
        return 0;
    w->at++;
    return (arg[1] == '-' ? take_long : take_letters)(w, arg, err) < 0 ? -1 : 1;
}

static int read_args(struct walk *w, struct dt_err *err)
{
    int took = 1;
    while (took == 1 && !w->result->help && !w->result->version)
        took = take_next(w, err);
    if (took < 0)
        return -1;
    w->result->operands = w->at;
    if (w->at < w->argc && !w->program->takes_operands && !w->result->help && !w->result->version)
        return dt_err_set(err, DT_E_USAGE, "\"%s\" is no option, and %s takes nothing else",
                          w->argv[w->at], w->program->name);
    return 0;
}

static const char *find_env(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; n && env && *env; env++)
        if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

static int read_env(struct dt_opt_given *g, const struct dt_opt_program *p, char *const *env,
                    struct dt_err *err)
{
    char name[128];
    for (const struct dt_opt *o = p->table; o->name; o++) {
        const char *value = find_env(env, dt_opt_env_name(p, o, name, sizeof name));
        if (!value || dt_opt_given_find(g, o))
            continue;
        bool on;
        if (!o->arg && p->env_flag && !o->env_prefix) {
            if (p->env_flag(value, &on, err) < 0)
                return dt_err_wrap(err, "%s", name);
            value = on ? "yes" : "no";
        }
        if (o->repeat ? dt_opt_given_add_list(g, o, DT_OPT_FROM_ENV, value, name, err) < 0
                      : dt_opt_given_add(g, o, DT_OPT_FROM_ENV, value, strlen(value), err, "%s",
                                         name) < 0)
            return -1;
    }
    return 0;
}

static int read_config_file(struct dt_opt_given *g, const struct dt_opt_program *p,
                            struct dt_err *err)
{
    const char *name = p->config_option;
    const struct dt_opt *o = name ? dt_opt_named(p, name, strlen(name)) : NULL;
    if (!o)
        return 0;
    const struct dt_opt_value *given = dt_opt_given_find(g, o);
    const char *path = given ? given->text : o->fallback;
    if (!path || !*path || (!given && !dt_fs_exists(path)))
        return 0;
    struct dt_buf text = {0};
    int rc = dt_fs_read_any(path, DT_OPT_CONFIG_MAX, &text, err);
    if (rc < 0)
        dt_err_wrap(err, "%s", given ? given->where : "the default config file");
    else /* PATH stays: G copies what it is told */
        rc = dt_opt_given_read_config(g, p, dt_buf_cstr(&text), text.len, path, err);
    dt_buf_finish(&text);
    return rc;
}

int dt_opt_parse(const struct dt_opt_program *program, int argc, char *const *argv,
                 char *const *env, void *options, struct dt_opt_result *result, struct dt_err *err)
{
    struct dt_opt_given given = {0};
    *result = (struct dt_opt_result){0};
    struct walk w = {.program = program, .argc = argc, .argv = argv, .at = argc > 0};
    w.given = &given;
    w.result = result;
    int rc = read_args(&w, err);
    if (rc == 0 && !result->help && !result->version) {
        rc = read_env(&given, program, env, err);
        if (rc == 0)
            rc = read_config_file(&given, program, err);
        if (rc == 0)
            rc = dt_opt_given_apply(&given, program, options, result, err);
    }
    dt_opt_given_finish(&given);
    return rc;
}

void dt_opt_each_given(const struct dt_opt_program *program, int argc, char *const *argv,
                       void (*fn)(void *arg, const struct dt_opt *o, char *const *words, int count),
                       void *arg)
{
    struct dt_opt_given given = {0};
    struct dt_opt_result result = {0};
    struct walk w = {.program = program, .argc = argc, .argv = argv, .at = argc > 0};
    w.given = &given;
    w.result = &result;
    for (int first = w.at; take_next(&w, NULL) == 1 && given.len > 0; first = w.at)
        fn(arg, given.at[given.len - 1].opt, argv + first, w.at - first);
    dt_opt_given_finish(&given);
}
