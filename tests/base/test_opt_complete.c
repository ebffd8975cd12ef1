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
