/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fs.h"

#include "base/auto.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define READ_STEP ((size_t)64 << 10)
#define TREE_DEPTH_MAX 64 /* of what is removed */

bool dt_fs_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static int read_fd(int fd, const char *path, size_t max, struct dt_buf *out, struct dt_err *err)
{
    size_t got = 0;
    for (;;) {
        uint8_t *to = dt_buf_room(out, READ_STEP);
        if (!to)
            return dt_err_set(err, DT_E_MEMORY, "no memory to read %s", path);
        ssize_t n = read(fd, to, READ_STEP);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read %s", path);
        if (n == 0)
            return 0;
        got += (size_t)n;
        if (got > max)
            return dt_err_set(err, DT_E_LIMIT, "%s is larger than %zu bytes", path, max);
        dt_buf_grew(out, (size_t)n);
    }
}

int dt_fs_read_any(const char *path, size_t max, struct dt_buf *out, struct dt_err *err)
{
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", path);
    return read_fd(fd, path, max, out, err);
}

int dt_fs_read(const char *path, size_t max, struct dt_buf *out, struct dt_err *err)
{
    struct stat st;
    DT_AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open %s", path);
    if (!S_ISREG(st.st_mode))
        return dt_err_set(err, DT_E_RUNTIME, "%s is no ordinary file", path);
    return read_fd(fd, path, max, out, err);
}

/* Whether a folder can be made in the folder PATH; NULL and "" are none. Permissions alone do not
 * tell: the disk may be full, or PATH be a place like /proc. */
static bool takes_folders(const char *path)
{
    char probe[PATH_MAX];
    if (!path || !*path ||
        (size_t)snprintf(probe, sizeof probe, "%s/dtrun_probe_XXXXXX", path) >= sizeof probe)
        return false;
    return mkdtemp(probe) && rmdir(probe) == 0;
}

char *dt_fs_temp_folder(struct dt_err *err)
{
    const char *const folders[] = {
        getenv("TMPDIR"), getenv("TEMP"), getenv("TMP"), "/tmp", "/var/tmp", "/usr/tmp", "."};
    size_t count = sizeof folders / sizeof *folders, i = 0;
    while (i < count && !takes_folders(folders[i]))
        i++;
    if (i == count) {
        dt_err_set(err, DT_E_RUNTIME,
                   "nothing can be written in TMPDIR, /tmp, /var/tmp and the working directory");
        return NULL;
    }
    DT_AUTO_FREE char *here = *folders[i] == '/' ? NULL : getcwd(NULL, 0);
    char *path = NULL;
    if (!here)
        path = strdup(folders[i]);
    else if (asprintf(&path, "%s/%s", here, folders[i]) < 0)
        path = NULL;
    if (!path)
        dt_err_set(err, DT_E_MEMORY, "no memory for the name of a folder");
    return path;
}

static int write_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        bytes += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The folder that PATH stands in. */
static void parent_of(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    memcpy(out, path, n);
    out[n] = '\0';
    if (n == 0)
        strcpy(out, slash ? "/" : ".");
}

/* A rename is on disk only when its folder is. */
static int sync_parent(const char *path)
{
    char dir[PATH_MAX];
    parent_of(path, dir);
    DT_AUTO_FD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

int dt_fs_replace(const char *path, const void *bytes, size_t len, mode_t mode, struct dt_err *err)
{
    char temp[PATH_MAX];
    if ((size_t)snprintf(temp, sizeof temp, "%s.XXXXXX", path) >= sizeof temp)
        return dt_err_set(err, DT_E_RUNTIME, "the path %.60s... is too long", path);
    DT_AUTO_FD fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot make %s", temp);
    if (fchmod(fd, mode) == 0 && write_all(fd, bytes, len) == 0 && fsync(fd) == 0 &&
        rename(temp, path) == 0) {
        if (sync_parent(path) == 0)
            return 0;
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot sync the folder of %s", path);
    }
    int why = errno;
    unlink(temp);
    return dt_err_errno(err, DT_E_RUNTIME, why, "cannot replace %s", path);
}

static int make_one(const char *path, mode_t mode, struct dt_err *err)
{
    struct stat st;
    if (mkdir(path, mode) == 0)
        return 0;
    int why = errno;
    /* Not only EEXIST: on a read-only root, mkdir of a folder that is there says EROFS. */
    if (stat(path, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, why, "cannot make the folder %s", path);
    if (!S_ISDIR(st.st_mode))
        return dt_err_set(err, DT_E_RUNTIME, "%s is there and is no folder", path);
    return 0;
}

int dt_fs_mkdir_p(const char *path, mode_t mode, struct dt_err *err)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part)
        return dt_err_set(err, DT_E_RUNTIME, "\"%.60s\" is no path for a folder", path);
    memcpy(part, path, len + 1);
    for (char *c = part + 1; *c; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        if (make_one(part, mode, err) < 0)
            return -1;
        *c = '/';
    }
    return make_one(part, mode, err);
}

static void fill_standard_fds(int flags)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | flags);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

void dt_fs_fill_standard_fds(void)
{
    fill_standard_fds(0);
}

void dt_fs_reserve_standard_fds(void)
{
    fill_standard_fds(O_CLOEXEC);
}

/* Kernels from 6.3 on may insist on its not being executable, and those before do not know that. */
int dt_fs_make_in_memory(const char *name)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
    return fd < 0 && errno == EINVAL ? memfd_create(name, flags) : fd;
}

struct dirent *dt_fs_next_entry(DIR *dir)
{
    errno = 0;
    return readdir(dir);
}

static int remove_in(int at, const char *name, int depth);

/* What is in the folder FD, which it closes. Links are removed, never followed. */
static int empty_folder(int fd, int depth)
{
    DIR *dir = fdopendir(fd);
    int rc = 0;
    if (!dir) {
        close(fd);
        return -1;
    }
    for (struct dirent *e; rc == 0 && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_in(dirfd(dir), e->d_name, depth + 1);
    int why = errno;
    closedir(dir);
    errno = why;
    return rc;
}

static int remove_in(int at, const char *name, int depth)
{
    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -1;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (depth >= TREE_DEPTH_MAX) {
        close(fd);
        errno = ELOOP;
        return -1;
    }
    if (empty_folder(fd, depth) < 0)
        return -1;
    return unlinkat(at, name, AT_REMOVEDIR);
}

int dt_fs_remove_tree(int at, const char *name)
{
    return remove_in(at, name, 0);
}
