/* SPDX-License-Identifier: Apache-2.0 */
/* What is looked at when a job starts. */
#include "tests/lib/check.h"
#include "tests/lib/folder.h"
#include "tests/lib/job.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER
#define BROKEN_LINKS "NCCL_SOCKET_IFNAME==nosuch0"
/* By names that others could use, too, but this host alone. */
#define TWO_NODES                                                                                  \
    "--nnodes", "2", "--node-rank", "0", "--master-addr", "0.0.0.0", "--master-port", port

BEFORE_ALL
{
    folder_make();
}

static void put_python(const char *text)
{
    FILE *f = fopen(at("python"), "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    CHECK(chmod(at("python"), 0755) == 0);
}

TEST(a_host_that_is_well_runs_the_job_after_a_full_look)
{
    struct job j;
    CHECK_EQ(JOB(&j, "--preflight", "full", "--log-level", "debug", NO_PYTHON, "line:a worker ran"),
             0);
    CHECK_STR(job_out(&j), "a worker ran\n");
    CHECK(strstr(job_err(&j), "dtrun debug: host: dtrun ") != NULL);
    job_finish(&j);
}

/* torchrun's PYTHON_EXEC may name anything. */
TEST(a_full_look_refuses_what_will_break)
{
    static const struct {
        const char *policy;
        int status;
    } rows[] = {{"torchrun", 1}, {"root-cause", 78}};
    char python[128];
    put_python("#!/bin/sh\ncase $1 in -c) exit 9;; esac\necho a worker ran\n");
    snprintf(python, sizeof python, "PYTHON_EXEC=%s", at("python"));
    for (size_t i = 0; i < 2; i++) {
        struct job j;
        CHECK_ROW("%s", rows[i].policy);
        CHECK_EQ(JOB(&j, python, "--preflight", "full", "--exit-code", rows[i].policy, "-m", "x"),
                 rows[i].status);
        CHECK_STR(job_out(&j), "");
        CHECK(strstr(job_err(&j), "does not run: it ends with status 9") != NULL);
        CHECK(strstr(job_err(&j), "the job is not started on this host: ") != NULL);
        job_finish(&j);
    }
}

TEST(a_fast_look_only_says_so)
{
    struct job j;
    char port[8];
    free_port(port);
    JOB_START(&j, BROKEN_LINKS, TWO_NODES, NO_PYTHON);
    CHECK(job_says(&j, JOB_ERR, "warn: links: NCCL_SOCKET_IFNAME==nosuch0 names no interface"));
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK(strstr(job_err(&j), "not started") == NULL);
    job_finish(&j);
}

/* Whether PID has a handler for SIGNUM by now. */
static bool listens(pid_t pid, int signum)
{
    char path[32], line[128];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "SigCgt: %llx", &caught) == 1)
            break;
    fclose(f);
    return caught >> (signum - 1) & 1;
}

/* It ends with the job, and so does what it started. */
TEST(a_signal_ends_a_look_that_hangs)
{
    struct job j;
    char python[128], fifo[128];
    snprintf(fifo, sizeof fifo, "FIFO=%s", at("fifo"));
    CHECK(mkfifo(at("fifo"), 0600) == 0);
    put_python("#!/bin/sh\nread nothing <\"$FIFO\"\n");
    snprintf(python, sizeof python, "PYTHON_EXEC=%s", at("python"));
    JOB_START(&j, fifo, python, "--preflight", "full", "-m", "x");
    struct pollfd reader = {.fd = open(at("fifo"), O_WRONLY | O_CLOEXEC)}; /* it asks by now */
    CHECK(reader.fd >= 0);
    while (!listens(j.pid, SIGTERM)) /* the look begins before that */
        sched_yield();
    CHECK_EQ(job_stop(&j, SIGTERM), 1);
    CHECK_EQ(poll(&reader, 1, -1), 1); /* nobody reads any more */
    close(reader.fd);
    CHECK_STR(job_out(&j), "");
    job_finish(&j);
}
