/* SPDX-License-Identifier: Apache-2.0 */
#include "preflight/examine.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STILL_LOOKING                                                                              \
    "find out what hangs: a network file system or a driver often does; ps shows state D then"

#define DYING 100 /* milliseconds that one which was killed has */

struct child {
    const struct dt_probe *probe;
    struct dt_sheet *sheet; /* shared with the process */
    pid_t pid;              /* 0: it is over */
    dt_ms limit, until;
    bool given_up;
    int pidfd; /* -1: the kernel gives none, and the process is asked again */
    int status;
};

static int open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

/* -- one probe -------------------------------------------------------------------------------- */

static void start(struct child *k, const struct dt_checkup *c)
{
    pid_t parent = getpid();
    k->pid = fork();
    if (k->pid < 0) {
        dt_sheet_remark(k->sheet, k->probe->name, DT_GRADE_FAIL, "look at ulimit -u and pids.max",
                        "no process can be forked for this probe: %s", strerror(errno));
        k->pid = 0;
        return;
    }
    if (k->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            k->probe->run(c, k->sheet);
        _exit(0);
    }
    k->pidfd = open_pidfd(k->pid);
}

static void take(struct child *k)
{
    if (k->pid <= 0 || waitpid(k->pid, &k->status, WNOHANG) == 0)
        return;
    k->pid = 0;
    if (k->pidfd >= 0)
        close(k->pidfd);
    k->pidfd = -1;
}

static void give_up(struct child *k)
{
    char doing[sizeof k->sheet->doing];
    struct pollfd death = {.fd = k->pidfd, .events = POLLIN};
    k->given_up = true;
    kill(k->pid, SIGKILL);
    poll(&death, 1, DYING); /* most do at once */
    take(k);
    memcpy(doing, k->sheet->doing, sizeof doing);
    doing[sizeof doing - 1] = '\0';
    memset(k->sheet, 0, sizeof *k->sheet); /* whatever stood there may be half */
    /* A host that is busy may need longer than a short limit. */
    dt_sheet_remark(k->sheet, k->probe->name,
                    k->limit < DT_EXAMINE_TIME ? DT_GRADE_WARN : DT_GRADE_FAIL, STILL_LOOKING,
                    "this probe did not end within %d s%s%s", dt_clock_seconds(k->limit),
                    *doing ? ", while it looked at " : "", doing);
}

/* Of a process that is over. */
static void check_end(struct child *k)
{
    if (WIFEXITED(k->status) && k->sheet->remark_count <= DT_SHEET_REMARKS &&
        k->sheet->trait_count <= DT_SHEET_TRAITS && k->sheet->speed_count <= DT_SHEET_SPEEDS)
        return;
    memset(k->sheet, 0, sizeof *k->sheet);
    dt_sheet_remark(k->sheet, k->probe->name, DT_GRADE_FAIL, "report this as a bug of dtrun",
                    "this probe died of signal %d", WTERMSIG(k->status));
}

/* -- all of them ------------------------------------------------------------------------------ */

static bool runs(const struct child *k)
{
    return k->pid > 0 && !k->given_up;
}

/* When the first of those that run has had its time; DT_FOREVER: none runs. */
static dt_ms next_end(const struct child *children, size_t count)
{
    dt_ms next = DT_FOREVER;
    for (size_t i = 0; i < count; i++)
        if (runs(&children[i]) && children[i].until < next)
            next = children[i].until;
    return next;
}

/* Until one is over, or the time is. */
static void wait_for_one(const struct child *children, size_t count, dt_ms left)
{
    struct pollfd fds[64];
    nfds_t n = 0;
    bool blind = false;
    for (size_t i = 0; i < count && n < sizeof fds / sizeof *fds; i++) {
        if (runs(&children[i]) && children[i].pidfd >= 0)
            fds[n++] = (struct pollfd){.fd = children[i].pidfd, .events = POLLIN};
        blind = blind || (runs(&children[i]) && children[i].pidfd < 0);
    }
    poll(fds, n, blind && left > 10 ? 10 : (int)left);
}

static void wait_for_all(struct child *children, size_t count)
{
    for (;;) {
        dt_ms now = dt_clock_monotonic();
        for (size_t i = 0; i < count; i++) {
            take(&children[i]);
            if (runs(&children[i]) && children[i].until <= now)
                give_up(&children[i]);
        }
        dt_ms next = next_end(children, count);
        if (next == DT_FOREVER)
            return;
        if (next > now)
            wait_for_one(children, count, next - now);
    }
}

static struct child begin(const struct dt_probe *probe, struct dt_sheet *sheet, dt_ms limit,
                          const struct dt_checkup *c)
{
    struct child k = {.probe = probe, .sheet = sheet, .pidfd = -1};
    k.limit = probe->time > limit ? probe->time : limit;
    k.until = dt_clock_after(dt_clock_monotonic(), k.limit);
    start(&k, c);
    return k;
}

int dt_examine(const struct dt_checkup *c, const struct dt_probe *probes, size_t count,
               enum dt_probe_when when, dt_ms limit, struct dt_sheet *out, struct dt_err *err)
{
    size_t size = count * sizeof(struct dt_sheet), running = 0;
    struct child *children = calloc(count + 1, sizeof *children);
    struct dt_sheet *sheets =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!children || sheets == MAP_FAILED) {
        free(children);
        if (sheets != MAP_FAILED)
            munmap(sheets, size);
        return dt_err_set(err, DT_E_MEMORY, "no memory to look at this host");
    }
    for (size_t i = 0; i < count; i++) {
        if (probes[i].when <= when)
            children[running++] = begin(&probes[i], &sheets[i], limit, c);
    }
    wait_for_all(children, running);
    for (size_t i = 0; i < running; i++) {
        if (!children[i].given_up)
            check_end(&children[i]);
        dt_sheet_add(out, children[i].sheet);
    }
    munmap(sheets, size);
    free(children);
    return 0;
}
