/* SPDX-License-Identifier: Apache-2.0 */
/* How dtrun-ctl gets to a rendezvous, and what goes wrong on the way. */
#include "rendezvous/protocol/warrant.h"
#include "tests/ctl/ctl_story.h"

#include <sys/stat.h>

static const char *token_file(const char *text, mode_t mode)
{
    const char *path = at("token");
    struct dt_err err = {0};
    unlink(path);
    CHECK_OK(dt_fs_replace(path, text, strlen(text), mode, &err), err);
    CHECK_EQ(chmod(path, mode), 0);
    return path;
}

static int ctl_with_token(struct scripted *s, const char *text, mode_t mode)
{
    char args[600];
    snprintf(args, sizeof args, "status --token-file '%s'", token_file(text, mode));
    return ctl_at(s, args);
}

TEST(a_token_from_a_file_opens_the_door)
{
#ifndef DT_WITH_SODIUM
    SKIP("built without libsodium");
#endif
    struct scripted s = {.token = "sesame",
                         .answers = (const char *const[]){PAGE("", "", "", 0), NULL}};
    CHECK_EQ(ctl_with_token(&s, "sesame\n", 0600), 0);
    CHECK_STR(errors, "");
    CHECK_STR(out, "no runs\n");
    dt_buf_finish(&s.asked);
}

/* A member of the last request. */
static const char *last_member(struct scripted *s, const char *name, char value[256])
{
    char text[64];
    snprintf(text, sizeof text, "\"%s\":\"", name);
    const char *at = asked(s), *last = "";
    while ((at = strstr(at, text)))
        last = at += strlen(text);
    snprintf(value, 256, "%.*s", (int)strcspn(last, "\""), last);
    return value;
}

TEST(the_token_of_a_run_or_of_the_operator_signs_what_is_wished)
{
    static const struct {
        const char *option, *command, *run;
        bool signs;
    } rows[] = {
        {"--run-token-file", "run save llama", "llama", true},
        {"--run-token-file", "run pause llama", "llama", true},
        {"--run-token-file", "run stop llama", "llama", true},
        {"--operator-token-file", "run pause llama", NULL, true},
        {"--operator-token-file", "run restart llama", NULL, true},
        {"--operator-token-file", "node drain node7", NULL, true},
        {"--run-token-file", "node drain node7", NULL, false}, /* which run's? */
    };
    struct dt_err err;
    const struct dt_proof_table *lib = dt_proof_open(&err);
    const struct dt_token token = {.secret = "a secret of the test", .len = 20};
    if (!lib)
        SKIP("%s", err.text);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char args[600], value[256], key[DT_WARRANT_KEY];
        CHECK_ROW("%s %s", rows[i].option, rows[i].command);
        struct scripted s = {.answers = (const char *const[]){"{\"type\":\"refused\"}", NULL}};
        snprintf(args, sizeof args, "%s %s '%s'", rows[i].command, rows[i].option,
                 token_file("a secret of the test\n", 0600));
        ctl_at(&s, args);
        dt_warrant_key(lib, &token, rows[i].run, key);
        CHECK_STR(last_member(&s, "key", value), rows[i].signs ? key : "");
        CHECK_EQ(strlen(last_member(&s, "signature", value)), rows[i].signs ? 128 : 0);
        CHECK(!strstr(asked(&s), "a secret"));
        dt_buf_finish(&s.asked);
    }
}

TEST(who_asks_where_nobody_is_hears_how_to_ask_elsewhere)
{
    CHECK_EQ(ctl("127.0.0.1:1", "status"), 1);
    CHECK(strstr(errors, "cannot connect: Connection refused; is a rendezvous running there?") !=
          NULL);
    CHECK(strstr(errors, "--endpoint") != NULL);
}

TEST(another_token_is_refused)
{
#ifndef DT_WITH_SODIUM
    SKIP("built without libsodium");
#endif
    struct scripted s = {.token = "sesame"};
    CHECK_EQ(ctl_with_token(&s, "barley\n", 0600), 1);
    CHECK(strstr(errors, "it refused: that is another token") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(a_token_that_others_may_read_is_not_used)
{
    char args[600];
    snprintf(args, sizeof args, "status --token-file '%s'", token_file("sesame", 0644));
    CHECK_EQ(ctl("127.0.0.1:1", args), 2);
    CHECK(strstr(errors, "chmod o-rwx") != NULL);
}

TEST(a_token_that_is_wanted_must_be_given)
{
    struct scripted s = {.token = "sesame"};
    CHECK_EQ(ctl_at(&s, "status"), 1);
    CHECK(strstr(errors, "it asks for a token; give --token-file") != NULL);
    dt_buf_finish(&s.asked);
}

TEST(another_version_garbage_and_a_server_that_goes_are_told_apart)
{
    struct scripted other = {.version = 9};
    CHECK_EQ(ctl_at(&other, "status"), 1);
    CHECK(strstr(errors, "it speaks version 9 of the control protocol") != NULL);
    dt_buf_finish(&other.asked);
    struct scripted garbage = {.raw = "HTTP/1.1 400", .raw_len = 12};
    CHECK_EQ(ctl_at(&garbage, "status"), 1);
    CHECK(strstr(errors, "it did not answer as a rendezvous of dtrun does") != NULL);
    dt_buf_finish(&garbage.asked);
    struct scripted gone = {0};
    CHECK_EQ(ctl_at(&gone, "status"), 1);
    CHECK(strstr(errors, "connection") != NULL);
    dt_buf_finish(&gone.asked);
    CHECK_STR(out, "");
}

TEST(the_environment_says_where_to_ask)
{
    struct scripted s = {.answers = (const char *const[]){one_run, NULL}};
    scripted_start(&s);
    setenv("DTRUN_RENDEZVOUS", s.addr, 1);
    CHECK_EQ(ctl_with("status"), 0);
    scripted_stop(&s);
    CHECK(strstr(out, "run llama: running") != NULL);
    dt_buf_finish(&s.asked);
    setenv("DTRUN_RENDEZVOUS", "unix:/nowhere/socket", 1);
    CHECK_EQ(ctl_with("status"), 1);
    CHECK(strstr(errors, "dtrun-ctl: DTRUN_RENDEZVOUS: rendezvous unix:/nowhere/socket: ") ==
          errors);
    CHECK_EQ(ctl_with("events --follow"), 1);
    CHECK(strstr(errors, "dtrun-ctl: DTRUN_RENDEZVOUS: rendezvous unix:/nowhere/socket: ") ==
          errors);
    setenv("DTRUN_RENDEZVOUS", ":", 1);
    CHECK_EQ(ctl_with("status"), 2);
    CHECK(strstr(errors, "dtrun-ctl: DTRUN_RENDEZVOUS: ") == errors);
    unsetenv("DTRUN_RENDEZVOUS");
}

TEST(a_full_disk_is_no_success)
{
    if (access("/dev/full", W_OK) != 0)
        SKIP("there is no /dev/full");
    CHECK_EQ(WEXITSTATUS(system("\"$DT_CTL\" --help >/dev/full 2>/dev/null")), 1);
}

TEST(help_tells_of_each_command)
{
    static const char *const commands[] = {"status [RUN]",    "run list",         "run wait RUN",
                                           "run save RUN",    "run pause RUN",    "run resume RUN",
                                           "run restart RUN", "run stop RUN",     "node list",
                                           "node drain NAME", "node undrain NAME"};
    CHECK_EQ(ctl("127.0.0.1:1", "--help"), 0);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        CHECK_ROW("%s", commands[i]);
        CHECK(strstr(out, commands[i]) != NULL);
    }
}
