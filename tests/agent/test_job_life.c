/* SPDX-License-Identifier: Apache-2.0 */
/* Whole jobs: how they end, how they start again, and what is said of it. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER

static int count_entries(const char *dir)
{
    int n = 0;
    DIR *d = opendir(dir);
    CHECK(d != NULL);
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(a_job_that_does_nothing_succeeds_and_says_nothing)
{
    struct job j;
    CHECK_EQ(JOB(&j, "--nproc-per-node", "1", NO_PYTHON), 0);
    CHECK_STR(job_out(&j), "");
    CHECK_STR(job_err(&j), "");
    job_finish(&j);
}

TEST(workers_that_leave_early_with_0_leave_the_others_alone)
{
    struct job j;
    char dir[64], file[96], await[128], touch[128];
    snprintf(file, sizeof file, "%s/file", tmp_make(dir));
    snprintf(await, sizeof await, "rank:0:await:%s", file);
    snprintf(touch, sizeof touch, "rank:1:touch:%s", file);
    CHECK_EQ(JOB(&j, "OMP_NUM_THREADS=1", "--nproc-per-node", "3", NO_PYTHON, touch, await,
                 "rank:0:line:the last one"),
             0);
    CHECK_STR(job_out(&j), "the last one\n");
    job_finish(&j);
    tmp_remove(dir);
}

TEST(the_exit_status_is_1_whatever_a_worker_says_unless_asked_for)
{
    static const struct {
        const char *action;
        int root_cause;
    } rows[] = {{"exit:7", 7}, {"exit:1", 1}, {"kill:9", 137}, {"kill:15", 143}, {"exit:255", 255}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct job j;
        CHECK_ROW("%s", rows[i].action);
        CHECK_EQ(JOB(&j, NO_PYTHON, rows[i].action), 1);
        job_finish(&j);
        CHECK_EQ(JOB(&j, "--exit-code", "root-cause", NO_PYTHON, rows[i].action),
                 rows[i].root_cause);
        job_finish(&j);
    }
}

TEST(the_report_names_the_worker_and_the_lines_that_scripts_look_for)
{
    struct job j;
    CHECK_EQ(
        JOB(&j, "OMP_NUM_THREADS=1", "--nproc-per-node", "3", NO_PYTHON, "rank:1:exit:7", "hang"),
        1);
    const char *err = job_err(&j);
    CHECK(strstr(err, "failed (exitcode: 7) local_rank: 1 (pid: ") != NULL);
    CHECK(strstr(err, "closing signal SIGTERM") != NULL);
    CHECK(strstr(err, "\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
                      "====") != NULL);
    CHECK(strstr(err, "misbehave FAILED\n") != NULL);
    CHECK(strstr(err, "\nFailures:\n  <NO_OTHER_FAILURES>\n") != NULL);
    CHECK(strstr(err, "\nRoot Cause (first observed failure):\n[0]:\n  time      : ") != NULL);
    CHECK(strstr(err, "\n  rank      : 1 (local_rank: 1)\n  exitcode  : 7 (pid: ") != NULL);
    CHECK(strstr(err, "\n  error_file: <N/A>\n") != NULL);
    CHECK(strstr(err, "Traceback (most recent call last)") == NULL);
    job_finish(&j);
}

TEST(the_report_shows_what_the_error_file_says)
{
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON,
                 "error:{\"message\": {\"message\": \"ValueError: boom\", \"extraInfo\": "
                 "{\"py_callstack\": \"Traceback: over there\", \"timestamp\": \"1795252175\"}}}",
                 "exit:1"),
             1);
    CHECK(strstr(job_err(&j), "traceback : Traceback: over there") != NULL);
    CHECK(strstr(job_err(&j), "/attempt_0/0/error.json\n") != NULL);
    job_finish(&j);
}

TEST(without_an_error_file_the_report_shows_the_last_words)
{
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON, "err:all was well\\nuntil the disk melted\\n", "exit:1"), 1);
    const char *report = strstr(job_err(&j), "Root Cause");
    CHECK(report != NULL);
    CHECK(strstr(report, "until the disk melted") != NULL);
    CHECK(strstr(report, "To enable traceback see") == NULL);
    job_finish(&j);
    CHECK_EQ(JOB(&j, NO_PYTHON, "exit:1"), 1);
    CHECK(strstr(job_err(&j), "To enable traceback see") != NULL);
    job_finish(&j);
}

TEST(the_parents_error_file_gets_the_root_cause_with_its_code)
{
    struct job j;
    char dir[64], file[96], setting[160];
    snprintf(file, sizeof file, "%s/parent.json", tmp_make(dir));
    snprintf(setting, sizeof setting, "TORCHELASTIC_ERROR_FILE=%s", file);
    CHECK_EQ(
        JOB(&j, setting, NO_PYTHON,
            "error:{\"message\": {\"message\": \"boom\", \"extraInfo\": {\"timestamp\": \"1\"}}}",
            "exit:9"),
        1);
    const char *text = read_text(file);
    CHECK(text != NULL);
    CHECK(strstr(text, "\"errorCode\"") != NULL);
    CHECK(strstr(text, "boom") != NULL);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(a_job_is_restarted_until_it_succeeds_and_keeps_a_folder_for_each_attempt)
{
    struct job j;
    char dir[64], run[128], path[192];
    CHECK_EQ(JOB(&j, "--max-restarts", "3", "--log-dir", tmp_make(dir), "--redirects", "1",
                 NO_PYTHON, "env", "fail-below:2"),
             0);
    only_entry(dir, run, sizeof run);
    CHECK_EQ(count_entries(run), 4); /* and the one of rounds */
    for (int attempt = 0; attempt < 3; attempt++) {
        char count[64];
        CHECK_ROW("attempt %d", attempt);
        snprintf(path, sizeof path, "%s/attempt_%d/0/stdout.log", run, attempt);
        snprintf(count, sizeof count, "TORCHELASTIC_RESTART_COUNT=%d\n", attempt);
        CHECK(read_text(path) != NULL);
        CHECK(strstr(read_text(path), count) != NULL);
        CHECK(strstr(read_text(path), "TORCHELASTIC_MAX_RESTARTS=3\n") != NULL);
    }
    snprintf(path, sizeof path, "%s/rounds", run);
    CHECK_EQ(count_entries(path), 3);
    snprintf(path, sizeof path, "%s/rounds/2.json", run);
    CHECK(strstr(read_text(path), "\"cause\": null") != NULL);
    CHECK(strstr(read_text(path), "\"decided\": \"the job succeeded\"") != NULL);
    CHECK(strstr(read_text(path), "\"ended\": \"2") != NULL);
    snprintf(path, sizeof path, "%s/rounds/1.json", run);
    CHECK(read_text(path) != NULL);
    CHECK(strstr(read_text(path), "\"decided\": \"restart 2 of 3\"") != NULL);
    CHECK(strstr(job_err(&j), "restart 2 of 3") != NULL);
    CHECK(strstr(job_err(&j), "ChildFailedError") == NULL);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(restarts_run_out)
{
    struct job j;
    CHECK_EQ(JOB(&j, "--max-restarts", "2", NO_PYTHON, "line:once more", "exit:5"), 1);
    CHECK_EQ(count_words(job_out(&j), "once more"), 3);
    CHECK_EQ(count_words(job_err(&j), "ChildFailedError"), 1);
    job_finish(&j);
}

TEST(a_program_that_cannot_run_is_one_sentence_and_no_report)
{
    struct job j;
    char dir[64], file[96];
    CHECK_EQ(JOB(&j, "--no-python", "/nonexistent/program"), 1);
    CHECK_EQ(count_words(job_err(&j), "\n"), 1);
    CHECK(strstr(job_err(&j), "/nonexistent/program") != NULL);
    job_finish(&j);
    snprintf(file, sizeof file, "%s/not-a-program", tmp_make(dir));
    FILE *f = fopen(file, "w");
    fputs("this is no program\n", f);
    fclose(f);
    chmod(file, 0755);
    CHECK_EQ(JOB(&j, "--max-restarts", "3", "--no-python", file), 1);
    CHECK(strstr(job_err(&j), "ChildFailedError") == NULL);
    CHECK(strstr(job_err(&j), file) != NULL);
    job_finish(&j);
    tmp_remove(dir);
}

static int count_open(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    return count_entries(path);
}

TEST(a_thousand_attempts_leak_no_descriptor_and_no_process)
{
    struct job j;
    char children[512] = "", path[96];
    JOB_START(&j, "LOGLEVEL=ERROR", "--log-dir", "/dev/null", "--max-restarts", "1000", NO_PYTHON,
              "out:x", "fail-below:1000", "line:last", "hang");
    CHECK(job_says(&j, JOB_OUT, "last"));
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", j.pid, j.pid);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL && fgets(children, sizeof children, f) != NULL);
    fclose(f);
    CHECK_EQ(count_words(children, " "), 1); /* the guard alone */
    int open_late = count_open(j.pid);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_EQ(count_words(job_out(&j), "x"), 1001);
    job_finish(&j);
    JOB_START(&j, "--log-dir", "/dev/null", "--max-restarts", "1000", NO_PYTHON, "line:first",
              "hang");
    CHECK(job_says(&j, JOB_OUT, "first"));
    CHECK_EQ(open_late, count_open(j.pid));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
}

TEST(two_hundred_and_fifty_six_workers)
{
    struct job j;
    CHECK_EQ(JOB(&j, "OMP_NUM_THREADS=1", "--nproc-per-node", "256", NO_PYTHON, "line:here"), 0);
    CHECK_EQ(count_words(job_out(&j), "here\n"), 256);
    job_finish(&j);
}

TEST(logs_of_a_job_that_went_well_can_go)
{
    struct job j;
    char dir[64];
    tmp_make(dir);
    CHECK_EQ(JOB(&j, "--keep-logs", "failed", "--log-dir", dir, "-r", "3", NO_PYTHON, "line:x"), 0);
    CHECK_EQ(count_entries(dir), 0);
    job_finish(&j);
    CHECK_EQ(JOB(&j, "--keep-logs", "failed", "--log-dir", dir, "-r", "3", NO_PYTHON, "exit:1"), 1);
    CHECK_EQ(count_entries(dir), 1);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(earlier_runs_go_when_a_job_is_to_keep_the_last_ones)
{
    struct job j;
    char dir[64], first[PATH_MAX], wait[PATH_MAX + 64], latest[96];
    tmp_make(dir);
    CHECK_EQ(JOB(&j, "--keep-log-runs", "1", "--log-dir", dir, "-r", "3", NO_PYTHON, "line:x"), 0);
    job_finish(&j);
    snprintf(latest, sizeof latest, "%s/latest", dir);
    CHECK(realpath(latest, first) != NULL);
    /* The second one runs until the first has gone. */
    snprintf(wait, sizeof wait, "while [ -e %s ]; do sleep 0.02; done", first);
    CHECK_EQ(JOB(&j, "--keep-log-runs", "1", "--log-dir", dir, "-r", "3", "--no-python", "sh", "-c",
                 wait),
             0);
    job_finish(&j);
    CHECK_EQ(access(latest, F_OK), 0);
    CHECK_EQ(count_entries(dir), 2); /* a run, and the link to it */
    tmp_remove(dir);
}

TEST(a_job_without_files_leaves_no_folder)
{
    struct job j;
    char dir[64], tmp[80];
    snprintf(tmp, sizeof tmp, "TMPDIR=%s", tmp_make(dir));
    CHECK_EQ(JOB(&j, tmp, "--max-restarts", "1", NO_PYTHON, "exit:1"), 1);
    CHECK_EQ(count_entries(dir), 0);
    job_finish(&j);
    CHECK_EQ(JOB(&j, tmp, "-r", "1", NO_PYTHON, "line:x"), 0);
    CHECK_EQ(count_entries(dir), 1);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(an_event_of_a_worker_that_failed_tells_why)
{
    struct job j;
    char dir[64], handler[128];
    snprintf(handler, sizeof handler, "file:%s/events", tmp_make(dir));
    CHECK_EQ(
        JOB(&j, "--event-log-handler", handler, NO_PYTHON,
            "error:{\"message\": {\"message\": \"boom\", \"extraInfo\": {\"timestamp\": \"1\"}}}",
            "exit:1"),
        1);
    const char *text = read_text(handler + strlen("file:"));
    CHECK(text != NULL);
    const char *worker = strstr(text, "worker.status.FAILED\", \"source\": \"WORKER\"");
    CHECK(worker != NULL);
    CHECK(strstr(worker, "\"raw_error\": \"{\\\"message\\\":{\\\"message\\\":\\\"boom\\\"") !=
          NULL);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(an_attempt_that_could_not_begin_has_no_ranks_in_the_events)
{
    struct job j;
    char dir[64], handler[128], fifo[128];
    snprintf(handler, sizeof handler, "file:%s/events", tmp_make(dir));
    snprintf(fifo, sizeof fifo, "TORCHELASTIC_TIMER_FILE=%s/no/folder", dir);
    CHECK_EQ(JOB(&j, "TORCHELASTIC_ENABLE_FILE_TIMER=1", fifo, "--event-log-handler", handler,
                 NO_PYTHON, "exit:0"),
             1);
    const char *text = read_text(handler + strlen("file:"));
    CHECK(text && strstr(text, "status.FAILED") != NULL);
    CHECK(text && strstr(text, "ASSIGN_WORKER_RANKS") == NULL);
    job_finish(&j);
    tmp_remove(dir);
}
