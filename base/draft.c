/* SPDX-License-Identifier: Apache-2.0 */
#include "base/draft.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A device or a pipe under that name would be replaced by a file: nobody wants that. */
int dt_draft_open(struct dt_draft *d, const char *path, struct dt_err *err)
{
    struct stat st;
    d->fd = -1;
    d->temp[0] = '\0';
    if ((size_t)snprintf(d->path, sizeof d->path, "%s", path) >= sizeof d->path)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_USAGE, "%s is there and is no ordinary file", path);
    char temp[PATH_MAX];
    if ((size_t)snprintf(temp, sizeof temp, "%s.XXXXXX", path) >= sizeof temp)
        return dt_err_set(err, DT_E_USAGE, "the path %.60s... is too long", path);
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
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    DT_AUTO_FD fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

/* mkostemp() makes files for their owner alone; others may read what anybody could have made. */
static mode_t usual_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

int dt_draft_commit(struct dt_draft *d, struct dt_err *err)
{
    if (fchmod(d->fd, usual_mode()) < 0 || fsync(d->fd) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", d->path);
    if (rename(d->temp, d->path) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot replace %s", d->path);
    d->temp[0] = '\0';
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
