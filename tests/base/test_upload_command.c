/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of users that upload a file. */
#include "base/upload/command.h"
#include "tests/lib/folder.h"

#include <pthread.h>
#include <signal.h>

BEFORE_ALL
{
    folder_make();
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

static const char *text_of(const char *path)
{
    static char text[1000];
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    text[fread(text, 1, sizeof text - 1, f)] = '\0';
    fclose(f);
    return text;
}

TEST(it_finds_all_in_its_environment_and_no_name_becomes_a_command)
{
    struct dt_err err = {0};
    char name[600];
    const char *key = "step-1/$(touch \"$OUT.bad\"); `x` 'y'";
    setenv("OUT", at("out"), 1);
    setenv("DTRUN_UPLOAD_KEY", "of somebody else", 1);
    write_file(at("a file's \"name\""), "bytes");
    struct dt_upload_command c = {
        .text =
            "cat \"$DTRUN_UPLOAD_FILE\" > \"$OUT\"; echo \" $DTRUN_UPLOAD_KEY|$DTRUN_UPLOAD_URL\" "
            ">> \"$OUT\"",
        .file = at("a file's \"name\""),
        .key = key,
        .url = "s3://b/k"};
    CHECK_OK(dt_upload_command_run(&c, &err), err);
    snprintf(name, sizeof name, "bytes %s|s3://b/k\n", key);
    CHECK_STR(text_of(at("out")), name);
    CHECK(access(at("out.bad"), F_OK) < 0);
    c.url = NULL;
    CHECK_OK(dt_upload_command_run(&c, &err), err);
    snprintf(name, sizeof name, "bytes %s|\n", key);
    CHECK_STR(text_of(at("out")), name);
}

TEST(one_that_fails_is_told_with_its_last_words)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        {"exit 3", "k: the upload command ended with exit status 3"},
        {"echo first; echo no bucket >&2; exit 1", "ended with exit status 1: no bucket"},
        {"kill -9 $$", "was killed by signal 9"},
        {"yes x | head -c 100000; printf 'the \\033[1mend\\n\\n'; exit 2", "the \\x1b[1mend"},
    };
    struct dt_err err = {0};
    write_file(at("f"), "");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct dt_upload_command c = {.text = rows[i].text, .file = at("f"), .key = "k"};
        CHECK_ROW("%s", rows[i].text);
        CHECK_FAIL(dt_upload_command_run(&c, &err), err, rows[i].words);
        CHECK_EQ(err.code, DT_E_RUNTIME);
    }
    struct dt_upload_command c = {.text = "true", .file = at("none"), .key = "k"};
    CHECK_FAIL(dt_upload_command_run(&c, &err), err, "cannot find ");
}

TEST(signals_are_as_in_a_shell)
{
    struct dt_err err = {0};
    sigset_t all, before;
    write_file(at("f"), "");
    sigfillset(&all);
    signal(SIGPIPE, SIG_IGN);
    sigprocmask(SIG_SETMASK, &all, &before);
    struct dt_upload_command c = {
        .text = "grep -q 'SigBlk:.0000000000000000' /proc/self/status && kill -PIPE $$",
        .file = at("f"),
        .key = "k"};
    CHECK_FAIL(dt_upload_command_run(&c, &err), err, "killed by signal 13");
    sigprocmask(SIG_SETMASK, &before, NULL);
}

TEST(what_it_leaves_behind_is_not_waited_for)
{
    struct dt_err err = {0};
    write_file(at("f"), "");
    setenv("PID", at("pid"), 1);
    struct dt_upload_command c = {
        .text = "sleep 1000 & echo $! > \"$PID\"", .file = at("f"), .key = "k"};
    CHECK_OK(dt_upload_command_run(&c, &err), err);
    CHECK_EQ(kill(atoi(text_of(at("pid"))), SIGKILL), 0);
    c.text = "yes & echo $! > \"$PID\"; exit 4"; /* nor until it has said all it has to say */
    CHECK_FAIL(dt_upload_command_run(&c, &err), err, "ended with exit status 4");
}

static atomic_bool stop;

/* Once the command is at work. */
static void *call_off(void *arg)
{
    while (access(arg, F_OK) < 0)
        usleep(1000);
    atomic_store(&stop, true);
    return NULL;
}

/* A zombie, whose parent is not us, is not. */
static bool is_alive(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", pid);
    FILE *f = fopen(path, "r");
    int first = f ? getc(f) : EOF;
    if (f)
        fclose(f);
    return first != EOF;
}

TEST(one_that_is_called_off_ends_with_all_that_it_started)
{
    /* The one that takes no notice of SIGTERM is the shell, or what it started. */
    static const char *const texts[] = {
        "trap '' TERM; sleep 1000 & echo $! > \"$PID\"; touch \"$BEGUN\"; wait; sleep 1000",
        "(trap '' TERM; exec sleep 1000) & echo $! > \"$PID\"; touch \"$BEGUN\"; wait",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct dt_err err = {0};
        pthread_t thread;
        char begun[600];
        CHECK_ROW("%s", texts[i]);
        write_file(at("f"), "");
        snprintf(begun, sizeof begun, "%s", at("begun"));
        unlink(begun);
        setenv("BEGUN", begun, 1);
        setenv("PID", at("pid"), 1);
        atomic_store(&stop, false);
        struct dt_upload_command c = {.text = texts[i], .file = at("f"), .key = "k", .stop = &stop};
        CHECK_EQ(pthread_create(&thread, NULL, call_off, begun), 0);
        int rc = dt_upload_command_run(&c, &err);
        pthread_join(thread, NULL);
        CHECK_FAIL(rc, err, "the upload command was ended");
        CHECK_EQ(err.code, DT_E_CANCELED);
        while (is_alive(atoi(text_of(at("pid")))))
            usleep(1000);
    }
}
