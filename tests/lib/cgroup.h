/* SPDX-License-Identifier: Apache-2.0 */
/* A control group of a test's own, where the kernel and our rights allow one: for jobs that meet a
 * limit. */
#ifndef DT_TESTS_CGROUP_H
#define DT_TESTS_CGROUP_H

#include "base/cgroup.h"
#include "tests/lib/check.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>

struct test_cgroup {
    char folder[DT_CGROUP_PATH + 64];
};

static inline bool cgroup_set(const struct test_cgroup *c, const char *name, const char *text)
{
    char path[DT_CGROUP_PATH + 128];
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    FILE *f = fopen(path, "w");
    bool well = f && fputs(text, f) >= 0;
    return f ? fclose(f) == 0 && well : false;
}

/* The group of the story that runs, for a story that fails and cleans nothing up. */
static struct {
    char folder[DT_CGROUP_PATH + 64];
    pid_t owner; /* a forked child's exit does not remove it */
} cgroup_last;

/* Ends who is still in it, which are all of the story's job. */
static inline void cgroup_forget(void)
{
    char path[DT_CGROUP_PATH + 128];
    snprintf(path, sizeof path, "%s/cgroup.procs", cgroup_last.folder);
    if (getpid() != cgroup_last.owner)
        return;
    for (int turn = 0; rmdir(cgroup_last.folder) < 0 && errno == EBUSY && turn < 1000; turn++) {
        FILE *f = fopen(path, "r");
        for (int pid; f && fscanf(f, "%d", &pid) == 1;)
            kill(pid, SIGKILL);
        if (f)
            fclose(f);
        usleep(1000);
    }
}

/* Skips the test, by name, where there can be none. V1, V2: the limit's file in either version. */
static inline void cgroup_make(struct test_cgroup *c, const char *controller, const char *v1,
                               const char *v2, const char *limit)
{
    struct dt_cgroup own;
    dt_cgroup_find(&own, controller, "");
    if (!*own.folder)
        SKIP("no control group of \"%s\" can be seen", controller);
    snprintf(c->folder, sizeof c->folder, "%s/dtrun-test-%d", own.folder, (int)getpid());
    if (mkdir(c->folder, 0700) < 0)
        SKIP("no control group can be made: %s", strerror(errno));
    if (!cgroup_last.owner)
        atexit(cgroup_forget);
    cgroup_last.owner = getpid();
    memcpy(cgroup_last.folder, c->folder, sizeof cgroup_last.folder);
    if (!cgroup_set(c, own.v2 ? v2 : v1, limit)) {
        rmdir(c->folder);
        SKIP("a control group of ours may not limit \"%s\"", controller);
    }
}

/* For job_start_as(): the job begins its life there. */
static inline void cgroup_enter(void *group)
{
    if (!cgroup_set(group, "cgroup.procs", "0"))
        _exit(126);
}

/* The kernel takes a moment to see that the last process has gone. */
static inline void cgroup_remove(struct test_cgroup *c)
{
    while (rmdir(c->folder) < 0 && errno == EBUSY)
        usleep(1000);
}

#endif
