/* SPDX-License-Identifier: Apache-2.0 */
/* Whole jobs with --upload: what workers save is copied while they run and when they have ended. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define SH "OMP_NUM_THREADS=1", "--no-python", "--upload-after", "50ms"

static char dir[64], option[200];

/* An empty folder with w, which is followed, and copies in c. $DIR names it. */
static void begin(void)
{
    tmp_make(dir);
    setenv("DIR", dir, 1);
    snprintf(option, sizeof option, "--upload=%s/w=file://%s/c", dir, dir);
}

static const char *text_of(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return read_text(path);
}

TEST(what_is_complete_is_copied_while_the_job_runs)
{
    struct job j;
    begin();
    /* The worker goes on when the copy of what is complete is there; by then nothing else is. */
    CHECK_EQ(
        JOB(&j, SH, option, "sh", "-c",
            "mkdir \"$DIR/w\"; exec 3>\"$DIR/w/open.pt\"; echo half >&3; touch \"$DIR/w/x.tmp\";"
            "mkdir \"$DIR/w/tmp-step-1\"; echo m >\"$DIR/w/tmp-step-1/model\";"
            "echo all >\"$DIR/w/done.pt\"; until [ -f \"$DIR/c/done.pt\" ]; do sleep 0.05; done;"
            "find \"$DIR/c\" -type f; mv \"$DIR/w/tmp-step-1\" \"$DIR/w/step-1\";"
            "until [ -f \"$DIR/c/step-1/model\" ]; do sleep 0.05; done; echo rest >&3"),
        0);
    char only[100];
    snprintf(only, sizeof only, "%s/c/done.pt\n", dir);
    CHECK_STR(job_out(&j), only);
    CHECK_STR(job_err(&j), "");
    CHECK_STR(text_of("c/done.pt"), "all\n");
    CHECK_STR(text_of("c/step-1/model"), "m\n");
    CHECK_STR(text_of("c/open.pt"), "half\nrest\n"); /* at the end, as the worker had closed it */
    CHECK_STR(text_of("c/x.tmp"), NULL);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(a_job_that_fails_has_its_last_files_copied_too)
{
    struct job j;
    begin();
    CHECK_EQ(
        JOB(&j, SH, option, "sh", "-c", "mkdir \"$DIR/w\"; echo 1 >\"$DIR/w/last.pt\"; exit 3"), 1);
    CHECK_STR(text_of("c/last.pt"), "1\n");
    job_finish(&j);
    tmp_remove(dir);
}

/* The copy is of the same size, and of a later date than the file. */
TEST(a_small_file_that_another_job_has_changed_is_copied_whatever_its_date)
{
    struct job j;
    begin();
    for (int i = 1; i <= 2; i++) {
        char script[200], want[8];
        snprintf(script, sizeof script,
                 "mkdir -p \"$DIR/w\"; echo %d >\"$DIR/w/latest\"; touch -d '1 hour ago' "
                 "\"$DIR/w/latest\"",
                 i);
        snprintf(want, sizeof want, "%d\n", i);
        CHECK_EQ(JOB(&j, SH, option, "sh", "-c", script), 0);
        CHECK_STR(text_of("c/latest"), want);
        job_finish(&j);
    }
    tmp_remove(dir);
}

TEST(a_command_gets_each_file_and_one_that_fails_costs_a_warning)
{
    struct job j;
    char folder[100], words[200];
    begin();
    snprintf(folder, sizeof folder, "--upload=%s/w", dir);
    CHECK_EQ(JOB(&j, SH, folder, "--upload-cmd",
                 "case $DTRUN_UPLOAD_KEY in bad*) echo no such bucket >&2; exit 1;; esac;"
                 "mkdir -p \"$DIR/c\"; cp \"$DTRUN_UPLOAD_FILE\" \"$DIR/c/$DTRUN_UPLOAD_KEY\"",
                 "sh", "-c", "mkdir \"$DIR/w\"; echo 1 >\"$DIR/w/a b\"; echo 2 >\"$DIR/w/bad\""),
             0);
    CHECK_STR(text_of("c/a b"), "1\n");
    snprintf(words, sizeof words,
             "%s/w/bad is not uploaded: bad: the upload command ended with exit status 1: no such "
             "bucket; it is safe where it is",
             dir);
    CHECK_EQ(count_words(job_err(&j), words), 1);
    job_finish(&j);
    tmp_remove(dir);
}

/* A command that does not end, once it has begun. */
#define NEVER "echo $$ >\"$DIR/pid.new\"; mv \"$DIR/pid.new\" \"$DIR/pid\"; exec sleep 1000"

static void start_never(struct job *j, const char *timeout)
{
    begin();
    JOB_START(
        j, SH, option, "--upload-cmd", NEVER, "--upload-timeout", timeout, "sh", "-c",
        "mkdir \"$DIR/w\"; echo 1 >\"$DIR/w/a\"; until [ -f \"$DIR/pid\" ]; do sleep 0.05; done;"
        "echo begun");
}

/* The command is gone, or will be at once. */
static void check_gone(void)
{
    const char *text = text_of("pid");
    CHECK(text != NULL);
    int pid = atoi(text);
    CHECK(pid > 1);
    while (kill(pid, 0) == 0)
        usleep(10000);
    CHECK_EQ(errno, ESRCH);
}

TEST(an_upload_that_does_not_end_is_given_up_in_time)
{
    struct job j;
    start_never(&j, "100ms");
    CHECK_EQ(job_wait(&j), 0);
    CHECK(strstr(job_err(&j), "/w/a is not uploaded; what is there is safe") != NULL);
    check_gone();
    job_finish(&j);
    tmp_remove(dir);
}

TEST(control_c_ends_the_wait_for_uploads)
{
    struct job j;
    start_never(&j, "1h");
    CHECK(job_says(&j, JOB_ERR, "waiting up to 1 h for uploads to end; Ctrl-C ends the wait"));
    CHECK_EQ(job_stop(&j, SIGINT), 0); /* the workers had ended well */
    check_gone();
    job_finish(&j);
    tmp_remove(dir);
}

TEST(nothing_is_left_of_a_dtrun_that_is_killed)
{
    struct job j;
    start_never(&j, "1h");
    CHECK(job_says(&j, JOB_OUT, "begun"));
    CHECK_EQ(job_stop(&j, SIGKILL), 128 + SIGKILL);
    check_gone();
    job_finish(&j);
    tmp_remove(dir);
}

TEST(one_of_several_nodes_warns_that_names_of_copies_may_meet)
{
    struct job nodes[2];
    char port[8], endpoint[32];
    begin();
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", free_port(port));
    for (int i = 0; i < 2; i++)
        JOB_START(&nodes[i], SH, option, "--nnodes", "2", "--rdzv-backend", "c10d",
                  "--rdzv-endpoint", endpoint, "true");
    CHECK_EQ(job_wait(&nodes[0]), 0);
    CHECK_EQ(job_wait(&nodes[1]), 0);
    CHECK_EQ(count_words(job_err(&nodes[0]), "files of the same name replace each other") +
                 count_words(job_err(&nodes[1]), "files of the same name replace each other"),
             1);
    job_finish(&nodes[0]);
    job_finish(&nodes[1]);
    tmp_remove(dir);
}
