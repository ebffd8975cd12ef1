/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a command line and of the environment, and what help says of them. */
#include "tests/base/opt_told.h"

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
