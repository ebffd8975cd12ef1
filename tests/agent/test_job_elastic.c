/* SPDX-License-Identifier: Apache-2.0 */
/* Elastic jobs as a person sees them who looks at a console. Each node is a dtrun of its own, all
 * on one loopback. */
#include "base/fs.h"
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <signal.h>

#define NODE(endpoint)                                                                             \
    "OMP_NUM_THREADS=1", "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint,   \
        "--rdzv-id", "job", "--no-python", getenv("DT_MISBEHAVE")

TEST(an_endpoint_that_no_other_host_can_reach_is_named_when_nobody_came)
{
    static const char *const hosts[] = {"127.0.0.1", "localhost"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        struct job j;
        char port[8], endpoint[32], words[128];
        CHECK_ROW("%s", hosts[i]);
        snprintf(endpoint, sizeof endpoint, "%s:%s", hosts[i], free_port(port));
        snprintf(words, sizeof words, "; %s leads each host to itself", hosts[i]);
        CHECK_EQ(JOB(&j, "PET_RDZV_CONF=join_timeout=1", NODE(endpoint)), 1);
        CHECK_EQ(count_words(job_err(&j), "too few nodes came"), 1);
        CHECK_EQ(count_words(job_err(&j), words), 1);
        job_finish(&j);
    }
}

TEST(who_started_a_node_is_left_why_the_job_never_began)
{
    struct job j;
    struct dt_buf left = {0};
    struct dt_err err = {0};
    char port[8], endpoint[32], path[] = "/tmp/dtrun-test.XXXXXX", variable[64];
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    snprintf(variable, sizeof variable, "TORCHELASTIC_ERROR_FILE=%s", path);
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", free_port(port));
    CHECK_EQ(JOB(&j, variable, "PET_RDZV_CONF=join_timeout=1", NODE(endpoint)), 1);
    CHECK_OK(dt_fs_read(path, 4000, &left, &err), err);
    unlink(path);
    CHECK_EQ(count_words(dt_buf_cstr(&left),
                         "{\"message\": {\"message\": \"the job ended, as too few nodes came: "),
             1);
    dt_buf_finish(&left);
    job_finish(&j);
}

/* A wrapper on one of them may be meant; two jobs on one port are not. */
TEST(another_command_is_told_on_every_node)
{
    struct job a, b;
    char port[8], endpoint[32];
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", free_port(port));
    JOB_START(&a, "LOGLEVEL=INFO", NODE(endpoint)); /* it hosts */
    CHECK(job_says(&a, JOB_ERR, "came: 1 of 2"));
    JOB_START(&b, "--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint,
              "--rdzv-id", "job", "--no-python", "/bin/true");
    CHECK_EQ(job_wait(&a), 0);
    CHECK_EQ(job_wait(&b), 0);
    CHECK_EQ(count_words(job_err(&a), "warn: "), 1);
    CHECK_EQ(count_words(job_err(&a), ", but run \"job\" runs "), 2); /* info of its log */
    CHECK_EQ(count_words(job_err(&b), "runs /bin/true as "), 1);
    job_finish(&a);
    job_finish(&b);
}

TEST(what_ends_rounds_and_jobs_is_said_once_by_each_node)
{
    struct job a, b;
    char port[8], endpoint[32];
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%s", free_port(port));
    JOB_START(&a, "LOGLEVEL=INFO", NODE(endpoint), "rank:0:hang", "exit:7"); /* it hosts */
    CHECK(job_says(&a, JOB_ERR, "came: 1 of 2"));
    JOB_START(&b, NODE(endpoint), "rank:0:hang", "exit:7");
    CHECK_EQ(job_wait(&b), 1);
    CHECK_EQ(job_wait(&a), 1);
    CHECK_EQ(count_words(job_err(&a), "warn: round 0 is over: "), 1);
    CHECK_EQ(count_words(job_err(&a), "error: the job failed: "), 1);
    CHECK_EQ(count_words(job_err(&a), "error: run job: "), 0);
    CHECK_EQ(count_words(job_err(&a), "warn: run job: "), 0);
    CHECK_EQ(count_words(job_err(&a), "info: run job: round 0 is over: "), 1);
    CHECK_EQ(count_words(job_err(&a), "info: run job: closed: "), 1);
    job_finish(&a);
    job_finish(&b);
}
