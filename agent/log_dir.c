/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/log_dir.h"

#include "base/auto.h"
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file name has at most 255 bytes; the random end takes nine. */
#define ID_MAX 200
#define DEPTH_MAX 64 /* of what is looked through; our own folders are two deep */

static int no_memory(struct dt_err *err)
{
    return dt_err_set(err, DT_E_MEMORY, "no memory for the folder of the logs");
}

/* RUN_ID as part of a file name: '/' and control characters become '_', a long one is cut, not
 * inside a UTF-8 character. */
static void name_from(const char *run_id, char out[ID_MAX + 1])
{
    size_t n = strnlen(run_id, ID_MAX + 1);
    if (n > ID_MAX)
        for (n = ID_MAX; n > 0 && (run_id[n] & 0xc0) == 0x80; n--)
            ;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)run_id[i];
        out[i] = c < 0x20 || c == 0x7f || c == '/' ? '_' : run_id[i];
    }
    out[n] = '\0';
}

/* BASE/PREFIX_ and eight random characters, for us alone. mkdtemp() has six, torchrun eight. */
static char *make_fresh(const char *base, const char *prefix, struct dt_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char tail[9] = "", *path;
    for (int tries = 0; tries < 100; tries++) {
        uint8_t dice[8];
        if (getrandom(dice, sizeof dice, 0) != sizeof dice)
            continue;
        for (size_t i = 0; i < sizeof dice; i++)
            tail[i] = letters[dice[i] % (sizeof letters - 1)];
        if (asprintf(&path, "%s/%s_%s", base, prefix, tail) < 0) {
            no_memory(err);
            return NULL;
        }
        if (mkdir(path, 0700) == 0)
            return path;
        int why = errno;
        free(path);
        if (why != EEXIST) {
            dt_err_errno(err, DT_E_RUNTIME, why, "cannot make a folder for the logs in %s", base);
            return NULL;
        }
    }
    dt_err_set(err, DT_E_RUNTIME, "no free name for the logs in %s", base);
    return NULL;
}

/* Takes "." and empty steps out of an absolute PATH, and ".." with the step before it. */
static void cut_detours(char *path)
{
    char *out = path;
    size_t n;
    for (const char *at = path; *at; at += n) {
        at += strspn(at, "/");
        n = strcspn(at, "/");
        if (n == 2 && memcmp(at, "..", 2) == 0) {
            while (out > path && *--out != '/')
                ;
        } else if (n > 0 && !(n == 1 && *at == '.')) {
            *out++ = '/';
            memmove(out, at, n);
            out += n;
        }
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
}

static bool is_same_folder(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Workers may change their directory before they write their files. As torchrun writes it, where
 * that is the same place: behind a link ".." is not the folder before it. */
static char *absolute(const char *path)
{
    DT_AUTO_FREE char *here = *path == '/' ? NULL : getcwd(NULL, 0);
    char *joined = NULL;
    if (!here)
        joined = strdup(path);
    else if (asprintf(&joined, "%s/%s", here, path) < 0)
        return NULL;
    char *shorter = joined ? strdup(joined) : NULL;
    if (shorter)
        cut_detours(shorter);
    if (!shorter || !is_same_folder(shorter, joined)) {
        free(shorter);
        return joined;
    }
    free(joined);
    return shorter;
}

static int choose_base(struct dt_log_dir *d, const char *base, struct dt_err *err)
{
    if (base) {
        /* As a person would with mkdir: the umask decides who may look. */
        if (dt_fs_mkdir_p(base, 0777, err) < 0)
            return dt_err_wrap(err, "--log-dir");
        d->base = absolute(base);
        return d->base ? 0 : no_memory(err);
    }
    DT_AUTO_FREE char *tmp = dt_fs_temp_folder(err);
    if (!tmp)
        return dt_err_wrap(err, "no place for a folder of logs; give --log-dir, or "
                                "--log-dir=/dev/null for none");
    DT_AUTO_FREE char *in = absolute(tmp);
    if (!in)
        return no_memory(err);
    d->base = make_fresh(in, "torchelastic", err);
    d->base_is_ours = d->base != NULL;
    return d->base ? 0 : -1;
}

int dt_log_dir_open(struct dt_log_dir *d, const char *base, const char *run_id, struct dt_err *err)
{
    char name[ID_MAX + 1];
    *d = (struct dt_log_dir){0};
    name_from(run_id, name);
    if (choose_base(d, base, err) < 0)
        return -1;
    d->run = make_fresh(d->base, name, err);
    if (d->run)
        return 0;
    if (d->base_is_ours)
        rmdir(d->base);
    dt_log_dir_finish(d);
    return -1;
}

/* attempt_N of an earlier round out of the way: its files are still somebody's evidence. There may
 * have been a round of that number before: a rendezvous that forgot all counts anew. */
static int set_aside(const char *attempt, int round, struct dt_err *err)
{
    char again[16] = "";
    for (int times = 2;; times++) {
        DT_AUTO_FREE char *aside = NULL;
        if (asprintf(&aside, "%s.round_%d%s", attempt, round, again) < 0) {
            aside = NULL;
            return no_memory(err);
        }
        if (rename(attempt, aside) == 0 || errno == ENOENT)
            return 0;
        if (errno != EEXIST && errno != ENOTEMPTY)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot rename %s to %s", attempt, aside);
        snprintf(again, sizeof again, ".%d", times);
    }
}

static int make_folder(const char *path, struct dt_err *err)
{
    if (mkdir(path, 0777) == 0)
        return 0;
    return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make the folder %s", path);
}

int dt_log_dir_begin(struct dt_log_dir *d, int attempt, int round, int nproc, struct dt_err *err)
{
    if (!d->run)
        return 0;
    free(d->attempt);
    if (asprintf(&d->attempt, "%s/attempt_%d", d->run, attempt) < 0) {
        d->attempt = NULL;
        return no_memory(err);
    }
    if (set_aside(d->attempt, d->round, err) < 0 || make_folder(d->attempt, err) < 0)
        return -1;
    d->round = round;
    for (int i = 0; i < nproc; i++) {
        DT_AUTO_FREE char *folder = NULL;
        if (asprintf(&folder, "%s/%d", d->attempt, i) < 0) {
            folder = NULL;
            return no_memory(err);
        }
        if (make_folder(folder, err) < 0)
            return -1;
    }
    return 0;
}

char *dt_log_dir_file(const struct dt_log_dir *d, int local_rank, const char *name)
{
    char *path;
    if (!d->attempt || asprintf(&path, "%s/%d/%s", d->attempt, local_rank, name) < 0)
        return NULL;
    return path;
}

int dt_log_dir_keep(struct dt_log_dir *d, const struct dt_log_limits *limits, struct dt_err *err)
{
    int mark = dt_log_runs_mark(d->run, err);
    if (mark < 0)
        return -1;
    d->mark = mark;
    dt_log_runs_tidy_aside(d->base, limits);
    return dt_log_runs_link(d->base, d->run, err);
}

int dt_log_dir_remove(struct dt_log_dir *d, struct dt_err *err)
{
    if (!d->run)
        return 0;
    if (d->mark)
        dt_log_runs_unlink(d->base, d->run);
    if (dt_fs_remove_tree(AT_FDCWD, d->run) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot remove all of %s", d->run);
    if (d->base_is_ours && rmdir(d->base) < 0 && errno != ENOTEMPTY && errno != ENOENT)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot remove %s", d->base);
    dt_log_dir_finish(d);
    return 0;
}

/* Whether there is anything but folders and marks of ours in the folder NAME; also when nobody can
 * tell. */
static bool holds_more(int at, const char *name, int depth)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 || depth >= DEPTH_MAX ? NULL : fdopendir(fd);
    bool more = !dir;
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *e; !more && (e = dt_fs_next_entry(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            strcmp(e->d_name, DT_LOG_MARK) != 0)
            more = holds_more(dirfd(dir), e->d_name, depth + 1);
    more = more || errno; /* the disk fails: there may be more */
    if (dir)
        closedir(dir);
    return more;
}

int dt_log_dir_remove_empty(struct dt_log_dir *d, struct dt_err *err)
{
    if (!d->run || !(d->base_is_ours || d->mark) ||
        holds_more(AT_FDCWD, d->base_is_ours ? d->base : d->run, 0))
        return 0;
    return dt_log_dir_remove(d, err);
}

void dt_log_dir_finish(struct dt_log_dir *d)
{
    if (d->mark)
        dt_log_runs_unmark(d->mark);
    free(d->base);
    free(d->run);
    free(d->attempt);
    *d = (struct dt_log_dir){0};
}
