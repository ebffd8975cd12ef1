/* SPDX-License-Identifier: Apache-2.0 */
#include "base/draft.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES_TRIED 100

/* By which a file without a name is given one. */
static const char *link_to(int fd, char room[40])
{
    snprintf(room, 40, "/proc/self/fd/%d", fd);
    return room;
}

static void folder_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(out, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    else
        snprintf(out, PATH_MAX, ".");
}

static bool is_one(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A link is replaced, and not what it leads to. */
bool dt_draft_is_same(const char *one, const char *other)
{
    struct stat a, b;
    char folder[PATH_MAX], others[PATH_MAX];
    if (lstat(one, &a) == 0 && lstat(other, &b) == 0)
        return is_one(&a, &b);
    folder_of(one, folder);
    folder_of(other, others);
    return strcmp(name_of(one), name_of(other)) == 0 && stat(folder, &a) == 0 &&
           stat(others, &b) == 0 && is_one(&a, &b);
}

/* -1: there are no such files here, or they could not be given a name. */
static int open_nameless(const char *path)
{
    char folder[PATH_MAX], room[40];
    folder_of(path, folder);
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && access(link_to(fd, room), F_OK) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A device or a pipe under that name would be replaced by a file: nobody wants that. */
int dt_draft_open(struct dt_draft *d, const char *path, struct dt_err *err)
{
    struct stat st;
    char temp[PATH_MAX];
    d->fd = -1;
    d->temp[0] = '\0';
    if ((size_t)snprintf(d->path, sizeof d->path, "%s", path) >= sizeof d->path ||
        (size_t)snprintf(temp, sizeof temp, "%s.XXXXXX", path) >= sizeof temp)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_USAGE, "%s is there and is no ordinary file", path);
    d->fd = open_nameless(path);
    if (d->fd >= 0)
        return 0;
    d->fd = mkostemp(temp, O_CLOEXEC);
    if (d->fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make a file beside %s", path);
    memcpy(d->temp, temp, sizeof temp);
    return 0;
}

int dt_draft_write(struct dt_draft *d, const void *bytes, size_t len, struct dt_err *err)
{
    const char *at = bytes;
    while (len) {
        ssize_t n = write(d->fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", d->path);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* A rename is on disk when its folder is. */
static int sync_folder(const char *path)
{
    char folder[PATH_MAX];
    folder_of(path, folder);
    DT_AUTO_FD fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

/* Until then it is for its owner alone; others may read what anybody could have made. */
static mode_t usual_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

static int not_named(const struct dt_draft *d, int why, struct dt_err *err)
{
    return dt_err_errno(err, DT_E_RUNTIME, why, "cannot give what was written the name %s",
                        d->path);
}

/* A link replaces no file and a rename does, so a file without a name gets one for that moment
 * where another has the name that it is to have. */
static int name_beside(struct dt_draft *d, struct dt_err *err)
{
    char room[40], temp[PATH_MAX];
    for (int i = 0; i < NAMES_TRIED; i++) {
        uint32_t chance = 0;
        if (getrandom(&chance, sizeof chance, 0) != sizeof chance)
            return not_named(d, errno, err);
        if ((size_t)snprintf(temp, sizeof temp, "%s.%06x", d->path, chance & 0xffffff) >=
            sizeof temp)
            return not_named(d, ENAMETOOLONG, err);
        if (linkat(AT_FDCWD, link_to(d->fd, room), AT_FDCWD, temp, AT_SYMLINK_FOLLOW) == 0) {
            memcpy(d->temp, temp, sizeof temp);
            return 0;
        }
        if (errno != EEXIST)
            return not_named(d, errno, err);
    }
    return not_named(d, EEXIST, err);
}

/* The last step of all. */
static int take_name(struct dt_draft *d, struct dt_err *err)
{
    char room[40];
    if (!d->temp[0]) {
        if (linkat(AT_FDCWD, link_to(d->fd, room), AT_FDCWD, d->path, AT_SYMLINK_FOLLOW) == 0)
            return 0;
        if (errno != EEXIST)
            return not_named(d, errno, err);
        if (name_beside(d, err) < 0)
            return -1;
    }
    if (rename(d->temp, d->path) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot replace %s", d->path);
    d->temp[0] = '\0';
    return 0;
}

int dt_draft_commit(struct dt_draft *d, struct dt_err *err)
{
    if (fchmod(d->fd, usual_mode()) < 0 || fsync(d->fd) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", d->path);
    if (take_name(d, err) < 0)
        return -1;
    if (sync_folder(d->path) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot sync the folder of %s", d->path);
    return 0;
}

void dt_draft_close(struct dt_draft *d)
{
    if (d->fd < 0)
        return;
    close(d->fd);
    d->fd = -1;
    if (d->temp[0])
        unlink(d->temp);
}
