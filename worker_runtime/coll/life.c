/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/life.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_stat(struct dt_life *l, int pid)
{
    char path[40];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        *l = (struct dt_life){DT_LIFE_BY_STAT, fd};
        return 0;
    }
    if (errno == ENOENT && kill(pid, 0) < 0 && errno == ESRCH)
        return -1;
    errno = ENOSYS; /* no /proc either */
    return -1;
}

int dt_life_open(struct dt_life *l, int pid)
{
    *l = (struct dt_life){DT_LIFE_OF_NOBODY, -1};
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd >= 0) {
        *l = (struct dt_life){DT_LIFE_BY_PIDFD, fd};
        return 0;
    }
    /* Sandboxes say either of a system call that they do not know. */
    return errno == ENOSYS || errno == EPERM ? open_stat(l, pid) : -1;
}

void dt_life_close(struct dt_life *l)
{
    if (l->by != DT_LIFE_OF_NOBODY)
        close(l->fd);
    *l = (struct dt_life){DT_LIFE_OF_NOBODY, -1};
}

/* "PID (NAME) STATE ...": a name may have anything in it, parentheses too. A zombie is over when
 * its last thread is: the first one may have ended before the others. */
static bool stat_is_over(int fd)
{
    char text[512];
    int threads = 0;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n < 0)
        return errno == ESRCH;
    text[n] = '\0';
    const char *name_end = strrchr(text, ')');
    if (!name_end || name_end[1] != ' ')
        return false;
    char state = name_end[2];
    /* Behind the state stand 16 numbers, and then how many threads there are. */
    sscanf(name_end + 3, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d",
           &threads);
    return state == 'X' || state == 'x' || (state == 'Z' && threads <= 1);
}

bool dt_life_is_over(const struct dt_life *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    switch (l->by) {
    case DT_LIFE_OF_NOBODY:
        return false;
    case DT_LIFE_BY_PIDFD:
        return poll(&p, 1, 0) > 0;
    case DT_LIFE_BY_STAT:
        return stat_is_over(l->fd);
    }
    return false;
}

int dt_life_wait_fd(const struct dt_life *l)
{
    return l->by == DT_LIFE_BY_PIDFD ? l->fd : -1;
}

bool dt_life_was(int pid)
{
    struct dt_life l;
    if (pid <= 0)
        return false;
    if (dt_life_open(&l, pid) < 0)
        return errno == ESRCH;
    bool over = dt_life_is_over(&l);
    dt_life_close(&l);
    return over;
}
