/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Marked, not closed: refuse() still needs its descriptor until exec has worked. */
static void close_the_rest_at_exec(void)
{
    if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) == 0)
        return;
    DIR *fds = opendir("/proc/self/fd"); /* a kernel before 5.11 */
    for (struct dirent *e = fds ? readdir(fds) : NULL; e; e = readdir(fds)) {
        int fd = atoi(e->d_name);
        if (fd > 2)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

static int set_streams(const struct dt_spawn *what)
{
    if (what->out >= 0 && dup2(what->out, 1) < 0)
        return -1;
    return what->err >= 0 && dup2(what->err, 2) < 0 ? -1 : 0;
}

/* Memory is asked for, not demanded: a full node must not be an OOM kill while others have room.
 * Kernels before 5.15 know only one preferred node; which is nearly as good for most. */
static int prefer_nodes(const unsigned long *nodes, unsigned long bits)
{
    if (syscall(SYS_set_mempolicy, MPOL_PREFERRED_MANY, nodes, bits + 1) == 0)
        return 0;
    if (errno == ENOSYS || errno == EPERM)
        return 0; /* a kernel without NUMA, or a container that may not: there is nothing to lose */
    return (int)syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes, bits + 1);
}

/* Looks at what came of it: a cpuset takes processors away without a word. */
static int bind_cpus(const cpu_set_t *cpus, size_t size)
{
    unsigned char got[1024] = {0};
    if (size > sizeof got || sched_setaffinity(0, size, cpus) < 0)
        return -1;
    if (syscall(SYS_sched_getaffinity, 0, sizeof got, got) >= 0 && memcmp(got, cpus, size) == 0)
        return 0;
    errno = EBUSY;
    return -1;
}

static int take_place(const struct dt_spawn_place *p)
{
    if (p->cpus && bind_cpus(p->cpus, p->cpus_size) < 0)
        return -1;
    return p->nodes && prefer_nodes(p->nodes, p->nodes_bits) < 0 ? -1 : 0;
}

/* As Python does for its children: what we ignore for ourselves is not the worker's. */
static void restore(const struct dt_spawn_inherited *was)
{
    setrlimit(RLIMIT_NOFILE, &was->files);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, &was->mask, NULL);
}

static enum dt_spawn_step prepare_and_exec(const struct dt_spawn *what, pid_t parent,
                                           const struct dt_spawn_inherited *inherited)
{
    if (setsid() < 0)
        return DT_SPAWN_SESSION;
    /* The parent may have died before the kernel was told; then no signal would come any more. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        raise(SIGKILL);
    if (set_streams(what) < 0)
        return DT_SPAWN_STREAMS;
    if (take_place(&what->place) < 0)
        return DT_SPAWN_PLACE;
    close_the_rest_at_exec();
    for (int i = 0; i < DT_SPAWN_KEEP; i++)
        if (what->keep[i] > 2)
            fcntl(what->keep[i], F_SETFD, 0);
    restore(inherited);
    execve(what->path, what->argv, what->env);
    return DT_SPAWN_EXEC;
}

pid_t dt_spawn_worker(const struct dt_spawn *what, const struct dt_spawn_inherited *inherited,
                      void (*begin)(void *arg),
                      void (*refuse)(void *arg, enum dt_spawn_step step, int errnum), void *arg)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    begin(arg);
    enum dt_spawn_step failed = prepare_and_exec(what, parent, inherited);
    refuse(arg, failed, errno);
    _exit(127);
}
