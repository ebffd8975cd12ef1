/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/failure/kernel_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_MAX 64         /* of interest, and of each kind one a process: the first tells most */
#define READ_MAX (64 << 10) /* records in one go: more than the kernel keeps by default */
#define RECORD_MAX 8192     /* the kernel's own limit */

/* By which the kernel's first namespace of processes is known: its PROC_PID_INIT_INO. */
#define FIRST_PIDS 0xEFFFFFFCu

struct dt_kernel_log {
    int fd;    /* -1: none */
    bool pids; /* the kernel numbers processes as we do */
    dt_kernel_log_own_fn *is_own;
    void *arg;
    size_t len;
    struct dt_kernel_record kept[KEPT_MAX]; /* as they came */
};

static bool is_in_first_pids(void)
{
    struct stat s;
    return stat("/proc/self/ns/pid", &s) == 0 && s.st_ino == FIRST_PIDS;
}

struct dt_kernel_log *dt_kernel_log_open_empty(bool pids, dt_kernel_log_own_fn *is_own, void *arg)
{
    struct dt_kernel_log *l = calloc(1, sizeof *l);
    if (l)
        *l = (struct dt_kernel_log){.fd = -1, .pids = pids, .is_own = is_own, .arg = arg};
    return l;
}

struct dt_kernel_log *dt_kernel_log_open(dt_kernel_log_own_fn *is_own, void *arg)
{
    int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct dt_kernel_log *l = lseek(fd, 0, SEEK_END) < 0
                                  ? NULL
                                  : dt_kernel_log_open_empty(is_in_first_pids(), is_own, arg);
    if (!l) {
        close(fd);
        return NULL;
    }
    l->fd = fd;
    return l;
}

void dt_kernel_log_close(struct dt_kernel_log *l)
{
    if (l && l->fd >= 0)
        close(l->fd);
    free(l);
}

static bool is_kept(const struct dt_kernel_log *l, const struct dt_kernel_record *r)
{
    for (size_t i = 0; i < l->len; i++)
        if (l->kept[i].event == r->event && l->kept[i].pid == r->pid)
            return true;
    return false;
}

/* Drops the oldest record about a process of others. Many of them may come before we know all our
 * own, so they are not dropped sooner. */
static void make_room(struct dt_kernel_log *l)
{
    size_t i = 0;
    while (i < l->len && (l->kept[i].pid == 0 || l->is_own(l->arg, l->kept[i].pid)))
        i++;
    if (i == l->len)
        return;
    l->len--;
    memmove(&l->kept[i], &l->kept[i + 1], (l->len - i) * sizeof *l->kept);
}

void dt_kernel_log_take(struct dt_kernel_log *l, struct dt_bytes record)
{
    struct dt_kernel_record r;
    dt_kernel_record_read(record, &r);
    if (!l->pids)
        r.pid = 0;
    if (r.event == DT_KERNEL_OTHER || is_kept(l, &r))
        return;
    if (l->len == KEPT_MAX)
        make_room(l);
    if (l->len < KEPT_MAX)
        l->kept[l->len++] = r;
}

void dt_kernel_log_update(struct dt_kernel_log *l)
{
    uint8_t record[RECORD_MAX];
    for (int i = 0; l && l->fd >= 0 && i < READ_MAX; i++) {
        ssize_t n = read(l->fd, record, sizeof record);
        if (n > 0)
            dt_kernel_log_take(l, (struct dt_bytes){record, (size_t)n});
        else if (n == 0 || (errno != EPIPE && errno != EINTR)) /* EPIPE: older ones are gone */
            return;
    }
}

const struct dt_kernel_record *dt_kernel_log_kill(const struct dt_kernel_log *l, pid_t pid)
{
    for (size_t i = 0; l && pid > 0 && i < l->len; i++)
        if (l->kept[i].event == DT_KERNEL_KILLED && l->kept[i].pid == pid)
            return &l->kept[i];
    return NULL;
}

static int worth(const struct dt_kernel_record *r, pid_t pid)
{
    bool xid = r->event != DT_KERNEL_KILLED, own = r->pid == pid && pid > 0;
    if (!xid || (!own && r->pid != 0))
        return 0;
    return 1 + (own ? 2 : 0) + (r->event == DT_KERNEL_GPU_BROKEN ? 1 : 0);
}

const struct dt_kernel_record *dt_kernel_log_xid(const struct dt_kernel_log *l, pid_t pid)
{
    const struct dt_kernel_record *best = NULL;
    for (size_t i = 0; l && i < l->len; i++)
        if (worth(&l->kept[i], pid) > (best ? worth(best, pid) : 0))
            best = &l->kept[i];
    return best;
}
