/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"
#include "base/opt/docs.h"
#include "tests/lib/check.h"

#include <sys/wait.h>

/* Everything that a document has to escape. */
static const struct dt_opt table[] = {
    {.name = "verbose",
     .letter = 'v',
     .group = "Talk",
     .help = "say more. Don't whisper: [loud] \\ `ok`"},
    {.name = "format", .letter = 'f', .arg = "Fo", .words = "text json", .help = ".dots first"},
    {.name = "config-file",
     .arg = "FILE",
     .completes = DT_OPT_FILE,
     .fallback = "/etc/a \"b\".conf"},
    {.name = "log-dir",
     .arg = "DIR",
     .completes = DT_OPT_DIRECTORY,
     .repeat = true,
     .group = "Talk"},
    {.name = "plain",
     .arg = "X|Y Z",
     .fallback = ".",
     .help = "a help that is so long that it has to be folded somewhere, which 'quotes' at the "
             "start of a line must survive. Also a second sentence"},
    {.name = "secret", .hidden = true},
    {0},
};

static const struct dt_opt_program program = {
    .name = "dt-test",
    .usage = "[options]",
    .version = "1",
    .table = table,
    .env_prefix = "DT_",
};

static char *printed_of(const struct dt_opt_program *p,
                        void (*print)(const struct dt_opt_program *, FILE *))
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    print(p, f);
    fclose(f);
    return text;
}

static char *printed(void (*print)(const struct dt_opt_program *, FILE *))
{
    return printed_of(&program, print);
}

/* Runs COMMAND with TEXT in the file $F; what it prints, "" when nothing. */
static const char *run(const char *text, const char *command, char out[4096], int *status)
{
    char path[] = "/tmp/dtrun-test-docs-XXXXXX";
    struct dt_err err = {0};
    close(mkstemp(path));
    CHECK_OK(dt_fs_replace(path, text, strlen(text), 0600, &err), err);
    setenv("F", path, 1);
    FILE *p = popen(command, "r");
    size_t n = p ? fread(out, 1, 4095, p) : 0;
    out[n] = '\0';
    *status = p ? pclose(p) : -1;
    unlink(path);
    return out;
}

static bool have(const char *command)
{
    char line[128];
    snprintf(line, sizeof line, "command -v %s > /dev/null", command);
    return system(line) == 0;
}

#define HEAD                                                                                       \
    ".Dd November 21, 2026\n.Dt DT-TEST 1\n.Os\n.Sh NAME\n.Nm dt-test\n.Nd for tests\n"            \
    ".Sh OPTIONS\n"

TEST(the_man_page_has_each_row_and_what_it_needs_escaped)
{
    static const char *const wanted[] = {
        ".Ss Talk\n.Bl -tag -width Ds\n.It Fl v , Fl -verbose\n",
        "Say more.\nDon't whisper: [loud] \\e \\(gaok\\(ga.\n",
        ".It Fl f , Fl -format Ar \\&Fo\n\\&.dots first.\n",
        ".Ql \"/etc/a \\(dqb\\(dq.conf\" .\n",
        ".It Fl -plain Ar \"X|Y Z\"\n",
        ".Ql \\&. .\n",
        ".Ev DT_CONFIG_FILE .\n",
        ".It Fl h , Fl -help\n",
    };
    char *text = printed(dt_opt_print_mdoc);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        CHECK_ROW("%s", wanted[i]);
        CHECK(strstr(text, wanted[i]) != NULL);
    }
    CHECK(strstr(text, "secret") == NULL);
    free(text);
}

TEST(mandoc_finds_nothing_wrong_and_shows_what_was_written)
{
    if (!have("mandoc"))
        SKIP("mandoc is not installed");
    char *text = printed(dt_opt_print_mdoc), out[4096], *page;
    int status;
    if (asprintf(&page, HEAD "%s", text) < 0)
        abort();
    run(page, "mandoc -Tlint -Wstyle < $F", out, &status);
    CHECK_STR(out, "");
    CHECK_EQ(status, 0);
    run(page, "mandoc -Tascii $F | sed 's/.\b//g'", out, &status);
    CHECK(strstr(out, "-v, --verbose\n") != NULL);
    CHECK(strstr(out, "--plain X|Y Z\n") != NULL);
    CHECK(strstr(out, "[loud] \\ `ok`") != NULL);
    CHECK(strstr(out, "\"/etc/a \"b\".conf\"") != NULL || strstr(out, "/etc/a \"b\".conf") != NULL);
    free(page);
    free(text);
}

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
