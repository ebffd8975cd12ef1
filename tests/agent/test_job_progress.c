/* SPDX-License-Identifier: Apache-2.0 */
/* Whole jobs whose workers tell how far they are on their progress pages. */
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <signal.h>

#define NO_PYTHON "OMP_NUM_THREADS=1", "--no-python"
#define WORKER getenv("DT_MISBEHAVE")

TEST(it_is_said_how_far_a_worker_was_that_was_killed)
{
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON, "--nproc-per-node", "2", "--max-restarts", "1", WORKER,
                 "progress:418,406,backward", "rank:1:kill:9", "hang"),
             1);
    const char *err = job_err(&j);
#define WHERE                                                                                      \
    "warn: worker 1 (rank 1): last step 418, 12 steps after the last checkpoint, in section "      \
    "backward\n"
    CHECK_EQ(count_words(err, WHERE), 2); /* of each attempt */
    CHECK_EQ(count_words(err, "worker 0 (rank 0): last step"), 0);
    const char *said = strstr(err, WHERE), *report = strstr(err, "ChildFailedError");
    CHECK(said != NULL && report != NULL && said < report);
    CHECK(strstr(report, "last step") == NULL);
    CHECK(strstr(report, "traceback : Signal 9 (SIGKILL) received by PID") != NULL);
    job_finish(&j);
}

/* A program that knows nothing of dtrun, but has a NCCL that loads what it is told to. */
TEST(it_is_said_which_call_of_nccl_was_the_last_of_a_worker_that_was_killed)
{
    if (sizeof(void *) < 8)
        SKIP("there is no NCCL for 32 bits");
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON, "--nproc-per-node", "2", getenv("DT_USES_NCCL"), "812", "811!"), 1);
    CHECK(strstr(job_err(&j),
                 "warn: worker 1 (rank 1): last NCCL call AllReduce 811 of default_pg, "
                 "Float32 [1024]\n") != NULL);
    CHECK_STR(job_out(&j), "");
    job_finish(&j);
    CHECK_EQ(JOB(&j, NO_PYTHON, "--nccl-profiler", "off", getenv("DT_USES_NCCL"), "1!"), 1);
    CHECK_STR(job_out(&j), "no plugin: none is named\n");
    job_finish(&j);
}

TEST(of_a_worker_that_tells_nothing_nothing_is_said)
{
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON, WORKER, "kill:9"), 1);
    CHECK(strstr(job_err(&j), "step") == NULL);
    job_finish(&j);
}

TEST(a_worker_may_write_anything_over_its_page)
{
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON, "--nproc-per-node", "2", WORKER, "rank:0:scribble:3",
                 "rank:0:exit:4", "scribble:9", "hang"),
             1);
    const char *err = job_err(&j);
    CHECK(strstr(err, "exitcode  : 4 ") != NULL);
    for (const char *c = err; *c; c++)
        CHECK(*c == '\n' || (*c >= ' ' && *c <= '~'));
    job_finish(&j);
}

TEST(a_worker_has_its_own_page_alone_and_a_new_one_in_each_attempt)
{
    struct job j;
    CHECK_EQ(JOB(&j, NO_PYTHON, "--nproc-per-node", "3", "--max-restarts", "1", WORKER, "pages",
                 "progress:5,5,x", "fail-below:1"),
             0);
    CHECK_EQ(count_words(job_out(&j), "pages "), count_words(job_out(&j), "pages 1 own 1\n"));
    CHECK(count_words(job_out(&j), "pages 1 own 1\n") >= 4); /* some may have been stopped early */
    job_finish(&j);
}

/* Then is the time to save. */
TEST(a_person_who_stops_the_job_does_not_end_the_round)
{
    struct job j;
    JOB_START(&j, NO_PYTHON, "--nproc-per-node", "2", WORKER, "trap-over:15", "progress:7,7,",
              "line:up", "hang");
    CHECK(job_says_lines(&j, 2));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_EQ(count_words(job_out(&j), "over 0\n"), 2);
    CHECK(strstr(job_err(&j), "round 0: last step 7, which the last checkpoint holds\n") != NULL);
    job_finish(&j);
}

TEST(one_that_fails_ends_the_round_of_the_others)
{
    struct job j;
    char dir[64], up[96], await[128];
    snprintf(up, sizeof up, "rank:1:touch:%s/up", tmp_make(dir));
    snprintf(await, sizeof await, "rank:0:await:%s/up", dir);
    CHECK_EQ(JOB(&j, NO_PYTHON, "--nproc-per-node", "2", WORKER, "trap-over:15", "over", up, await,
                 "rank:0:exit:5", "hang"),
             1);
    CHECK_EQ(count_words(job_out(&j), "over 0\n"), 2); /* at first */
    CHECK_EQ(count_words(job_out(&j), "over 1\n"), 1);
    job_finish(&j);
    tmp_remove(dir);
}
