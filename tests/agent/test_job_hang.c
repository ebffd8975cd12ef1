/* SPDX-License-Identifier: Apache-2.0 */
/* Whole jobs whose workers stand still, and what a person sees and may ask for. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <signal.h>

#define WORKER getenv("DT_MISBEHAVE")
#define OMP "OMP_NUM_THREADS=1"
#define NO_PYTHON "--nproc-per-node", "2", "--no-python", WORKER
#define HANG "--hang-after", "1"
#define STOOD "the job has stood still for "
#define EVIDENCE "what each worker does is in "

/* The pid behind WORDS in what the workers printed. */
static pid_t pid_of(struct job *j, const char *words)
{
    const char *at = strstr(job_out(j), words);
    CHECK(at != NULL);
    return atoi(at + strlen(words));
}

TEST(a_hang_is_told_once_and_so_is_its_end)
{
    struct job j;
    char dir[64];
    JOB_START(&j, OMP, HANG, "--log-dir", tmp_make(dir), NO_PYTHON, "rank:1:out:pid ", "rank:1:pid",
              "rank:1:stop", "hang");
    CHECK(job_says(&j, JOB_ERR, EVIDENCE));
    CHECK(strstr(job_err(&j), "rank 1 is stopped") != NULL);
    CHECK_EQ(kill(pid_of(&j, "pid "), SIGCONT), 0);
    CHECK(job_says(&j, JOB_ERR, "the job moves again after "));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_EQ(count_words(job_err(&j), "the job moves again after "), 1);
    job_finish(&j);
    tmp_remove(dir);
}

TEST(a_flight_recorder_tells_which_collective_the_others_wait_in)
{
    /* The thread plays that of PyTorch, which needs a GPU. */
    static const char script[] =
        "import os, runpy, threading, time\n"
        "rank, prefix = os.environ['RANK'], os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']\n"
        "dump = runpy.run_path('" DT_TEST_FLIGHT_DUMP "')\n"
        "story = 'over' if rank == '1' else 'waits'\n"
        "threading.Thread(target=dump['serve'], args=(prefix, rank, story), daemon=True).start()\n"
        "threading.Event().wait() if rank == '0' else time.sleep(1000)\n";
    struct job j;
    char dir[64], file[80];
    snprintf(file, sizeof file, "%s/train.py", tmp_make(dir));
    FILE *f = fopen(file, "w");
    CHECK(f && fputs(script, f) >= 0 && fclose(f) == 0);
    JOB_START(&j, OMP, HANG, "--log-dir", dir, "--nproc-per-node", "2", file);
    CHECK(job_says(&j, JOB_ERR, EVIDENCE));
    CHECK(strstr(job_err(&j), "rank 1 sleeps at ") != NULL);
    CHECK(strstr(job_err(&j), "/train.py:6") != NULL);
    CHECK(strstr(job_err(&j), "its last collective was all_reduce number 147 of group 0") != NULL);
    CHECK(strstr(job_err(&j), "rank 0 waits in all_reduce at /home/me/train.py:42") != NULL);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
    tmp_remove(dir);
}

/* Outside each of them sleeps: only NCCL knows who waits for whom. */
TEST(nccl_tells_which_rank_has_not_entered_a_collective)
{
    if (sizeof(void *) < 8)
        SKIP("there is no NCCL for 32 bits");
    static const char *const tells[] = {"kernels", "calls"};
    for (size_t i = 0; i < sizeof tells / sizeof *tells; i++) {
        struct job j;
        CHECK_ROW("%s", tells[i]);
        JOB_START(&j, OMP, HANG, "--nccl-profiler", tells[i], "--nproc-per-node", "3",
                  "--no-python", getenv("DT_USES_NCCL"), "812", "811", "812");
        CHECK(job_says(&j, JOB_ERR, EVIDENCE));
        const char *err = job_err(&j);
        CHECK(strstr(err, STOOD) != NULL);
        CHECK(strstr(err, ": rank 1 waits in the kernel") != NULL);
        CHECK(strstr(err, "(its last call of NCCL was AllReduce 811 of default_pg, ") != NULL);
        CHECK(strstr(err, "; ranks 0 and 2 wait in all_reduce") != NULL);
        CHECK_EQ(job_stop(&j, SIGTERM), 1);
        job_finish(&j);
    }
}

TEST(a_hang_that_restarts_costs_a_restart_and_is_the_reason)
{
    struct job j;
    JOB_START(&j, OMP, HANG, "--on-hang", "restart", "--max-restarts", "1", NO_PYTHON, "line:up",
              "rank:1:stop", "hang");
    CHECK_EQ(job_wait(&j), 1);
    CHECK_EQ(count_words(job_out(&j), "up\n"), 4);
    CHECK_EQ(count_words(job_err(&j), "worker 1 (rank 1) is ended, as --on-hang says"), 2);
    CHECK_EQ(count_words(job_err(&j), "; restart 1 of 1"), 1);
    const char *report = strstr(job_err(&j), "ChildFailedError");
    CHECK(report != NULL && strstr(report, "rank      : 1 (local_rank: 1)") != NULL);
    CHECK(strstr(report, STOOD) != NULL);
    CHECK(strstr(report, "<NO_OTHER_FAILURES>") != NULL);
    job_finish(&j);
}

TEST(a_hang_that_stops_the_job_leaves_restarts)
{
    struct job j;
    JOB_START(&j, OMP, HANG, "--on-hang", "stop", "--max-restarts", "3", NO_PYTHON, "line:up",
              "rank:1:stop", "hang");
    CHECK_EQ(job_wait(&j), 1);
    CHECK_EQ(count_words(job_out(&j), "up\n"), 2);
    CHECK(strstr(job_err(&j), "; restart ") == NULL);
    CHECK(strstr(job_err(&j), "ChildFailedError") != NULL);
    job_finish(&j);
}

TEST(a_signal_shows_what_all_workers_do_and_the_job_goes_on)
{
    struct job j;
    JOB_START(&j, OMP, "--look-on-signal", "USR1", NO_PYTHON, "rank:1:stop", "line:up", "hang");
    CHECK(job_says(&j, JOB_OUT, "up\n"));
    /* The first look may come before rank 1 has stopped itself. */
    for (int i = 1; count_words(job_err(&j), "rank 1: (is stopped") < 3; i++) {
        kill(j.pid, SIGUSR1);
        CHECK(job_says_times(&j, JOB_ERR, "1: (", i)); /* or "ranks 0 and 1: (" */
    }
    CHECK(strstr(job_err(&j), "this node is running\n") != NULL);
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    job_finish(&j);
}

TEST(sigquit_shows_a_look_and_ends_the_job_when_it_comes_again)
{
    struct job j;
    JOB_START(&j, OMP, NO_PYTHON, "line:up", "hang");
    CHECK(job_says_lines(&j, 2));
    kill(j.pid, SIGQUIT);
    CHECK(job_says(&j, JOB_ERR, "this node is running; SIGQUIT again within 2 s ends the job\n"));
    /* A machine on which that took two seconds shows another look. */
    while (!strstr(job_err(&j), "Received 3 death signal")) {
        int lines = count_words(job_err(&j), "\n");
        kill(j.pid, SIGQUIT);
        CHECK(job_says_times(&j, JOB_ERR, "\n", lines + 1));
    }
    CHECK_EQ(job_wait(&j), 1);
    job_finish(&j);
}

TEST(nobody_looks_who_was_told_not_to)
{
    struct job j;
    JOB_START(&j, OMP, "--no-look", NO_PYTHON, "line:up", "hang");
    CHECK(job_says_lines(&j, 2));
    CHECK_EQ(job_stop(&j, SIGQUIT), 1);
    CHECK(strstr(job_err(&j), "this node is running") == NULL);
    job_finish(&j);
}
