/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log_runs.h"

#include "base/auto.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK_TEXT 300
#define DAY 86400
#define DEPTH_MAX 64
#define RUNS_MAX ((size_t)1 << 20)

/* -- which go --------------------------------------------------------------------------------- */

/* One that is alive may have begun in the second in which another ended. */
static int by_time(const void *a, const void *b)
{
    const struct dt_log_run *x = a, *y = b;
    if (x->ended == y->ended)
        return (x->alive < y->alive) - (x->alive > y->alive);
    return (x->ended < y->ended) - (x->ended > y->ended);
}

void dt_log_runs_choose(struct dt_log_run *runs, size_t count, const struct dt_log_limits *limits,
                        int64_t now)
{
    uint64_t size = 0;
    if (count)
        qsort(runs, count, sizeof *runs, by_time);
    for (size_t i = 0; i < count; i++) {
        struct dt_log_run *r = &runs[i];
        bool many = limits->runs && i >= (size_t)limits->runs;
        bool old = limits->days && now - r->ended > (int64_t)limits->days * DAY;
        size = r->size > UINT64_MAX - size ? UINT64_MAX : size + r->size;
        r->goes = !r->alive && (many || old || (limits->size && size > limits->size));
    }
}

/* -- marks ------------------------------------------------------------------------------------ */

/* What a mark of this host's holds. */
static void put_mark(char text[MARK_TEXT])
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(text, MARK_TEXT, "a run of dtrun on %s\n", host);
}

int dt_log_runs_mark(const char *run, struct dt_err *err)
{
    DT_AUTO_FREE char *path = NULL;
    char text[MARK_TEXT];
    if (asprintf(&path, "%s/" DT_LOG_MARK, run) < 0) {
        path = NULL;
        return dt_err_set(err, DT_E_MEMORY, "no memory for the folder of the logs");
    }
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    put_mark(text);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
        write(fd, text, strlen(text)) == (ssize_t)strlen(text))
        return fd;
    dt_err_errno(err, DT_E_RUNTIME, errno, "cannot mark %s as a run's folder", run);
    if (fd >= 0)
        close(fd);
    return -1;
}

/* The lock is that of all processes which have the descriptor from us. A guard may not have left
 * yet, and there is nothing for it to guard any more. */
void dt_log_runs_unmark(int mark)
{
    futimens(mark, NULL);
    flock(mark, LOCK_UN);
    close(mark);
}

/* The locked mark of the run in FOLDER, if nobody else has it locked; -1: there is none of this
 * host, or its run is alive, which *ALIVE tells. */
static int take_mark(int folder, bool *alive, int64_t *touched)
{
    char wanted[MARK_TEXT], text[MARK_TEXT];
    struct stat st;
    int fd = openat(folder, DT_LOG_MARK, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *alive = false;
    if (fd < 0)
        return -1;
    put_mark(wanted);
    ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, text, sizeof text) : -1;
    bool ours = n == (ssize_t)strlen(wanted) && memcmp(text, wanted, (size_t)n) == 0;
    *alive = ours && flock(fd, LOCK_EX | LOCK_NB) < 0; /* also where no locks can be had */
    *touched = ours ? (int64_t)st.st_mtim.tv_sec : 0;
    if (ours && !*alive)
        return fd;
    close(fd);
    errno = ours ? EWOULDBLOCK : ENOENT;
    return -1;
}

/* A guard that was forked meanwhile has the descriptor too, and with that the lock. */
static void give_mark_back(int fd)
{
    flock(fd, LOCK_UN);
    close(fd);
}

/* -- the latest ------------------------------------------------------------------------------- */

int dt_log_runs_link(const char *base, const char *run, struct dt_err *err)
{
    const char *slash = strrchr(run, '/'), *name = slash ? slash + 1 : run;
    DT_AUTO_FREE char *link = NULL, *fresh = NULL;
    struct stat st;
    if (asprintf(&link, "%s/" DT_LOG_LATEST, base) < 0)
        link = NULL;
    if (asprintf(&fresh, "%s/.%s." DT_LOG_LATEST, base, name) < 0)
        fresh = NULL;
    if (!link || !fresh)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the folder of the logs");
    if (lstat(link, &st) == 0 && !S_ISLNK(st.st_mode))
        return dt_err_set(err, DT_E_RUNTIME,
                          "%s is no link to the latest run, so it is left as it is", link);
    if (symlink(name, fresh) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make %s", link);
    if (rename(fresh, link) == 0)
        return 0;
    dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make %s", link);
    unlink(fresh);
    return -1;
}

void dt_log_runs_unlink(const char *base, const char *run)
{
    const char *slash = strrchr(run, '/'), *name = slash ? slash + 1 : run;
    char to[NAME_MAX + 1];
    DT_AUTO_FREE char *link = NULL;
    if (asprintf(&link, "%s/" DT_LOG_LATEST, base) < 0) {
        link = NULL;
        return;
    }
    ssize_t n = readlink(link, to, sizeof to);
    if (n == (ssize_t)strlen(name) && memcmp(to, name, (size_t)n) == 0)
        unlink(link);
}

/* -- looking, and removing -------------------------------------------------------------------- */

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static DIR *open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

/* Of the files in a tree; links are not followed. */
static uint64_t size_of(int at, const char *name, int depth)
{
    struct stat st;
    uint64_t sum = 0;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (!S_ISDIR(st.st_mode))
        return S_ISREG(st.st_mode) ? (uint64_t)st.st_blocks * 512 : 0;
    DIR *dir = depth < DEPTH_MAX ? open_folder(at, name) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (!is_dots(e->d_name))
            sum += size_of(dirfd(dir), e->d_name, depth + 1);
    if (dir)
        closedir(dir);
    return sum;
}

/* Whether NAME in BASE is the folder of a run of this host's. */
static bool read_run(int base, const char *name, bool measure, struct dt_log_run *run)
{
    DIR *dir = open_folder(base, name);
    if (!dir)
        return false;
    *run = (struct dt_log_run){0};
    int fd = take_mark(dirfd(dir), &run->alive, &run->ended);
    closedir(dir);
    if (fd < 0 && !run->alive)
        return false;
    if (fd >= 0)
        give_mark_back(fd);
    snprintf(run->name, sizeof run->name, "%s", name);
    run->size = measure ? size_of(base, name, 0) : 0;
    return true;
}

/* The mark goes last: what is left when this process ends midway is still known as a run's. */
static int remove_run(int base, const char *name)
{
    bool alive;
    int64_t touched;
    int rc = 0;
    DIR *dir = open_folder(base, name);
    DT_AUTO_FD mark = dir ? take_mark(dirfd(dir), &alive, &touched) : -1;
    for (struct dirent *e; mark >= 0 && rc == 0 && (e = readdir(dir));)
        if (!is_dots(e->d_name) && strcmp(e->d_name, DT_LOG_MARK) != 0)
            rc = dt_fs_remove_tree(dirfd(dir), e->d_name);
    if (mark < 0)
        rc = -1;
    if (rc == 0)
        rc = unlinkat(dirfd(dir), DT_LOG_MARK, 0);
    int why = errno;
    if (dir)
        closedir(dir);
    errno = why;
    return rc < 0 ? -1 : unlinkat(base, name, AT_REMOVEDIR);
}

/* All runs in DIR, allocated; NULL: there are none, or there is no memory for them. */
static struct dt_log_run *list_runs(DIR *dir, bool measure, size_t *count)
{
    struct dt_log_run *runs = NULL;
    size_t size = 0;
    *count = 0;
    for (struct dirent *e; *count < RUNS_MAX && (e = readdir(dir));) {
        struct dt_log_run run;
        if (is_dots(e->d_name) || !read_run(dirfd(dir), e->d_name, measure, &run))
            continue;
        if (*count == size) {
            struct dt_log_run *more = realloc(runs, (size ? 2 * size : 16) * sizeof *runs);
            if (!more)
                break;
            runs = more;
            size = size ? 2 * size : 16;
        }
        runs[(*count)++] = run;
    }
    return runs;
}

void dt_log_runs_tidy(const char *base, const struct dt_log_limits *limits, int64_t now)
{
    size_t count = 0;
    DIR *dir = opendir(base);
    if (!dir) {
        dt_warn("--log-dir: %s cannot be looked through: %s", base, strerror(errno));
        return;
    }
    struct dt_log_run *runs = list_runs(dir, limits->size > 0, &count);
    dt_log_runs_choose(runs, count, limits, now);
    for (size_t i = 0; i < count; i++)
        if (runs[i].goes && remove_run(dirfd(dir), runs[i].name) < 0 && errno != EWOULDBLOCK &&
            errno != ENOENT)
            dt_warn("cannot remove all of the old run %s/%s: %s", base, runs[i].name,
                    strerror(errno));
    free(runs);
    closedir(dir);
}

struct tidying {
    struct dt_log_limits limits;
    char base[];
};

static void *tidy(void *arg)
{
    struct tidying *t = arg;
    dt_log_runs_tidy(t->base, &t->limits, dt_clock_wall_us() / 1000000);
    free(t);
    return NULL;
}

void dt_log_runs_tidy_aside(const char *base, const struct dt_log_limits *limits)
{
    struct tidying *t = malloc(sizeof *t + strlen(base) + 1);
    sigset_t all, was;
    pthread_t thread;
    if (!t)
        return;
    t->limits = *limits;
    strcpy(t->base, base);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int rc = pthread_create(&thread, NULL, tidy, t);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (rc == 0)
        pthread_detach(thread);
    else
        free(t);
}
