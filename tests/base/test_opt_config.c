/* SPDX-License-Identifier: Apache-2.0 */
/* Options in a config file, and which of all sources counts. */
#include "base/fs.h"
#include "base/opt/given.h"
#include "tests/base/opt_told.h"

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
