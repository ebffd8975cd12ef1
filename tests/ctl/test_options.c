/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/options.h"
#include "rendezvous/protocol/spec.h"
#include "tests/lib/check.h"

#define ARGS_MAX 12

/* ARGS: with spaces between them, "''" for an empty one. */
static int read_line(struct dt_ctl_options *o, const char *line, struct dt_opt_result *result,
                     struct dt_err *err)
{
    static char text[200]; /* names stay pointers into it */
    char *args[ARGS_MAX + 1] = {NULL}, *rest = text;
    int argc = 0;
    snprintf(text, sizeof text, "dtrun-ctl %s", line);
    for (char *arg; argc < ARGS_MAX && (arg = strsep(&rest, " "));)
        if (*arg)
            args[argc++] = strcmp(arg, "''") == 0 ? arg + 2 : arg;
    return dt_ctl_options_read(o, argc, args, result, err);
}

TEST(commands_are_understood_wherever_the_options_stand)
{
    static const struct {
        const char *line;
        enum dt_ctl_command command;
        const char *name, *why;
        bool json, quarantined;
    } rows[] = {
        {"status", DT_CTL_STATUS, "", NULL, false, false},
        {"status llama", DT_CTL_STATUS, "llama", NULL, false, false},
        {"--json status llama", DT_CTL_STATUS, "llama", NULL, true, false},
        {"status --json llama", DT_CTL_STATUS, "llama", NULL, true, false},
        {"status llama --json", DT_CTL_STATUS, "llama", NULL, true, false},
        {"top", DT_CTL_TOP, "", NULL, false, false},
        {"top --interval 1 llama", DT_CTL_TOP, "llama", NULL, false, false},
        {"look llama", DT_CTL_LOOK, "llama", NULL, false, false},
        {"look llama 3 8-15 --json", DT_CTL_LOOK, "llama", NULL, true, false},
        {"logs llama 3 --json --follow", DT_CTL_LOGS, "llama", NULL, true, false},
        {"history llama --json", DT_CTL_HISTORY, "llama", NULL, true, false},
        {"run pause llama --why demo", DT_CTL_RUN_PAUSE, "llama", "demo", false, false},
        {"run resume llama", DT_CTL_RUN_RESUME, "llama", NULL, false, false},
        {"run list --json", DT_CTL_RUN_LIST, "", NULL, true, false},
        {"run wait llama --timeout 5m", DT_CTL_RUN_WAIT, "llama", NULL, false, false},
        {"run restart llama", DT_CTL_RUN_RESTART, "llama", NULL, false, false},
        {"run stop llama --why demo", DT_CTL_RUN_STOP, "llama", "demo", false, false},
        {"node list", DT_CTL_NODE_LIST, "", NULL, false, false},
        {"node --quarantined list", DT_CTL_NODE_LIST, "", NULL, false, true},
        {"node drain n1", DT_CTL_NODE_DRAIN, "n1", NULL, false, false},
        {"node drain n1 --why disk", DT_CTL_NODE_DRAIN, "n1", "disk", false, false},
        {"node drain --why=disk n1 --json", DT_CTL_NODE_DRAIN, "n1", "disk", true, false},
        {"node undrain n1", DT_CTL_NODE_UNDRAIN, "n1", NULL, false, false},
        {"node undrain --all", DT_CTL_NODE_UNDRAIN, "", NULL, false, false},
        {"node drain -- -n1", DT_CTL_NODE_DRAIN, "-n1", NULL, false, false},
        {"--timeout 1 node drain --endpoint x:1 --why disk n1", DT_CTL_NODE_DRAIN, "n1", "disk",
         false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].line);
        struct dt_ctl_options o;
        struct dt_opt_result result;
        struct dt_err err = {0};
        CHECK_OK(read_line(&o, rows[i].line, &result, &err), err);
        CHECK_EQ(o.command, rows[i].command);
        CHECK_STR(o.name, rows[i].name);
        CHECK_STR(o.why, rows[i].why);
        CHECK_EQ(o.json, rows[i].json);
        CHECK_EQ(o.quarantined, rows[i].quarantined);
        dt_ctl_options_finish(&o);
    }
}

TEST(ranks_are_numbers_and_ranges)
{
    struct dt_ctl_options o;
    struct dt_opt_result result;
    struct dt_err err = {0};
    CHECK_OK(read_line(&o, "look llama 3 8-15", &result, &err), err);
    CHECK_EQ(o.ranks_len, 2);
    CHECK_EQ(o.ranks[0].first, 3);
    CHECK_EQ(o.ranks[0].last, 3);
    CHECK_EQ(o.ranks[1].first, 8);
    CHECK_EQ(o.ranks[1].last, 15);
    dt_ctl_options_finish(&o);
}

TEST(a_report_takes_folders_and_a_file_for_the_page)
{
    struct dt_ctl_options o;
    struct dt_opt_result result;
    struct dt_err err = {0};
    CHECK_OK(read_line(&o, "report a b c -o r.html --metrics m", &result, &err), err);
    CHECK_EQ(o.command, DT_CTL_REPORT);
    CHECK_STR(o.name, "a");
    CHECK_EQ(o.folders_len, 2);
    CHECK_STR(o.folders[1], "c");
    CHECK_STR(o.output, "r.html");
    CHECK_STR(o.metrics, "m");
    CHECK(o.checkpoints == NULL);
    dt_ctl_options_finish(&o);
}

TEST(what_makes_no_command_is_said)
{
    static const struct {
        const char *line, *words;
    } rows[] = {
        {"", "which command?"},
        {"node", "node list, node drain, or node undrain?"},
        {"run", "run list, run wait, run save, run pause, run resume, run restart, or run stop?"},
        {"run pause", "run pause: which run?"},
        {"run resume llama --why demo",
         "--why goes with node drain, run pause, run restart and run stop"},
        {"pause llama", "did you mean run pause?"},
        {"stop llama", "did you mean run stop?"},
        {"run list llama", "run list: what is \"llama\"? It takes no name"},
        {"run wait", "run wait: which run?"},
        {"alert", "alert test?"},
        {"node melt", "there is no command \"node melt\"; see dtrun-ctl --help"},
        {"nod lits", "there is no command \"nod lits\"; did you mean node list?"},
        {"stat", "there is no command \"stat\"; did you mean status?"},
        {"statsu", "there is no command \"statsu\"; did you mean status?"},
        {"node drian n1", "there is no command \"node drian\"; did you mean node drain?"},
        {"drain n1", "there is no command \"drain n1\"; did you mean node drain?"},
        {"undrian", "there is no command \"undrian\"; did you mean node undrain?"},
        {"frobnicate", "there is no command \"frobnicate\"; see dtrun-ctl --help"},
        {"status a b", "status: what is \"b\"? It takes one name"},
        {"status a b c d e", "status: what is \"b\"? It takes one name"},
        {"look", "look: which run?"},
        {"look llama x", "look: \"x\" is no rank; give a number, or a range as 8-15"},
        {"look llama 3 -2", "-2"},
        {"look llama 5-3", "look: \"5-3\" is no rank"},
        {"look llama 5-", "look: \"5-\" is no rank"},
        {"lok llama", "did you mean look?"},
        {"node list n1", "node list: what is \"n1\"? It takes no name"},
        {"node drain", "node drain: which node?"},
        {"history", "history: which run?"},
        {"history a b", "history: what is \"b\"?"},
        {"node drain ''", "node drain: which node?"},
        {"node drain n1 n2", "node drain: what is \"n2\"?"},
        {"status --why x", "--why goes with node drain"},
        {"node undrain n1 --why x", "--why goes with node drain"},
        {"node undrain n1 --all", "node undrain: n1, or --all?"},
        {"node undrain", "node undrain: which node?"},
        {"node drain --all", "--all goes with node undrain"},
        {"status --native", "--native goes with look"},
        {"status --quarantined", "--quarantined goes with node list"},
        {"status -q", "--quiet goes with run list and node list"},
        {"run list -q --json", "--quiet, or --json?"},
        {"logs llama --json --prefix never", "--prefix, or --json?"},
        {"report", "report: which folder? Give its name"},
        {"report ''", "report: which folder?"},
        {"reprot x", "did you mean report?"},
        {"report x --json", "report has no --json"},
        {"status -o x", "--output goes with report"},
        {"status --metrics x", "--metrics goes with report"},
        {"status --checkpoints x", "--checkpoints goes with report"},
        {"top a b", "top: what is \"b\"? It takes one name"},
        {"top --json", "top has no --json: status has"},
        {"top --interval 1ms", "--interval: "},
        {"status --interval 1s", "--interval goes with top"},
        {"status --once", "--once goes with top"},
        {"tpo", "did you mean top?"},
        {"status --yaml", "--yaml"},
        {"status --endpoint :", "--endpoint: "},
        {"status --timeout soon", "--timeout: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].line);
        struct dt_ctl_options o;
        struct dt_opt_result result;
        struct dt_err err = {0};
        CHECK_FAIL(read_line(&o, rows[i].line, &result, &err), err, rows[i].words);
        CHECK_EQ(err.code, DT_E_USAGE);
        dt_ctl_options_finish(&o);
    }
}

TEST(help_and_version_need_no_command)
{
    struct dt_ctl_options o;
    struct dt_opt_result result;
    struct dt_err err = {0};
    CHECK_OK(read_line(&o, "node --help", &result, &err), err);
    CHECK(result.help);
    dt_ctl_options_finish(&o);
    CHECK_OK(read_line(&o, "--version", &result, &err), err);
    CHECK(result.version);
    dt_ctl_options_finish(&o);
}

/* -- the environment -------------------------------------------------------------------------- */

TEST(the_environment_names_the_rendezvous_where_no_option_does)
{
    static const struct {
        const char *value, *line, *endpoint;
        bool from_env;
    } rows[] = {
        {"head:29401", "status", "head:29401", true},
        {"head", "status", "head", true},
        {"unix:/run/x", "status", "unix:/run/x", true},
        {"head:29401", "status --endpoint other:1", "other:1", false},
        {":", "status --endpoint other:1", "other:1", false},
        {NULL, "status", DT_RENDEZVOUS_LOOPBACK, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s, %s", rows[i].value ? rows[i].value : "unset", rows[i].line);
        struct dt_ctl_options o;
        struct dt_opt_result result;
        struct dt_err err = {0};
        if (rows[i].value)
            setenv(DT_CTL_RENDEZVOUS_ENV, rows[i].value, 1);
        else
            unsetenv(DT_CTL_RENDEZVOUS_ENV);
        CHECK_OK(read_line(&o, rows[i].line, &result, &err), err);
        CHECK_STR(o.endpoint, rows[i].endpoint);
        CHECK_EQ(o.endpoint_from_env, rows[i].from_env);
        dt_ctl_options_finish(&o);
    }
    unsetenv(DT_CTL_RENDEZVOUS_ENV);
}

TEST(a_variable_that_names_no_place_is_named)
{
    static const char *const values[] = {"", ":", "head:port", "head:99999"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        CHECK_ROW("\"%s\"", values[i]);
        struct dt_ctl_options o;
        struct dt_opt_result result;
        struct dt_err err = {0};
        setenv(DT_CTL_RENDEZVOUS_ENV, values[i], 1);
        CHECK_FAIL(read_line(&o, "status", &result, &err), err, "DTRUN_RENDEZVOUS: ");
        CHECK_EQ(err.code, DT_E_USAGE);
        dt_ctl_options_finish(&o);
    }
    unsetenv(DT_CTL_RENDEZVOUS_ENV);
}

TEST(only_a_person_at_the_command_line_limits_how_long_a_run_is_waited_for)
{
    struct dt_ctl_options o;
    struct dt_opt_result result;
    struct dt_err err = {0};
    CHECK_OK(read_line(&o, "run wait llama", &result, &err), err);
    CHECK_EQ(o.wait, DT_FOREVER);
    dt_ctl_options_finish(&o);
    setenv("DTRUN_TIMEOUT", "2s", 1);
    CHECK_OK(read_line(&o, "run wait llama", &result, &err), err);
    CHECK_EQ(o.wait, DT_FOREVER);
    CHECK_EQ(o.timeout, 2 * DT_SECOND);
    dt_ctl_options_finish(&o);
    CHECK_OK(read_line(&o, "run wait llama --timeout 5", &result, &err), err);
    CHECK_EQ(o.wait, 5 * DT_SECOND);
    dt_ctl_options_finish(&o);
    unsetenv("DTRUN_TIMEOUT");
}

static bool is_listed(const char *command)
{
    for (const struct dt_opt_listing *l = dt_ctl_program.listings; l->ask; l++)
        for (const char *const *c = l->commands; *c; c++)
            if (strcmp(*c, command) == 0)
                return true;
    return false;
}

TEST(completions_offer_names_where_a_command_takes_one)
{
    for (const char *const *c = dt_ctl_program.commands; *c; c++) {
        CHECK_ROW("%s", *c);
        struct dt_ctl_options o;
        struct dt_opt_result result;
        struct dt_err err = {0};
        char line[64];
        snprintf(line, sizeof line, "%s llama", *c);
        bool takes_name = read_line(&o, line, &result, &err) == 0 && strcmp(*c, "report") != 0;
        CHECK_EQ(is_listed(*c), takes_name);
        dt_ctl_options_finish(&o);
    }
}

TEST(what_completions_ask_is_a_command)
{
    for (const struct dt_opt_listing *l = dt_ctl_program.listings; l->ask; l++) {
        CHECK_ROW("%s", l->ask);
        struct dt_ctl_options o;
        struct dt_opt_result result;
        struct dt_err err = {0};
        CHECK_OK(read_line(&o, l->ask, &result, &err), err);
        CHECK(o.quiet);
        CHECK_EQ(o.timeout, DT_SECOND);
        dt_ctl_options_finish(&o);
    }
}
