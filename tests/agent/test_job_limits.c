/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs on hosts where something runs out or is closed: open files, processes, disks, consoles. What
 * can go on does, and what cannot is told in one sentence. */
#include "tests/lib/cgroup.h"
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER

/* One sentence with all of WORDS, which are apart by '|'; none where there are none. */
static void check_words(const char *text, const char *words)
{
    CHECK_EQ(count_words(text, "\n"), *words != '\0');
    char *copy = strdup(words);
    for (char *at = copy, *word; (word = strsep(&at, "|"));) {
        CHECK_ROW("%s in %.150s", word, text);
        CHECK(strstr(text, word) != NULL);
    }
    free(copy);
}

static void low_on_processes(const char *dir)
{
    struct job j;
    struct rlimit few = {6, 6};
    (void)dir;
    setrlimit(RLIMIT_NPROC, &few);
    CHECK_EQ(JOB(&j, "OMP_NUM_THREADS=1", "--log-dir", "/dev/null", "--nproc-per-node", "8",
                 NO_PYTHON, "hang"),
             1);
    CHECK_EQ(count_words(job_err(&j), "could not be started"), 1);
    CHECK(strstr(job_err(&j), "cannot fork it: Resource temporarily unavailable; ulimit -u, ") &&
          strstr(job_err(&j), "of this user, is 6"));
    CHECK(strstr(job_err(&j), "closing signal SIGTERM") != NULL);
    CHECK(strstr(job_err(&j), "ChildFailedError") == NULL);
    job_finish(&j);
}

/* It is a user that has no other process, as that is what the limit counts. */
TEST(one_worker_that_cannot_start_ends_those_that_did_and_there_is_no_report)
{
    unsigned uid = 3000000000u + (unsigned)getpid();
    if (geteuid() != 0 || !job_user_can_run(uid))
        SKIP("needs root, to become a user without processes");
    job_as_user(uid, low_on_processes, NULL);
}

TEST(a_full_control_group_is_named_with_its_numbers)
{
    struct job j;
    struct test_cgroup group;
    char words[DT_CGROUP_PATH + 128];
    cgroup_make(&group, "pids", "pids.max", "pids.max", "6");
    JOB_START_AS(&j, cgroup_enter, &group, "OMP_NUM_THREADS=1", "--log-dir", "/dev/null",
                 "--nproc-per-node", "8", NO_PYTHON, "hang");
    CHECK_EQ(job_wait(&j), 1);
    snprintf(words, sizeof words, ", pids.max of %s is 6 of which ", group.folder);
    /* A worker, or the guard already where the C library or a sanitizer has threads of its own. */
    CHECK(strstr(job_err(&j), "cannot fork ") != NULL);
    CHECK(strstr(job_err(&j), ": Resource temporarily unavailable; ulimit -u, ") != NULL);
    CHECK(strstr(job_err(&j), words) != NULL);
    job_finish(&j);
    cgroup_remove(&group);
}

/* Runs LINE by sh, where $DIR is the folder; its exit status. */
static int shell(const char *line, const char *dir)
{
    setenv("DIR", dir, 1);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(a_low_limit_of_open_files_is_told_and_a_low_soft_limit_is_no_matter)
{
    static const struct {
        const char *limit;
        int status;
        const char *words;
    } rows[] = {
        {"ulimit -n 20", 1, "may have only 20 files open|ulimit -n|raise it to 64"},
        {"ulimit -n 63", 1, "may have only 63 files open"},
        {"ulimit -n 80", 1, "worker |: cannot |has all 80 files open that it may|ulimit -n"},
        {"ulimit -S -n 20", 0, ""},
    };
    char dir[64], file[96], line[256];
    snprintf(file, sizeof file, "%s/stderr", tmp_make(dir));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_ROW("%s", rows[i].limit);
        snprintf(line, sizeof line,
                 "%s; OMP_NUM_THREADS=1 exec \"$DT_RUN\" --nproc-per-node 60 -t 3 --no-python "
                 "\"$DT_MISBEHAVE\" 2>$DIR/stderr",
                 rows[i].limit);
        CHECK_EQ(shell(line, dir), rows[i].status);
        check_words(read_text(file), rows[i].words);
    }
    tmp_remove(dir);
}

static void enter(void *folder)
{
    if (chdir(folder) < 0)
        _exit(126);
}

TEST(a_core_dump_is_told_with_its_place)
{
    struct job j;
    struct rlimit most;
    char dir[64], words[128];
    bool plain = strcmp(read_text("/proc/sys/kernel/core_pattern"), "core\n") == 0;
    if (getrlimit(RLIMIT_CORE, &most) < 0 || most.rlim_max == 0)
        SKIP("the hard limit of ulimit -c is 0");
    tmp_make(dir);
    /* A shell, for sanitizers take core dumps from what they are built into. */
    JOB_START_AS(&j, enter, dir, "--no-python", "sh", "-c",
                 "ulimit -S -c $(ulimit -H -c); kill -SEGV $$$$");
    CHECK_EQ(job_wait(&j), 1);
    snprintf(words, sizeof words, "dumped core: %s/core", dir);
    /* Where a program gets core dumps it may take none. */
    CHECK(strstr(job_err(&j), words) != NULL || !plain);
    CHECK(strstr(job_err(&j), "Signal 11 (SIGSEGV) received by PID ") != NULL);
    job_finish(&j);
    CHECK_EQ(JOB(&j, NO_PYTHON, "kill:9"), 1);
    CHECK(strstr(job_err(&j), "dumped core") == NULL);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(three_hundred_workers_with_a_file_and_a_prefix_each)
{
    struct job j;
    CHECK_EQ(
        JOB(&j, "OMP_NUM_THREADS=1", "--nproc-per-node", "300", "-t", "3", NO_PYTHON, "line:here"),
        0);
    CHECK_EQ(count_words(job_out(&j), "]:here\n"), 300);
    CHECK(strstr(job_out(&j), "[default299]:here\n") != NULL);
    job_finish(&j);
}

TEST(closed_standard_streams_stay_closed_and_disturb_nobody)
{
    char dir[64], file[96];
    snprintf(file, sizeof file, "%s/done", tmp_make(dir));
    static const char *const rows[] = {
        ("\"$DT_RUN\" --log-dir /dev/null --no-python \"$DT_MISBEHAVE\" fds line:x touch:$DIR/done "
         "<&- >&- "
         "2>&-"),
        "\"$DT_RUN\" --no-python \"$DT_MISBEHAVE\" line:x touch:$DIR/done <&-",
        "\"$DT_RUN\" -t 3 --no-python \"$DT_MISBEHAVE\" line:x touch:$DIR/done >&-",
        "\"$DT_RUN\" -t 3 --no-python \"$DT_MISBEHAVE\" line:x err:y touch:$DIR/done 2>&-",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[1024];
        CHECK_ROW("%s", rows[i]);
        unlink(file);
        snprintf(line, sizeof line, "(%s) >/dev/null", rows[i]);
        CHECK_EQ(shell(line, dir), 0);
        CHECK(access(file, F_OK) == 0);
    }
    tmp_remove(dir);
}

/* As with torchrun: who would have had the pipe itself gets SIGPIPE and fails, who has a file does
 * not notice; where dtrun can still be heard it says so, once. */
TEST(a_reader_that_leaves_ends_workers_without_a_file_and_no_others)
{
    static const struct {
        const char *options, *actions;
        bool to_both; /* stderr is the same pipe */
        const char *status;
        const char *report; /* in stderr; NULL: there is none */
    } rows[] = {
        {"", "flood:2000000 hang", false, "1\n", "exitcode  : -13 "},
        {"", "flood:2000000 hang", true, "1\n", NULL},
        {"-t 3", "flood:20000", false, "0\n", NULL},
        {"-t 3", "flood:20000", true, "0\n", NULL},
        {"-t 3 --exit-code root-cause", "flood:20000 exit:7", false, "7\n", "exitcode  : 7 "},
    };
    char dir[64], file[96], err[96], line[1024];
    snprintf(file, sizeof file, "%s/status", tmp_make(dir));
    snprintf(err, sizeof err, "%s/stderr", dir);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CHECK_ROW("%s %s %s", rows[i].options, rows[i].actions, rows[i].to_both ? "2>&1" : "");
        snprintf(line, sizeof line,
                 "(\"$DT_RUN\" %s --no-python \"$DT_MISBEHAVE\" %s %s; echo $? >$DIR/status) "
                 "2>$DIR/stderr | head -1 >/dev/null",
                 rows[i].options, rows[i].actions, rows[i].to_both ? "2>&1" : "");
        CHECK_EQ(shell(line, dir), 0);
        CHECK_STR(read_text(file), rows[i].status);
        CHECK_EQ(count_words(read_text(err), "the reader of standard output has gone"),
                 !rows[i].to_both);
        CHECK(!rows[i].report || strstr(read_text(err), rows[i].report));
    }
    tmp_remove(dir);
}

TEST(a_full_disk_costs_the_file_and_not_the_job)
{
    char dir[64], words[160];
    struct job j;
    tmp_make(dir);
    if (mount("none", dir, "tmpfs", 0, "size=64k") < 0) {
        int why = errno;
        tmp_remove(dir);
        SKIP("no small file system can be mounted: %s", strerror(why));
    }
    /* Teed: dtrun writes, and the console has it all. */
    int teed = JOB(&j, "--log-dir", dir, "-t", "1", NO_PYTHON, "flood:20000", "line:last");
    int lines = count_words(job_out(&j), "\n");
    bool told = strstr(job_err(&j), "stdout.log: no space left on device") != NULL;
    job_finish(&j);
    /* Redirected: the worker itself writes, and fails as it likes; the report comes, and why. */
    int filed = JOB(&j, "--log-dir", dir, "-r", "3", NO_PYTHON, "flood:20000");
    bool reported = strstr(job_err(&j), "exitcode  : 99 ") != NULL;
    snprintf(words, sizeof words, "traceback : its output could not be written: %s is full\n", dir);
    bool why = strstr(job_err(&j), words) != NULL;
    job_finish(&j);
    /* A worker that fails with room left is told nothing of disks. */
    JOB(&j, "-r", "3", NO_PYTHON, "exit:1");
    bool silent = strstr(job_err(&j), "is full") == NULL;
    job_finish(&j);
    umount2(dir, MNT_DETACH);
    tmp_remove(dir);
    CHECK_EQ(teed, 0);
    CHECK_EQ(lines, 20001);
    CHECK(told);
    CHECK_EQ(filed, 1);
    CHECK(reported && why && silent);
}
