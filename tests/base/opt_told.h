/* SPDX-License-Identifier: Apache-2.0 */
/* Two programs that take options, one as our daemons do and one as torchrun does, and what they
 * make of a command line and an environment. */
#ifndef DT_TESTS_BASE_OPT_TOLD_H
#define DT_TESTS_BASE_OPT_TOLD_H

#include "base/opt/opt.h"
#include "base/str.h"
#include "tests/lib/check.h"

#define ROWS(t) (sizeof(t) / sizeof *(t))

struct options {
    bool verbose, quiet;
    char *name, *config;
    int port, nproc;
    uint64_t size;
    dt_ms wait;
    struct dt_opt_strings listen;
    struct dt_opt_cidrs allow;
};

#define AT(field) .at = offsetof(struct options, field)

static inline int parse_int(const char *value, void *int_target, struct dt_err *err)
{
    int64_t n;
    if (dt_str_to_int(value, INT32_MIN, INT32_MAX, &n, err) < 0)
        return -1;
    *(int *)int_target = (int)n;
    return 0;
}

static inline int parse_size(const char *value, void *uint64_target, struct dt_err *err)
{
    return dt_str_to_size(value, 0, UINT64_MAX, uint64_target, err);
}

/* clang-format off */
static const struct dt_opt table[] = {
    {.name = "verbose", .letter = 'v', AT(verbose), .help = "say more"},
    {.name = "quiet", .letter = 'q', AT(quiet), .help = "say less"},
    {.name = "name", .letter = 'n', .arg = "NAME", AT(name), .fallback = "nobody", .help = "who"},
    {.name = "max-port", .letter = 'p', .arg = "N", .parse = parse_int, AT(port), .fallback = "80", .help = "highest"},
    {.name = "nproc-per-node", .arg = "N", .parse = dt_opt_count, AT(nproc), .fallback = "1", .help = "workers"},
    {.name = "nnodes", .arg = "N", .parse = parse_size, AT(size), .help = "nodes"},
    {.name = "wait", .arg = "TIME", .parse = dt_opt_duration, AT(wait), .no_env = true, .help = "time"},
    {.name = "listen", .letter = 'l', .arg = "ADDR", .parse = dt_opt_append, AT(listen), .repeat = true,
     .fallback = "first second", .help = "where to listen"},
    {.name = "config", .arg = "FILE", AT(config), .no_config = true, .help = "more options"},
    {.name = "new-thing", .arg = "X", AT(name), .exact = true, .help = "never an abbreviation"},
    {.name = "allow", .arg = "CIDR", .parse = dt_opt_cidr, AT(allow), .repeat = true, .help = "who may come"},
    {.name = "verbatim", AT(quiet), .later = true, .help = "a newer one"},
    {.name = "place", .arg = "X", AT(name), .env = "WHERE", .exact = true, .help = "by a name of its own"},
    {.name = "own-flag", AT(quiet), .env_prefix = "OWN_", .exact = true, .help = "not of this family"},
    {0},
};
/* clang-format on */

static const struct dt_opt_program daemon_like = {
    .name = "testd",
    .summary = "A program for tests.",
    .usage = "[options]",
    .version = "1.0",
    .table = table,
    .env_prefix = "TESTD_",
    .config_option = "config",
};

/* PET_ flags are whole numbers; torchrun dies with 1 over anything else. */
static inline int number_flag(const char *value, bool *on, struct dt_err *err)
{
    int64_t n;
    if (dt_str_to_int(value, INT32_MIN, INT32_MAX, &n, NULL) < 0)
        return dt_err_set(err, DT_E_RUNTIME, "\"%s\" is not a number", value);
    *on = n != 0;
    return 0;
}

static const struct dt_opt_program torchrun_like = {
    .name = "run",
    .usage = "[options] SCRIPT [ARG...]",
    .table = table,
    .env_prefix = "PET_",
    .env_flag = number_flag,
    .takes_operands = true,
};

struct told {
    struct options o;
    struct dt_opt_result result;
    struct dt_err err;
    int rc;
    char text[256]; /* the options that differ from their fallbacks, in the order of the table */
};

static inline void describe(struct told *t)
{
    const struct options *o = &t->o;
    size_t n = 0;
#define SAY(...) n += (size_t)snprintf(t->text + n, sizeof t->text - n, __VA_ARGS__)
    t->text[0] = '\0';
    if (o->verbose)
        SAY("verbose ");
    if (o->quiet)
        SAY("quiet ");
    if (o->name && strcmp(o->name, "nobody") != 0)
        SAY("name=%s ", o->name);
    if (o->port != 80)
        SAY("port=%d ", o->port);
    if (o->nproc != 1)
        SAY("nproc=%d ", o->nproc);
    if (o->size)
        SAY("size=%ju ", (uintmax_t)o->size);
    if (o->wait)
        SAY("wait=%jd ", (intmax_t)o->wait);
    if (o->listen.len != 2 || strcmp(o->listen.at[0], "first") != 0)
        for (size_t i = 0; i < o->listen.len; i++)
            SAY("listen=%s ", o->listen.at[i]);
#undef SAY
    if (n)
        t->text[n - 1] = '\0';
}

/* Splits LINE at | into arguments or variables. */
static inline char **split(const char *line, char *copy, char **out)
{
    int n = 0;
    strcpy(copy, line);
    for (char *s = *copy ? strtok(copy, "|") : NULL; s; s = strtok(NULL, "|"))
        out[n++] = s;
    out[n] = NULL;
    return out;
}

static inline void tell(struct told *t, const struct dt_opt_program *p, const char *args,
                        const char *env)
{
    char arg_text[512], env_text[512], *argv[32], *envp[32];
    int argc = 1;
    *t = (struct told){0};
    argv[0] = (char *)p->name;
    split(args, arg_text, argv + 1);
    while (argv[argc])
        argc++;
    t->rc = dt_opt_parse(p, argc, argv, split(env, env_text, envp), &t->o, &t->result, &t->err);
    if (t->rc == 0 && !t->result.help && !t->result.version)
        describe(t);
    dt_opt_finish(p, &t->o);
}

#endif
