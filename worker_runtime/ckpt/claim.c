/* SPDX-License-Identifier: Apache-2.0 */
/* One run to a folder: two would move each other's `latest`, remove what the other is about to
 * write, and count the other's checkpoints among their own oldest. The lock is the process's, so
 * nothing is left of it however that ends; the file says whose it is, because a world of the same
 * run that has not died yet must not keep the next one from saving. A file system without locks is
 * trusted. */
#include "worker_runtime/ckpt/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/str.h"

#define LOCK ".lock"
#define RUN_MAX 128

/* Workers whose launcher was killed are gone a moment later: a run that is started anew at once
 * waits so long for their lock. */
#define DYING (2 * DT_SECOND)
#define POLL_NS 20000000

static void write_run(int fd, const char *run_id)
{
    /* Who reads it while it is being written takes us for another run, and says so: no harm. */
    if (ftruncate(fd, 0) < 0 || pwrite(fd, run_id, strlen(run_id), 0) < 0)
        return; /* without a name, then */
}

static int refuse(const char *dir, const char *holder, struct dt_err *err)
{
    char name[RUN_MAX + 40];
    return dt_err_set(err, DT_E_RUNTIME,
                      "another run%s%s saves in %s and is still there; give each run a folder of "
                      "its own, or end that one",
                      *holder ? " " : "",
                      *holder ? dt_str_printable(dt_bytes_of(holder), name, sizeof name) : "", dir);
}

/* Whose the lock is, as its file says; "": nobody wrote it. */
static void read_run(int fd, char holder[RUN_MAX])
{
    ssize_t n = pread(fd, holder, RUN_MAX - 1, 0);
    holder[n > 0 ? n : 0] = '\0';
}

/* 0, or what is in the way: EWOULDBLOCK, and then HOLDER has the lock. A world of the same run is
 * not waited for. */
static int take_lock(int fd, const char *run_id, char holder[RUN_MAX])
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    dt_ms until = dt_clock_monotonic() + DYING;
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK)
            return errno;
        read_run(fd, holder);
        if ((*run_id && strncmp(holder, run_id, RUN_MAX - 1) == 0) || dt_clock_monotonic() >= until)
            return EWOULDBLOCK;
        nanosleep(&pause, NULL);
    }
    return 0;
}

int dt_ckpt_claim(const char *dir, const char *run_id, int *out, struct dt_err *err)
{
    char path[PATH_MAX], holder[RUN_MAX] = "";
    *out = -1;
    if (dt_ckpt_join_path(path, dir, LOCK, err) < 0)
        return -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return 0; /* a folder that cannot be written is told by the first save */
    int why = take_lock(fd, run_id, holder);
    if (why == 0) {
        write_run(fd, run_id);
        *out = fd;
        return 0;
    }
    close(fd);
    if (why != EWOULDBLOCK || (*run_id && strncmp(holder, run_id, RUN_MAX - 1) == 0))
        return 0;
    return refuse(dir, holder, err);
}

int dt_ckpt_claim_again(const char *dir, const char *run_id, int *claim, struct dt_err *err)
{
    char path[PATH_MAX];
    struct stat held, there;
    int fresh;
    if (*claim < 0)
        return 0;
    if (dt_ckpt_join_path(path, dir, LOCK, err) < 0)
        return -1;
    if (fstat(*claim, &held) == 0 && stat(path, &there) == 0 && held.st_dev == there.st_dev &&
        held.st_ino == there.st_ino)
        return 0;
    if (dt_fs_mkdir_p(dir, 0777, err) < 0 || dt_ckpt_claim(dir, run_id, &fresh, err) < 0)
        return -1;
    close(*claim);
    *claim = fresh;
    return 0;
}
