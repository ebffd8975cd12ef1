/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/inside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"

int dt_ckpt_join_path(char out[PATH_MAX], const char *dir, const char *name, struct dt_err *err)
{
    if (snprintf(out, PATH_MAX, "%s/%s", dir, name) >= PATH_MAX)
        return dt_err_set(err, DT_E_RUNTIME, "the path %.60s... is too long", dir);
    return 0;
}

static int highest_first(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

/* -1 and errno. */
static int read_steps(DIR *d, int64_t **out, size_t *count)
{
    for (struct dirent *e; (e = dt_fs_next_entry(d));) {
        int64_t step;
        if (!dt_ckpt_step_of(e->d_name, &step))
            continue;
        int64_t *more = reallocarray(*out, *count + 1, sizeof **out);
        if (!more)
            return -1;
        *out = more;
        more[(*count)++] = step;
    }
    return errno ? -1 : 0;
}

int dt_ckpt_steps(const char *dir, int64_t **out, size_t *count, struct dt_err *err)
{
    *out = NULL;
    *count = 0;
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT)
        return 0;
    if (!d)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot look into %s", dir);
    if (read_steps(d, out, count) < 0) {
        int why = errno;
        closedir(d);
        free(*out);
        *out = NULL;
        return dt_err_errno(err, why == ENOMEM ? DT_E_MEMORY : DT_E_RUNTIME, why,
                            "cannot read all names in %s", dir);
    }
    closedir(d);
    if (*count)
        qsort(*out, *count, sizeof **out, highest_first);
    return 0;
}

bool dt_ckpt_is_there(const char *dir, int64_t step)
{
    char path[PATH_MAX], state[PATH_MAX];
    return dt_ckpt_join_path(state, dt_ckpt_step_path(dir, step, path), DT_CKPT_STATE, NULL) == 0 &&
           dt_fs_exists(state);
}

/* A link and no file: whoever reads weights from DIR/best finds a folder there. */
int dt_ckpt_point_best(const char *dir, int64_t step, struct dt_err *err)
{
    char path[PATH_MAX], temp[PATH_MAX], name[40];
    if (dt_ckpt_best(dir) == step)
        return 0;
    snprintf(name, sizeof name, DT_CKPT_STEP "%08" PRId64, step);
    if (dt_ckpt_join_path(path, dir, DT_CKPT_BEST, err) < 0 ||
        dt_ckpt_join_path(temp, dir, ".tmp-" DT_CKPT_BEST, err) < 0)
        return -1;
    unlink(temp);
    if (symlink(name, temp) < 0 || rename(temp, path) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make the link %s", path);
    return dt_ckpt_sync_folder(dir, err);
}

int dt_ckpt_sync_folder(const char *path, struct dt_err *err)
{
    DT_AUTO_FD fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot sync the folder %s", path);
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    remove(path);
    return 0;
}

/* What cannot be removed stays: nobody takes it for a checkpoint. */
void dt_ckpt_remove(const char *path)
{
    nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void take_away(const char *dir, const char *name)
{
    char path[PATH_MAX], gone[PATH_MAX];
    if (dt_ckpt_join_path(path, dir, name, NULL) < 0)
        return;
    if (strncmp(name, DT_CKPT_GONE, strlen(DT_CKPT_GONE)) != 0 &&
        snprintf(gone, sizeof gone, "%s/" DT_CKPT_GONE "%s", dir, name) < (int)sizeof gone &&
        rename(path, gone) == 0)
        dt_ckpt_remove(gone);
    else
        dt_ckpt_remove(path);
}

void dt_ckpt_sweep(const char *dir, dt_ckpt_goes_fn goes, const void *arg)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        if (goes(e->d_name, arg))
            take_away(dir, e->d_name);
    }
    closedir(d);
}

static int make_aside(const char *dir, char aside[PATH_MAX], struct dt_err *err)
{
    for (int n = 1;; n++) {
        if (snprintf(aside, PATH_MAX, "%s/earlier-%d", dir, n) >= PATH_MAX)
            return dt_err_set(err, DT_E_RUNTIME, "the path %.60s... is too long", dir);
        if (mkdir(aside, 0777) == 0)
            return 0;
        if (errno != EEXIST)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make the folder %s", aside);
    }
}

static int move_aside(const char *dir, const char *name, const char *aside, struct dt_err *err)
{
    char from[PATH_MAX], to[PATH_MAX];
    if (dt_ckpt_join_path(from, dir, name, err) < 0 || dt_ckpt_join_path(to, aside, name, err) < 0)
        return -1;
    if (rename(from, to) == 0 || errno == ENOENT)
        return 0;
    return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot move %s to %s", from, to);
}

int dt_ckpt_set_aside(const char *dir, char aside[PATH_MAX], struct dt_err *err)
{
    int64_t *steps;
    size_t count;
    *aside = '\0';
    if (dt_ckpt_steps(dir, &steps, &count, err) < 0)
        return -1;
    int rc = 0;
    if (count && (make_aside(dir, aside, err) < 0 || move_aside(dir, "latest", aside, err) < 0 ||
                  move_aside(dir, DT_CKPT_BEST, aside, err) < 0))
        rc = -1;
    for (size_t i = 0; i < count && rc == 0; i++) {
        char name[40];
        snprintf(name, sizeof name, DT_CKPT_STEP "%08" PRId64, steps[i]);
        rc = move_aside(dir, name, aside, err);
    }
    free(steps);
    return rc;
}
