/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "base/opt/given.h"
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

static int parse_int(const char *value, void *int_target, struct dt_err *err)
{
    int64_t n;
    if (dt_str_to_int(value, INT32_MIN, INT32_MAX, &n, err) < 0)
        return -1;
    *(int *)int_target = (int)n;
    return 0;
}

static int parse_size(const char *value, void *uint64_target, struct dt_err *err)
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
static int number_flag(const char *value, bool *on, struct dt_err *err)
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

static void describe(struct told *t)
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
static char **split(const char *line, char *copy, char **out)
{
    int n = 0;
    strcpy(copy, line);
    for (char *s = *copy ? strtok(copy, "|") : NULL; s; s = strtok(NULL, "|"))
        out[n++] = s;
    out[n] = NULL;
    return out;
}

static void tell(struct told *t, const struct dt_opt_program *p, const char *args, const char *env)
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

struct row {
    const char *args, *env;
    const char *text;  /* as describe() says, or */
    const char *error; /* the whole text of it */
};

static void check_rows(const struct dt_opt_program *p, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        CHECK_ROW("%s, with %s", rows[i].args, rows[i].env);
        struct told t;
        tell(&t, p, rows[i].args, rows[i].env);
        if (rows[i].error) {
            CHECK_EQ(t.rc, -1);
            CHECK_STR(t.err.text, rows[i].error);
        } else {
            CHECK_OK(t.rc, t.err);
            CHECK_STR(t.text, rows[i].text);
        }
    }
}

TEST(the_command_line)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"", "", "", NULL},
        {"--name|x", "", "name=x", NULL},
        {"--name=x", "", "name=x", NULL},
        {"--name=", "", "name=", NULL},
        {"--name=a=b", "", "name=a=b", NULL},
        {"-n|x", "", "name=x", NULL},
        {"-nx", "", "name=x", NULL},
        {"-n=x", "", "name=x", NULL},
        {"-vq", "", "verbose quiet", NULL},
        {"-vnx", "", "verbose name=x", NULL},
        {"-vn|x", "", "verbose name=x", NULL},
        {"--max-port|1|--max-port|2", "", "port=2", NULL},
        {"--max_port|7", "", "port=7", NULL},
        {"--nproc_per-node|7", "", "nproc=7", NULL},
        {"--max-port|-7", "", "port=-7", NULL},
        {"--name|-", "", "name=-", NULL},
        {"--name|-a b", "", "name=-a b", NULL},
        {"--name=-x", "", "name=-x", NULL},
        {"--wait|1.5s|--nnodes|2K", "", "size=2048 wait=1500", NULL},
        {"-la|--listen|b|--listen=c", "", "listen=a listen=b listen=c", NULL},
        {"--lis|a b,c", "", "listen=a b,c", NULL}, /* one value, whatever is in it */
        {"--nproc|3", "", "nproc=3", NULL},
        {"--verb", "", "verbose", NULL},
        {"--new-thing|x", "", "name=x", NULL},
        {"--", "", "", NULL},

        {"--nam", "", NULL, "--name: needs a value: --name=NAME"},
        {"-n", "", NULL, "-n: needs a value: -n NAME"},
        {"--name|--verbose", "", NULL, "--name: needs a value: --name=NAME"},
        {"--name|--", "", NULL, "--name: needs a value: --name=NAME"},
        {"--verbose=yes", "", NULL, "--verbose: takes no value, found \"yes\""},
        {"-v=1", "", NULL, "-v: takes no value, found \"1\""},
        {"--lisen|x", "", NULL, "--lisen: no such option; did you mean --listen?"},
        {"--nproc_pre_node=x", "", NULL, "--nproc_pre_node: no such option; did you mean --nproc-per-node?"},
        {"--zzzzz", "", NULL, "--zzzzz: no such option"},
        {"--new", "", NULL, "--new: no such option"},
        {"-z", "", NULL, "-z: no such option"},
        {"-vz", "", NULL, "-z: no such option"},
        {"--n|1", "", NULL, "--n could be --name or --nproc-per-node or --nnodes"},
        {"--max-port|x", "", NULL, "--max-port: \"x\" is not a whole number from -2147483648 to 2147483647"},
        {"-px|-p1", "", NULL, "-p: \"x\" is not a whole number from -2147483648 to 2147483647"},
        {"script", "", NULL, "\"script\" is no option, and testd takes nothing else"},
        {"-v|--|--quiet", "", NULL, "\"--quiet\" is no option, and testd takes nothing else"},
        {"-", "", NULL, "\"-\" is no option, and testd takes nothing else"},
    };
    /* clang-format on */
    check_rows(&daemon_like, rows, ROWS(rows));
}

static void note_given(void *arg, const struct dt_opt *o, char *const *words, int count)
{
    char *out = arg;
    size_t n = strlen(out);
    n += (size_t)snprintf(out + n, 512 - n, "%s:", o->name);
    for (int i = 0; i < count; i++)
        n += (size_t)snprintf(out + n, 512 - n, " %s", words[i]);
    snprintf(out + n, 512 - n, "|");
}

TEST(the_options_of_a_command_line_with_their_words)
{
    static const char *argv[] = {"torchy", "--nproc_per=2", "-vq", NULL};
    static const char *more[] = {"torchy", "-n",     "who",    "--wait", "2s",
                                 "script", "--name", "theirs", NULL};
    char given[512] = "";
    dt_opt_each_given(&torchrun_like, 3, (char *const *)argv, note_given, given);
    CHECK_STR(given, "nproc-per-node: --nproc_per=2|quiet: -vq|");
    *given = '\0';
    dt_opt_each_given(&torchrun_like, 8, (char *const *)more, note_given, given);
    CHECK_STR(given, "name: -n who|wait: --wait 2s|");
}

TEST(the_environment)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"", "TESTD_NAME=x|TESTD_MAX_PORT=3", "name=x port=3", NULL},
        {"", "TESTD_NAME=", "name=", NULL},
        {"", "TESTD_VERBOSE=yes|TESTD_QUIET=off", "verbose", NULL},
        {"", "TESTD_LISTEN=a b,c ,, d", "listen=a listen=b listen=c listen=d", NULL},
        {"", "TESTD_LISTEN= , ", NULL, "TESTD_LISTEN: it names nothing; give a value, or unset it"},
        {"", "TESTD_LISTEN=", NULL, "TESTD_LISTEN: it names nothing; give a value, or unset it"},
        {"-l|z", "TESTD_LISTEN=", "listen=z", NULL},
        {"-l|z", "TESTD_LISTEN=a b", "listen=z", NULL},
        {"--max-port|5", "TESTD_MAX_PORT=x", "port=5", NULL}, /* not even looked at */
        {"", "TESTD_WAIT=5s|TESTD_|TESTD_NO_SUCH=1|TESTD_NAMEX=1|XTESTD_NAME=1", "", NULL},
        {"", "TESTD_MAX_PORT=x", NULL,
         "TESTD_MAX_PORT: \"x\" is not a whole number from -2147483648 to 2147483647"},
        {"", "TESTD_VERBOSE=maybe", NULL, "TESTD_VERBOSE: \"maybe\" is neither yes nor no"},
    };
    /* clang-format on */
    check_rows(&daemon_like, rows, ROWS(rows));
}

TEST(as_torchrun_has_it)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"--nproc|2", "", "nproc=2", NULL}, /* two spellings of one option */
        {"--nproc=2", "", "nproc=2", NULL},
        {"--nproc_per|2", "", "nproc=2", NULL},
        {"--nproc-per=2", "", "nproc=2", NULL},
        {"--nnod|2", "", "size=2", NULL}, /* one word has one spelling */
        {"--n|2", "", NULL, "--n could be --name or --nproc-per-node or --nnodes"},
        {"--verb", "", "verbose", NULL}, /* although there is a --verbatim since */
        {"--verba", "", "quiet", NULL},
        {"--nproc-per-node|2|-v", "", "verbose nproc=2", NULL},
        {"", "PET_VERBOSE=1|PET_QUIET=0", "verbose", NULL},
        {"-v", "PET_VERBOSE=0", "verbose", NULL},
        {"-v", "PET_VERBOSE=true", "verbose", NULL},
        {"", "PET_VERBOSE=true", NULL, "PET_VERBOSE: \"true\" is not a number"},
        {"", "PET_VERBOSE=", NULL, "PET_VERBOSE: \"\" is not a number"},
        {"--version", "", NULL, "--version: no such option"},
    };
    /* clang-format on */
    check_rows(&torchrun_like, rows, ROWS(rows));
}

TEST(the_first_operand_ends_the_options)
{
    /* clang-format off */
    static const struct { const char *args; int operands; const char *text; } rows[] = {
        {"", 1, ""},
        {"-v", 2, "verbose"},
        {"-v|script|-q|--name|x", 2, "verbose"},
        {"--name|x|script", 3, "name=x"},
        {"--|script|-v", 2, ""},
        {"-v|--|--|--quiet", 4, "verbose"},
        {"-v|--|script|--", 3, "verbose"},
        {"-|-v", 1, ""},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].args);
        struct told t;
        tell(&t, &torchrun_like, rows[i].args, "");
        CHECK_OK(t.rc, t.err);
        CHECK_EQ(t.result.operands, rows[i].operands);
        CHECK_STR(t.text, rows[i].text);
    }
}

TEST(help_and_version_are_reported_and_nothing_is_parsed)
{
    struct told t;
    static const char *const helps[] = {"--help", "-h", "--he", "-vh", "--max-port|x|-h|--no-such"};
    for (size_t i = 0; i < ROWS(helps); i++) {
        CHECK_ROW("%s", helps[i]);
        tell(&t, &daemon_like, helps[i], "TESTD_MAX_PORT=x");
        CHECK_OK(t.rc, t.err);
        CHECK(t.result.help && !t.result.version);
        CHECK_EQ(t.o.port, 0);
    }
    tell(&t, &daemon_like, "--version", "");
    CHECK(t.rc == 0 && t.result.version && !t.result.help);
    tell(&t, &daemon_like, "--help=x", "");
    CHECK_STR(t.err.text, "--help: takes no value, found \"x\"");
}

TEST(a_row_may_have_a_prefix_of_its_own)
{
    /* clang-format off */
    static const struct row rows[] = {
        {"", "OWN_OWN_FLAG=yes", "quiet", NULL}, /* by our rules for flags, not the program's */
        {"", "OWN_OWN_FLAG=1", "quiet", NULL},
        {"", "PET_OWN_FLAG=1|OWN_VERBOSE=1", "", NULL},
        {"", "OWN_OWN_FLAG=7", NULL, "OWN_OWN_FLAG: \"7\" is neither yes nor no"},
    };
    /* clang-format on */
    check_rows(&torchrun_like, rows, ROWS(rows));
}

TEST(where_a_value_comes_from)
{
    /* clang-format off */
    static const struct { const char *args, *env, *name; enum dt_opt_source from; const char *written; } rows[] = {
        {"", "", "name", DT_OPT_FROM_FALLBACK, "--name"},
        {"", "", "verbose", DT_OPT_FROM_FALLBACK, "--verbose"},
        {"--name|nobody", "", "name", DT_OPT_FROM_ARGS, "--name"},
        {"-n|x", "PET_NAME=y", "name", DT_OPT_FROM_ARGS, "--name"},
        {"", "PET_NAME=nobody", "name", DT_OPT_FROM_ENV, "PET_NAME"},
        {"", "PET_MAX_PORT=1", "max_port", DT_OPT_FROM_ENV, "PET_MAX_PORT"},
        {"", "PET_VERBOSE=0", "verbose", DT_OPT_FROM_ENV, "PET_VERBOSE"},
        {"", "OWN_OWN_FLAG=no", "own-flag", DT_OPT_FROM_ENV, "OWN_OWN_FLAG"},
        {"", "WHERE=here", "place", DT_OPT_FROM_ENV, "WHERE"},
        {"", "PET_PLACE=here", "place", DT_OPT_FROM_FALLBACK, "--place"},
        {"-v", "", "name", DT_OPT_FROM_FALLBACK, "--name"},
        {"-v", "", "no-such-row", DT_OPT_FROM_FALLBACK, "--no-such-row"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s of %s, with %s", rows[i].name, rows[i].args, rows[i].env);
        struct told t;
        char written[32];
        tell(&t, &torchrun_like, rows[i].args, rows[i].env);
        CHECK_OK(t.rc, t.err);
        CHECK_EQ(dt_opt_source_of(&torchrun_like, &t.result, rows[i].name), rows[i].from);
        CHECK_STR(dt_opt_written(&torchrun_like, &t.result, rows[i].name, written, sizeof written),
                  rows[i].written);
    }
}

TEST(ranges_of_addresses)
{
    struct options o = {0};
    struct dt_opt_result result;
    struct dt_err err = {0};
    char *argv[] = {(char *)"p",   (char *)"--allow=10.0.0.0/8", (char *)"--allow",
                    (char *)"::1", (char *)"--allow=1.2.3.4",    NULL};
    CHECK_OK(dt_opt_parse(&torchrun_like, 5, argv, NULL, &o, &result, &err), err);
    CHECK_EQ(o.allow.len, 3);
    CHECK_EQ(o.allow.at[0].bits, 8);
    CHECK_EQ(o.allow.at[1].bits, 128);
    dt_opt_finish(&torchrun_like, &o);
    CHECK(o.allow.len == 0 && !o.allow.at);
    argv[3] = (char *)"everybody";
    CHECK_FAIL(dt_opt_parse(&torchrun_like, 5, argv, NULL, &o, &result, &err), err,
               "--allow: \"everybody\" is no range of addresses");
    dt_opt_finish(&torchrun_like, &o);
}

TEST(usage_errors_have_their_code)
{
    static const char *const args[] = {"--no-such", "--name", "--n=1", "-z",
                                       "operand",   "-v=1",   "-p|x",  "--wait|x"};
    struct told t;
    for (size_t i = 0; i < ROWS(args); i++) {
        CHECK_ROW("%s", args[i]);
        tell(&t, &daemon_like, args[i], "");
        CHECK_EQ(t.err.code, DT_E_USAGE);
    }
    tell(&t, &torchrun_like, "", "PET_VERBOSE=x");
    CHECK_EQ(t.err.code, DT_E_RUNTIME); /* what the hook says */
}

/* A config file alone. */
static int read_config(const char *text, size_t len, const char *name, struct options *o,
                       struct dt_err *err)
{
    struct dt_opt_given given = {0};
    int rc = dt_opt_given_read_config(&given, &daemon_like, text, len, name, err);
    if (rc == 0)
        rc = dt_opt_given_apply(&given, &daemon_like, o, NULL, err);
    dt_opt_given_finish(&given);
    return rc;
}

static void configure(struct told *t, const char *text, size_t len)
{
    char *copy = malloc(len + !len); /* so that a sanitizer sees a read beyond */
    memcpy(copy, text, len);
    *t = (struct told){0};
    t->rc = read_config(copy, len, "x.conf", &t->o, &t->err);
    free(copy);
    if (t->rc == 0)
        describe(t);
    dt_opt_finish(&daemon_like, &t->o);
}

TEST(a_config_file)
{
    /* clang-format off */
    static const struct { const char *file, *text, *error; } rows[] = {
        {"", "", NULL},
        {"\n\n  \t\r\n", "", NULL},
        {"# name = x\n  # name = y", "", NULL},
        {"name = x", "name=x", NULL},
        {"name=x\r\nmax_port\t=  5  \n", "name=x port=5", NULL},
        {"name = a b # c = d", "name=a b # c = d", NULL},
        {"name =", "name=", NULL},
        {"verbose\nquiet = no\n", "verbose", NULL},
        {"listen = a\nlisten = b,c\n", "listen=a listen=b,c", NULL},
        {"wait = 2s", "wait=2000", NULL},
        {"\nlisen = a", NULL, "x.conf:2: \"lisen\" is no option; did you mean listen?"},
        {"nam = a", NULL, "x.conf:1: \"nam\" is no option; did you mean name?"},
        {"= a", NULL, "x.conf:1: \"\" is no option"},
        {"\x1b[1m", NULL, "x.conf:1: \"\\x1b[1m\" is no option"},
        {"name\n", NULL, "x.conf:1: name needs a value: name = NAME"},
        {"name = a\n\nname = b", NULL, "x.conf:3: name is set a second time; drop one"},
        {"verbose\nverbose", NULL, "x.conf:2: verbose is set a second time; drop one"},
        {"config = y", NULL, "x.conf:1: config cannot stand in a config file"},
        {"help", NULL, "x.conf:1: help cannot stand in a config file"},
        {"#\nmax-port = x", NULL,
         "x.conf:2: max-port: \"x\" is not a whole number from -2147483648 to 2147483647"},
        {"verbose = maybe", NULL, "x.conf:1: verbose: \"maybe\" is neither yes nor no"},
    };
    /* clang-format on */
    for (size_t i = 0; i < ROWS(rows); i++) {
        CHECK_ROW("%s", rows[i].file);
        struct told t;
        configure(&t, rows[i].file, strlen(rows[i].file));
        if (rows[i].error) {
            CHECK_EQ(t.rc, -1);
            CHECK_STR(t.err.text, rows[i].error);
            CHECK_EQ(t.err.code, DT_E_USAGE);
        } else {
            CHECK_OK(t.rc, t.err);
            CHECK_STR(t.text, rows[i].text);
        }
    }
}

TEST(a_config_file_is_bounded_text)
{
    struct told t;
    configure(&t, "name = a\0b", 10);
    CHECK_STR(t.err.text, "x.conf:1: a NUL byte; is this a text file?");
    char *big = malloc(DT_OPT_CONFIG_MAX + 1);
    memset(big, '\n', DT_OPT_CONFIG_MAX + 1);
    configure(&t, big, DT_OPT_CONFIG_MAX);
    CHECK_OK(t.rc, t.err);
    configure(&t, big, DT_OPT_CONFIG_MAX + 1);
    CHECK_FAIL(t.rc, t.err, "x.conf: longer than 1 MiB");
    free(big);
}

TEST(a_million_bytes_of_one_option_are_not_slow)
{
    size_t len = DT_OPT_CONFIG_MAX / 16 * 16;
    char *big = malloc(len);
    struct options o = {0};
    struct dt_err err = {0};
    for (size_t i = 0; i < len; i += 16)
        memcpy(big + i, "listen = abcdef\n", 16);
    dt_ms before = dt_clock_monotonic();
    CHECK_OK(read_config(big, len, "x", &o, &err), err);
    CHECK_EQ(o.listen.len, len / 16);
    CHECK(dt_clock_monotonic() - before <
          20 * DT_SECOND); /* milliseconds; the square would be minutes */
    dt_opt_finish(&daemon_like, &o);
    free(big);
}

TEST(sources_in_their_order)
{
    char path[] = "/tmp/dtrun-test-opt.XXXXXX", args[128];
    int fd = mkstemp(path);
    static const char text[] =
        "name = file\nmax-port = 1\nlisten = f1\nlisten = f2\nnproc-per-node = 9\n";
    struct told t;
    CHECK_EQ(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);

    snprintf(args, sizeof args, "--config|%s", path);
    tell(&t, &daemon_like, args, "");
    CHECK_OK(t.rc, t.err);
    CHECK_STR(t.text, "name=file port=1 nproc=9 listen=f1 listen=f2");

    /* A stronger list replaces a weaker one whole; what it replaces is not even parsed. */
    snprintf(args, sizeof args, "--config=%s|--max-port|3", path);
    tell(&t, &daemon_like, args, "TESTD_LISTEN=e1|TESTD_NAME=env|TESTD_MAX_PORT=2");
    CHECK_OK(t.rc, t.err);
    CHECK_STR(t.text, "name=env port=3 nproc=9 listen=e1");

    snprintf(args, sizeof args, "TESTD_CONFIG=%s", path);
    tell(&t, &daemon_like, "-la|-lb", args);
    CHECK_STR(t.text, "name=file port=1 nproc=9 listen=a listen=b");

    CHECK_EQ(truncate(path, 9), 0); /* "name = fi" */
    tell(&t, &daemon_like, "", args);
    CHECK_STR(t.text, "name=fi");
    unlink(path);
    tell(&t, &daemon_like, "", args);
    CHECK_EQ(t.rc, -1);
    CHECK(strstr(t.err.text, "TESTD_CONFIG: cannot open /tmp/dtrun-test-opt.") == t.err.text);
}

TEST(errors_in_a_config_file_name_it)
{
    char path[] = "/tmp/dtrun-test-opt.XXXXXX", args[128], wanted[128];
    struct dt_err err = {0};
    struct told t;
    close(mkstemp(path));
    CHECK_OK(dt_fs_replace(path, "name = a\nfoo = b\n", 17, 0600, &err), err);
    snprintf(args, sizeof args, "--config|%s", path);
    tell(&t, &daemon_like, args, "");
    unlink(path);
    snprintf(wanted, sizeof wanted, "%s:2: \"foo\" is no option", path);
    CHECK_STR(t.err.text, wanted);
}

TEST(only_a_default_config_file_may_be_missing)
{
    static const struct dt_opt with_default[] = {
        {.name = "config", .arg = "FILE", AT(config), .fallback = "/nonexistent/x.conf"}, {0}};
    struct dt_opt_program p = {
        .name = "p", .usage = "", .table = with_default, .config_option = "config"};
    char name[] = "p", option[] = "--config=/nonexistent/x.conf";
    char *none[] = {name, NULL}, *named[] = {name, option, NULL};
    struct options o = {0};
    struct dt_opt_result result;
    struct dt_err err = {0};
    CHECK_OK(dt_opt_parse(&p, 1, none, NULL, &o, &result, &err), err);
    CHECK_STR(o.config, "/nonexistent/x.conf");
    dt_opt_finish(&p, &o);
    CHECK_FAIL(dt_opt_parse(&p, 2, named, NULL, &o, &result, &err), err,
               "--config: cannot open /nonexistent/x.conf");
    dt_opt_finish(&p, &o);
    dt_opt_finish(&p, &o); /* and again: zeroed memory */
}

TEST(help_fits_80_columns_and_tells_all)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    dt_opt_help(&daemon_like, f);
    fclose(f);
    static const char *const wanted[] = {
        "Usage: testd [options]\nA program for tests.\n",
        "  -v, --verbose             say more\n",
        "      --nnodes N            nodes\n",
        "  -p, --max-port N          highest (default: 80)\n",
        "(default: first second; can repeat)\n",
        "  -h, --help ",
        "      --version ",
        "--verbose is\nTESTD_VERBOSE, --own-flag is OWN_OWN_FLAG.",
        "The file of --config",
        "\nThe manual says more: man testd\n",
    };
    for (size_t i = 0; i < ROWS(wanted); i++) {
        CHECK_ROW("%s", wanted[i]);
        CHECK(strstr(text, wanted[i]) != NULL);
    }
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        CHECK_ROW("%s", line);
        CHECK(strlen(line) < 80);
    }
    free(text);
}

TEST(names_in_the_environment)
{
    char out[64], small[8];
    CHECK_STR(dt_opt_env_name(&daemon_like, &table[4], out, sizeof out), "TESTD_NPROC_PER_NODE");
    CHECK_STR(dt_opt_env_name(&daemon_like, &table[6], out, sizeof out), ""); /* .no_env */
    CHECK_STR(dt_opt_env_name(&daemon_like, &table[4], small, sizeof small), "TESTD_N");
}
