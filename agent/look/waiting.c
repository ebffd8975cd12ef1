/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/look/waiting.h"

#include "base/auto.h"
#include "base/tcp_table.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define POLLED_MAX 16         /* descriptors of one call that are looked at */
#define TABLE_LINES_MAX 65536 /* of the kernel's tables of sockets */
#define EPOLL_TEXT_MAX 4096
#define BRIEF_MS 100   /* Python waits 5 ms for its lock of everything at a time */
#define PATH_PAGE 4096 /* the smallest: what is read at once lies on one */

/* How a call's arguments say what it waits for. */
enum arguments {
    BY_NOTHING,
    BY_DESCRIPTOR, /* the first argument */
    BY_PATH,       /* ... the address of a path */
    BY_PATH_AT,    /* ... the second, behind a folder's descriptor */
    BY_POLL,       /* an array of struct pollfd and its length */
    BY_SELECT,     /* the highest descriptor, and sets of bits */
    BY_EPOLL,      /* a descriptor that watches others */
    BY_FUTEX,
    BY_TIME,
};

/* clang-format off */
static const struct {
    long number;
    enum arguments shape;
} shapes[] = {
    {SYS_read, BY_DESCRIPTOR}, {SYS_readv, BY_DESCRIPTOR}, {SYS_pread64, BY_DESCRIPTOR},
    {SYS_preadv, BY_DESCRIPTOR}, {SYS_write, BY_DESCRIPTOR}, {SYS_writev, BY_DESCRIPTOR},
    {SYS_pwrite64, BY_DESCRIPTOR}, {SYS_pwritev, BY_DESCRIPTOR}, {SYS_fsync, BY_DESCRIPTOR},
    {SYS_fdatasync, BY_DESCRIPTOR}, {SYS_flock, BY_DESCRIPTOR}, {SYS_fcntl, BY_DESCRIPTOR},
    {SYS_ioctl, BY_DESCRIPTOR}, {SYS_sendfile, BY_DESCRIPTOR}, {SYS_getdents64, BY_DESCRIPTOR},
    {SYS_ftruncate, BY_DESCRIPTOR}, {SYS_fallocate, BY_DESCRIPTOR}, {SYS_close, BY_DESCRIPTOR},
    {SYS_connect, BY_DESCRIPTOR}, {SYS_accept, BY_DESCRIPTOR}, {SYS_accept4, BY_DESCRIPTOR},
    {SYS_recvfrom, BY_DESCRIPTOR}, {SYS_recvmsg, BY_DESCRIPTOR}, {SYS_recvmmsg, BY_DESCRIPTOR},
    {SYS_sendto, BY_DESCRIPTOR}, {SYS_sendmsg, BY_DESCRIPTOR},
    {SYS_openat, BY_PATH_AT}, {SYS_newfstatat, BY_PATH_AT}, {SYS_statx, BY_PATH_AT},
    {SYS_faccessat, BY_PATH_AT}, {SYS_readlinkat, BY_PATH_AT}, {SYS_mkdirat, BY_PATH_AT},
    {SYS_unlinkat, BY_PATH_AT}, {SYS_renameat2, BY_PATH_AT}, {SYS_statfs, BY_PATH},
    {SYS_truncate, BY_PATH}, {SYS_chdir, BY_PATH},
    {SYS_ppoll, BY_POLL}, {SYS_pselect6, BY_SELECT}, {SYS_epoll_pwait, BY_EPOLL},
    {SYS_futex, BY_FUTEX}, {SYS_clock_nanosleep, BY_TIME}, {SYS_nanosleep, BY_TIME},
#ifdef SYS_poll /* not on 64-bit ARM, which has the newer ones only */
    {SYS_open, BY_PATH}, {SYS_stat, BY_PATH}, {SYS_lstat, BY_PATH},
    {SYS_access, BY_PATH}, {SYS_readlink, BY_PATH}, {SYS_mkdir, BY_PATH},
    {SYS_rmdir, BY_PATH}, {SYS_unlink, BY_PATH}, {SYS_rename, BY_PATH},
    {SYS_poll, BY_POLL}, {SYS_select, BY_SELECT}, {SYS_epoll_wait, BY_EPOLL},
#endif
};
/* clang-format on */

static enum arguments shape_of(long number)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (shapes[i].number == number)
            return shapes[i].shape;
    return BY_NOTHING;
}

/* -- one descriptor -- */

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static enum dt_waiting_kind kind_of(const char *target)
{
    if (starts(target, "socket:"))
        return DT_WAITING_SOCKET;
    if (starts(target, "pipe:") || starts(target, "/dev/pts/") || starts(target, "/dev/tty"))
        return DT_WAITING_PIPE;
    return target[0] == '/' ? DT_WAITING_FILE : DT_WAITING_UNKNOWN;
}

/* Takes over LEN bytes of TARGET, of which the last ones count. */
static void put_target(struct dt_waiting *w, const char *target, size_t len)
{
    size_t cut = len < sizeof w->what ? 0 : len - sizeof w->what + 1;
    while (cut > 0 && cut < len && ((unsigned char)target[cut] & 0xc0) == 0x80)
        cut++; /* not in the middle of a character */
    memcpy(w->what, target + cut, len - cut);
    w->what[len - cut] = '\0';
}

/* What descriptor FD leads to. The link is read and never followed: a file may lie where everybody
 * hangs who asks for it. */
static void read_descriptor(struct dt_waiting *w, pid_t pid, int fd)
{
    char path[64], target[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    ssize_t n = readlink(path, target, sizeof target - 1);
    if (n <= 0)
        return;
    target[n] = '\0';
    w->descriptor = fd;
    w->kind = kind_of(target);
    if (w->kind == DT_WAITING_SOCKET)
        sscanf(target, "socket:[%lu]", &w->inode);
    put_target(w, target, (size_t)n);
}

/* The path at ADDRESS, which may end anywhere on its page, or not be there. */
static void read_path(struct dt_waiting *w, uint64_t address, struct dt_memory *m)
{
    char path[PATH_MAX];
    size_t len = 0, chunk;
    const char *end = NULL;
    for (; !end && len < sizeof path; len += chunk) {
        uint64_t on_page = PATH_PAGE - (address + len) % PATH_PAGE;
        chunk = on_page < sizeof path - len ? on_page : sizeof path - len;
        if (dt_memory_read(m, address + len, path + len, chunk) < 0)
            return;
        end = memchr(path + len, '\0', chunk);
    }
    if (!end || end == path)
        return;
    w->kind = DT_WAITING_FILE;
    put_target(w, path, (size_t)(end - path));
}

/* -- several -- */

/* Of several descriptors the first counts that others can write to: one of the kernel's own, such
 * as a timer or a counter of events, only wakes a thread beside. */
static void read_descriptors(struct dt_waiting *w, pid_t pid, const int *fds, int count)
{
    for (int i = 0; i < count && i < POLLED_MAX && w->kind == DT_WAITING_UNKNOWN; i++)
        if (fds[i] >= 0)
            read_descriptor(w, pid, fds[i]);
    w->others = count > 0 ? count - 1 : 0;
    if (count == 0)
        w->kind = DT_WAITING_TIME;
}

static void read_poll(struct dt_waiting *w, const struct dt_waiting_call *call, pid_t pid,
                      struct dt_memory *m)
{
    struct pollfd polled[POLLED_MAX];
    int fds[POLLED_MAX], count = 0;
    uint64_t total = call->arguments[1];
    size_t n = total < POLLED_MAX ? total : POLLED_MAX;
    if (dt_memory_read(m, call->arguments[0], polled, n * sizeof *polled) < 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (polled[i].fd >= 0)
            fds[count++] = polled[i].fd;
    read_descriptors(w, pid, fds, count);
}

/* What it reads from comes before what it writes to. */
static void read_select(struct dt_waiting *w, const struct dt_waiting_call *call, pid_t pid,
                        struct dt_memory *m)
{
    uint64_t total = call->arguments[0] < FD_SETSIZE ? call->arguments[0] : FD_SETSIZE;
    int fds[POLLED_MAX], count = 0;
    for (int set = 1; set <= 2; set++) {
        uint64_t bits[FD_SETSIZE / 64] = {0};
        if (call->arguments[set] == 0)
            continue;
        if (dt_memory_read(m, call->arguments[set], bits, (total + 63) / 64 * 8) < 0)
            return;
        for (uint64_t fd = 0; fd < total && count < POLLED_MAX; fd++)
            if (bits[fd / 64] >> fd % 64 & 1)
                fds[count++] = (int)fd;
    }
    read_descriptors(w, pid, fds, count);
}

/* Lines "tfd: FD events: ..." of the kernel's. */
static void read_epoll(struct dt_waiting *w, int epoll, pid_t pid)
{
    char path[64], text[EPOLL_TEXT_MAX];
    int fds[POLLED_MAX], count = 0;
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)pid, epoll);
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (n <= 0)
        return;
    text[n] = '\0';
    for (const char *at = text; (at = strstr(at, "tfd:")) && count < POLLED_MAX; at++)
        count += sscanf(at, "tfd: %d", &fds[count]) == 1;
    if (count > 0)
        read_descriptors(w, pid, fds, count);
}

/* -- a futex -- */

/* A semaphore of glibc is {value, waiters, private, ...}: who waits in one finds no value, and is
 * counted. A condition has no such count beside what is waited for. */
static bool is_semaphore(struct dt_memory *m, uint64_t address)
{
    struct {
        uint32_t value, waiters, private;
    } word;
    return dt_memory_read(m, address, &word, sizeof word) == 0 && word.value == 0 &&
           word.waiters > 0 && word.waiters < 65536 && word.private == 0;
}

/* Whether the time at ADDRESS, to which a futex is waited for, is at most BRIEF_MS away. */
static bool ends_soon(uint64_t op, uint64_t address, struct dt_memory *m)
{
    struct timespec end, now;
    if (address == 0 || (op & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET ||
        dt_memory_read(m, address, &end, sizeof end) < 0 || end.tv_nsec < 0 ||
        end.tv_nsec >= 1000000000)
        return false;
    clock_gettime(op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
    if (end.tv_sec < now.tv_sec)
        return true;
    return end.tv_sec - now.tv_sec <= 1 &&
           (end.tv_sec - now.tv_sec) * 1000 + (end.tv_nsec - now.tv_nsec) / 1000000 <= BRIEF_MS;
}

static void read_futex(struct dt_waiting *w, const struct dt_waiting_call *call,
                       struct dt_memory *m)
{
    uint64_t op = call->arguments[1];
    w->briefly = ends_soon(op, call->arguments[3], m);
    if (!(op & FUTEX_PRIVATE_FLAG))
        w->kind = DT_WAITING_MEMORY;
    else if ((op & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && is_semaphore(m, call->arguments[0]))
        w->kind = DT_WAITING_LOCK;
    else
        w->kind = DT_WAITING_CONDITION;
}

void dt_waiting_read(struct dt_waiting *w, const struct dt_waiting_call *call, pid_t pid,
                     struct dt_memory *m)
{
    *w = (struct dt_waiting){.descriptor = -1};
    switch (shape_of(call->number)) {
    case BY_NOTHING:
        break;
    case BY_DESCRIPTOR:
        read_descriptor(w, pid, (int)call->arguments[0]);
        break;
    case BY_PATH:
        read_path(w, call->arguments[0], m);
        break;
    case BY_PATH_AT:
        read_path(w, call->arguments[1], m);
        break;
    case BY_POLL:
        read_poll(w, call, pid, m);
        break;
    case BY_SELECT:
        read_select(w, call, pid, m);
        break;
    case BY_EPOLL:
        read_epoll(w, (int)call->arguments[0], pid);
        break;
    case BY_FUTEX:
        read_futex(w, call, m);
        break;
    case BY_TIME:
        w->kind = DT_WAITING_TIME;
        break;
    }
}

/* -- the other ends of sockets -- */

static void put_peer(struct dt_waiting *w, const struct dt_tcp_row *row)
{
    char text[DT_ADDR_TEXT];
    struct dt_addr addr = dt_tcp_end_addr(row->listens ? &row->local : &row->remote);
    dt_addr_text(&addr, text, sizeof text);
    snprintf(w->what, sizeof w->what, row->listens ? "a connection to %s" : "%s", text);
    if (row->listens)
        return;
    addr = dt_tcp_end_addr(&row->local);
    dt_addr_text(&addr, w->here, sizeof w->here);
}

/* Several threads may wait for one socket. */
static void name_in_tcp(struct dt_waiting *const *at, size_t count, pid_t pid, bool v6)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/net/%s", (int)pid, v6 ? "tcp6" : "tcp");
    DT_AUTO_FILE f = fopen(path, "re");
    for (int lines = 0; f && lines < TABLE_LINES_MAX && fgets(line, sizeof line, f); lines++) {
        struct dt_tcp_row row;
        if (!dt_tcp_row_parse(line, v6, &row))
            continue;
        for (size_t i = 0; i < count; i++)
            if (at[i]->inode == row.inode)
                put_peer(at[i], &row);
    }
}

/* "0000000000000000: 00000002 00000000 00010000 0001 01 34567 /run/x". No path is told of the end
 * that connects. */
static void name_in_unix(struct dt_waiting *const *at, size_t count, pid_t pid)
{
    char path[64], line[512], name[128];
    snprintf(path, sizeof path, "/proc/%d/net/unix", (int)pid);
    DT_AUTO_FILE f = fopen(path, "re");
    for (int lines = 0; f && lines < TABLE_LINES_MAX && fgets(line, sizeof line, f); lines++) {
        unsigned long inode;
        name[0] = '\0';
        if (sscanf(line, "%*x: %*x %*x %*x %*x %*x %lu %127[^\n]", &inode, name) < 1)
            continue;
        for (size_t i = 0; i < count; i++)
            if (at[i]->inode == inode)
                snprintf(at[i]->what, sizeof at[i]->what, "%s%s",
                         name[0] ? "unix:" : "a unix socket", name);
    }
}

void dt_waiting_name_sockets(struct dt_waiting *const *at, size_t count, pid_t pid)
{
    if (count == 0)
        return;
    name_in_tcp(at, count, pid, false);
    name_in_tcp(at, count, pid, true);
    name_in_unix(at, count, pid);
}
