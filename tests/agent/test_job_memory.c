/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs in a control group that the kernel lets have little memory. */
#include "tests/lib/sanitized.h"
#include "tests/lib/cgroup.h"
#include "tests/lib/check.h"
#include "tests/lib/job.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#define WORKER getenv("DT_MISBEHAVE")
#define NO_PYTHON "--no-python", WORKER
#define SMALL "83886080"
#define NAMED "killed by the kernel: out of memory (limit 80 MiB)"

#define CAUSE                                                                                      \
    "\nroot cause: rank 0 was killed by the kernel, as it used too much memory (its control "      \
    "group "                                                                                       \
    "may use 80 MiB"

static struct test_cgroup group;

/* Whether the kernel's log may be read, and has our numbers for processes. */
static bool tells_of_processes(void)
{
    struct stat s;
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd >= 0 && stat("/proc/self/ns/pid", &s) == 0 && s.st_ino == 0xEFFFFFFCu;
}

static void limit_memory(void)
{
    cgroup_make(&group, "memory", "memory.limit_in_bytes", "memory.max", SMALL);
    /* Where there is swap a worker would go on there; no such file, no swap to speak of. */
    cgroup_set(&group, "memory.swap.max", "0");
    cgroup_set(&group, "memory.memsw.limit_in_bytes", SMALL);
}

TEST(a_worker_that_the_kernel_kills_for_memory_is_told_so)
{
    struct job j;
    limit_memory();
    JOB_START_AS(&j, cgroup_enter, &group, "--nproc-per-node", "2", "--shutdown-timeout", "1",
                 NO_PYTHON, "rank:0:eat:400", "ignore:15", "hang");
    CHECK_EQ(job_wait(&j), 1);
    CHECK(strstr(job_err(&j), "traceback : Signal 9 (SIGKILL) received by PID ") != NULL);
    /* The other was killed by us. */
    CHECK_EQ(count_words(job_err(&j), "\n  " NAMED "\n"), 1);
    CHECK_EQ(count_words(job_err(&j), "out of memory"), 1);
    const char *had = !tells_of_processes() ? "); a retry may help\n"
                      : SANITIZED           ? "; it had "
                                            : "; it had 7";
    CHECK(count_words(job_err(&j), CAUSE) == 1 &&
          strncmp(strstr(job_err(&j), CAUSE) + strlen(CAUSE), had, strlen(had)) == 0);
    job_finish(&j);
    cgroup_remove(&group);
}

TEST(a_restart_says_why_too)
{
    struct job j;
    limit_memory();
    JOB_START_AS(&j, cgroup_enter, &group, "--max-restarts", "1", NO_PYTHON, "eat:400");
    CHECK_EQ(job_wait(&j), 1);
    CHECK(strstr(job_err(&j), ", " NAMED "; restart 1 of 1\n") != NULL);
    CHECK_EQ(count_words(job_err(&j), NAMED), 2);
    job_finish(&j);
    cgroup_remove(&group);
}

TEST(a_worker_whose_child_was_killed_is_told_of_it)
{
    struct job j;
    limit_memory();
    JOB_START_AS(&j, cgroup_enter, &group, "--no-python", "sh", "-c",
                 "\"$$DT_MISBEHAVE\" eat:400; echo a child is gone >&2; exit 3");
    CHECK_EQ(job_wait(&j), 1);
    CHECK(strstr(job_err(&j), "a child is gone\n  the kernel killed another process of this job: "
                              "out of memory (limit 80 MiB)\n"));
    job_finish(&j);
    cgroup_remove(&group);
}

TEST(somebody_elses_sigkill_is_no_want_of_memory)
{
    struct job j;
    limit_memory();
    JOB_START_AS(&j, cgroup_enter, &group, NO_PYTHON, "kill:9");
    CHECK_EQ(job_wait(&j), 1);
    CHECK(strstr(job_err(&j), "Signal 9 (SIGKILL) received by PID ") != NULL);
    CHECK(strstr(job_err(&j), "memory") == NULL);
    job_finish(&j);
    cgroup_remove(&group);
}
