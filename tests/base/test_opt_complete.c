/* SPDX-License-Identifier: Apache-2.0 */
#include "base/opt/complete.h"
#include "tests/base/opt_printed.h"

/* What the completion TEXT offers for the last of WORDS. */
static void complete_in_bash(const char *text, const char *words, char out[4096])
{
    char command[512];
    int status;
    /* compopt works inside a real completion only. */
    snprintf(command, sizeof command,
             "bash -uc '. $F; compopt() { :; }; COMP_WORDS=(%s); "
             "COMP_CWORD=$((${#COMP_WORDS[@]}-1)); dt_test_complete; "
             "((${#COMPREPLY[@]})) && printf \"%%s \" \"${COMPREPLY[@]}\"; true' 2>&1",
             words);
    for (char *q = strstr(command, "''"); q; q = strstr(q, "''")) {
        q[0] = '"'; /* the line itself stands in single quotes */
        q[1] = '"';
    }
    run(text, command, out, &status);
    CHECK_EQ(status, 0);
}

TEST(bash_takes_the_completion_and_completes)
{
    if (!have("bash"))
        SKIP("bash is not installed");
    /* clang-format off */
    static const struct { const char *words, *replies; } rows[] = {
        {"dt-test --ver", "--verbose --version "},
        {"dt-test --conf", "--config-file= "},
        {"dt-test --format j", "json "},
        {"dt-test --format = t", "text "},
        {"dt-test -f ''", "text json "},
        {"dt-test --config-file /bin/basenam", "/bin/basename "},
        {"dt-test --log-dir /et", "/etc "},
        {"dt-test --plain ''", ""},
        {"dt-test --sec", ""},
    };
    /* clang-format on */
    char *text = printed(dt_opt_print_bash), out[4096];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].words);
        complete_in_bash(text, rows[i].words, out);
        CHECK_STR(out, rows[i].replies);
    }
    free(text);
}

TEST(bash_tells_operands_from_options)
{
    if (!have("bash"))
        SKIP("bash is not installed");
    static const char *const with_commands[] = {"status", "node list", "node drain", "keep FILE",
                                                NULL};
    /* clang-format off */
    static const struct { const char *const *commands; const char *words, *replies; } rows[] = {
        {NULL, "dt-test --ver", "--verbose --version "},
        {NULL, "dt-test /bin/true --ver", ""}, /* an option of the script, and not ours */
        {NULL, "dt-test --format json --ver", "--verbose --version "},
        {NULL, "dt-test --format = json --ver", "--verbose --version "},
        {NULL, "dt-test -v --config_file x --log_d", "--log-dir= "},
        {NULL, "dt-test /bin/true --format ''", NULL}, /* files, of which there may be any */
        {NULL, "dt-test /bin/true /bin/basenam", "/bin/basename "},
        {with_commands, "dt-test ''", "status node keep "},
        {with_commands, "dt-test --format json s", "status "},
        {with_commands, "dt-test node ''", "list drain "},
        {with_commands, "dt-test node dr", "drain "},
        {with_commands, "dt-test node drain ''", ""},
        {with_commands, "dt-test status ''", ""},
        {with_commands, "dt-test status --ver", "--verbose --version "},
        {with_commands, "dt-test keep /bin/basenam", "/bin/basename "},
        {with_commands, "dt-test keep a /bin/basenam", "/bin/basename "},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s%s", rows[i].words, rows[i].commands ? ", with commands" : "");
        struct dt_opt_program operands = program;
        operands.takes_operands = true;
        operands.commands = rows[i].commands;
        char out[4096], *text = printed_of(&operands, dt_opt_print_bash);
        complete_in_bash(text, rows[i].words, out);
        if (rows[i].replies)
            CHECK_STR(out, rows[i].replies);
        else
            CHECK(strcmp(out, "text json ") != 0);
        free(text);
    }
}

static const struct dt_opt_program lister = {
    .name = "dt-test",
    .usage = "[options]",
    .version = "1",
    .table = table,
    .takes_operands = true,
    .commands = (const char *const[]){"status", "run list", "run stop", NULL},
    .listings =
        (const struct dt_opt_listing[]){
            {"run list -q", (const char *const[]){"status", "run stop", NULL}}, {0}},
    .listing_options = (const char *const[]){"format", "plain", NULL},
};

/* What SCRIPT prints in SHELL, where $F has the completion TEXT, and then how the program was
 * asked: it lists names, of which one is not to be evaluated. */
static const char *list_in(const char *shell, const char *script, const char *text, char out[4096])
{
    char command[2048];
    int status;
    snprintf(command, sizeof command,
             "mkdir $F.d && cat >$F.d/dt-test <<'END'\n#!/bin/sh\necho \"$@\" >>$F.asked\n"
             "printf '%%s\\n' llama lamb '$(touch $F.bad)' 'a b'\nEND\n"
             "cat >$F.sh <<'END'\n%s\nEND\n"
             "chmod +x $F.d/dt-test; : >$F.asked; HOME=$F.d PATH=$F.d:$PATH %s $F.sh 2>&1; s=$?\n"
             "cat $F.asked; [ -e $F.bad ] && s=1; rm -rf $F.d $F.sh $F.asked $F.bad; exit $s",
             script, shell);
    run(text, command, out, &status);
    CHECK_EQ(status, 0);
    return out;
}

TEST(bash_offers_names_that_the_program_lists)
{
    static const struct {
        const char *line, *replies, *asked;
    } rows[] = {
        {"dt-test run stop ", "[llama][lamb][\\$\\(touch\\ \\$F.bad\\)][a\\ b]", "run list -q\n"},
        {"dt-test status lla", "[llama]", "run list -q\n"},
        {"dt-test --format json run stop lla", "[llama]", "run list -q --format json\n"},
        {"dt-test --format=a:1 -v run stop lla", "[llama]", "run list -q --format=a:1\n"},
        {"dt-test run stop --plain x:1 --config-file y lla", "[llama]",
         "run list -q --plain x:1\n"},
        {"dt-test run ", "[list][stop]", ""},
        {"dt-test run list ", "", ""},
        {"dt-test run stop llama ", "", ""},
    };
    if (!have("bash"))
        SKIP("bash is not installed");
    char *text = printed_of(&lister, dt_opt_print_bash), out[4096], script[1024];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].line);
        /* As bash splits the line, COMP_WORDBREAKS included. */
        snprintf(script, sizeof script,
                 ". $F; compopt() { :; }\nCOMP_LINE='%s'\nCOMP_POINT=${#COMP_LINE}\n"
                 "w=${COMP_LINE//=/ = }\nw=${w//:/ : }\nCOMP_WORDS=($w)\n"
                 "[[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')\n"
                 "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\ndt_test_complete\n"
                 "((${#COMPREPLY[@]})) && printf '[%%s]' \"${COMPREPLY[@]}\"\necho",
                 rows[i].line);
        char wanted[512];
        snprintf(wanted, sizeof wanted, "%s\n%s", rows[i].replies, rows[i].asked);
        CHECK_STR(list_in("bash -u", script, text, out), wanted);
    }
    free(text);
}

TEST(bash_offers_a_word_that_stands_before_all_options)
{
    if (!have("bash"))
        SKIP("bash is not installed");
    static const struct {
        const char *words, *replies;
    } rows[] = {
        {"dt-test zzdoc", "zzdoctor "},
        {"dt-test zzdoctor --ver", "--verbose --version "},
        {"dt-test zzdoctor --format ''", "text json "},
        {"dt-test --verbose zzdoc", ""},
        {"dt-test /bin/true zzdoc", ""},
    };
    struct dt_opt_program doctor = program;
    doctor.takes_operands = true;
    doctor.first_word = "zzdoctor";
    char *text = printed_of(&doctor, dt_opt_print_bash), out[4096];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_ROW("%s", rows[i].words);
        complete_in_bash(text, rows[i].words, out);
        CHECK_STR(out, rows[i].replies);
    }
    free(text);
}

TEST(zsh_rows_are_quoted)
{
    static const char *const wanted[] = {
        "#compdef dt-test\n",
        "    '--verbose[say more]' \\\n    '-v[say more]' \\\n",
        "    '--format=[.dots first]:Fo:(text json)' \\\n",
        "    '-f+[.dots first]:Fo:(text json)' \\\n",
        "    '--config-file=[]:FILE:_files' \\\n",
        "    '*--log-dir=[]:DIR:_directories' \\\n",
    };
    char *text = printed(dt_opt_print_zsh), out[4096];
    int status;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        CHECK_ROW("%s", wanted[i]);
        CHECK(strstr(text, wanted[i]) != NULL);
    }
    if (have("zsh")) {
        CHECK_STR(run(text, "zsh -n $F 2>&1", out, &status), "");
        CHECK_EQ(status, 0);
    }
    free(text);
}

TEST(fish_lines_are_quoted)
{
    static const char *const wanted[] = {
        "complete -c dt-test -f\n",
        "complete -c dt-test -l verbose -s v -d 'say more'\n",
        "complete -c dt-test -l format -s f -x -a 'text json' -d '.dots first'\n",
        "complete -c dt-test -l config-file -r -F -d ''\n",
    };
    char *text = printed(dt_opt_print_fish), out[4096];
    int status;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        CHECK_ROW("%s", wanted[i]);
        CHECK(strstr(text, wanted[i]) != NULL);
    }
    if (have("fish")) {
        CHECK_STR(run(text, "fish -n $F 2>&1", out, &status), "");
        CHECK_EQ(status, 0);
    }
    free(text);
}

TEST(zsh_offers_names_that_the_program_lists)
{
    static const struct {
        const char *set, *says;
    } rows[] = {
        {"line=(run stop '') opt_args=(--format json); _dt_test_list_third",
         "llama\nlamb\n$(touch $F.bad)\na b\nrun list -q --format json\n"},
        {"line=(status ''); _dt_test_list_second",
         "llama\nlamb\n$(touch $F.bad)\na b\nrun list -q\n"},
        {"line=(run ''); _dt_test_list_second", "list\nstop\n"},
        {"line=(run list ''); _dt_test_list_third", ""},
    };
    char *text = printed_of(&lister, dt_opt_print_zsh), out[4096], script[512];
    CHECK(strstr(text, "    '2::word:_dt_test_list_second' '3::name:_dt_test_list_third'\n") !=
          NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && have("zsh"); i++) {
        CHECK_ROW("%s", rows[i].set);
        snprintf(script, sizeof script,
                 "_arguments() { :; }\n"
                 "compadd() { [[ $1 == -- ]] && shift; print -rl -- \"$@\"; }\n"
                 "typeset -a line; typeset -A opt_args; words=(dt-test)\n. $F\n%s\ntrue",
                 rows[i].set);
        CHECK_STR(list_in("zsh -f", script, text, out), rows[i].says);
    }
    free(text);
}

TEST(fish_offers_names_that_the_program_lists)
{
    static const struct {
        const char *line, *says;
    } rows[] = {
        {"dt-test --format json run stop lla", "llama\nrun list -q --format json\n"},
        {"dt-test status lla", "llama\nrun list -q\n"},
        {"dt-test run li", "list\n"},
        {"dt-test run list l", ""},
    };
    char *text = printed_of(&lister, dt_opt_print_fish), out[4096], script[256];
    CHECK(strstr(text,
                 "complete -c dt-test -n '__fish_seen_subcommand_from run; and "
                 "__fish_seen_subcommand_from stop' -a '(_dt_test_list run list -q)'\n") != NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && have("fish"); i++) {
        CHECK_ROW("%s", rows[i].line);
        snprintf(script, sizeof script, ". $F; complete -C'%s'", rows[i].line);
        CHECK_STR(list_in("fish --no-config", script, text, out), rows[i].says);
    }
    free(text);
}
