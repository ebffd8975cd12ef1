/* SPDX-License-Identifier: Apache-2.0 */
/* A folder as a place for objects: a file for each, its key the path. What stands above a file is
 * made and removed with it, so that a folder has the same listing as a bucket. */
#include "base/auto.h"
#include "base/fs.h"
#include "base/transfer/inside.h"
#include "base/transfer/pause.h"
#include "base/transfer/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP ((size_t)1 << 20) /* bytes between looks at the flag and the limit */
#define DEPTH_MAX 64           /* of folders: each costs a listing a descriptor */

static int path_of(const struct dt_transfer *t, const char *key, char path[PATH_MAX],
                   struct dt_err *err)
{
    size_t root = strlen(t->url.path), n = strlen(key);
    if (root + 1 + n >= PATH_MAX)
        return dt_err_set(err, DT_E_USAGE, "its path is too long");
    memcpy(path, t->url.path, root);
    path[root] = '/';
    memcpy(path + root + 1, key, n + 1);
    return 0;
}

static int make_parents(const char *path, struct dt_err *err)
{
    char folder[PATH_MAX];
    size_t n = (size_t)(strrchr(path, '/') - path);
    memcpy(folder, path, n);
    folder[n] = '\0';
    return dt_fs_mkdir_p(folder, 0777, err);
}

/* After DONE bytes since BEGUN: waits until no more than the limit has passed. */
static int keep_pace(const struct dt_transfer *t, dt_ms begun, uint64_t done, struct dt_err *err)
{
    dt_ms due = t->set.bandwidth ? (dt_ms)((double)done * 1000 / (double)t->set.bandwidth) : 0;
    if (dt_pause(begun + due - dt_clock_monotonic(), t->set.stop) < 0)
        return dt_err_set(err, DT_E_CANCELED, "it was stopped");
    return 0;
}

/* Moves all of FROM into TO by way of STEP bytes. */
static int copy(struct dt_transfer *t, const char *key, const struct dt_source *from,
                struct dt_sink *to, struct dt_err *err)
{
    DT_AUTO_FREE uint8_t *step = malloc(STEP);
    dt_ms begun = dt_clock_monotonic();
    if (!step)
        return dt_err_set(err, DT_E_MEMORY, "no memory to copy it");
    for (uint64_t at = 0; at < from->len;) {
        size_t n = from->len - at < STEP ? (size_t)(from->len - at) : STEP;
        if (keep_pace(t, begun, at, err) < 0 || dt_source_read(from, at, step, n, err) < 0 ||
            dt_sink_take(to, (struct dt_bytes){step, n}, err) < 0)
            return -1;
        at += n;
        dt_transfer_tell(t, key, at, from->len);
    }
    return dt_transfer_is_stopped(t) ? dt_err_set(err, DT_E_CANCELED, "it was stopped") : 0;
}

static int put(struct dt_transfer *t, const char *key, const struct dt_source *from,
               struct dt_err *err)
{
    char path[PATH_MAX];
    struct dt_whole_file file;
    if (path_of(t, key, path, err) < 0 || make_parents(path, err) < 0 ||
        dt_whole_file_begin(&file, path, err) < 0)
        return -1;
    struct dt_sink to = {.kind = DT_SINK_FILE, .fd = file.fd, .total = from->len};
    int rc = copy(t, key, from, &to, err);
    if (rc == 0)
        rc = dt_source_check(from, to.crc, err);
    if (rc == 0)
        rc = dt_whole_file_commit(&file, err);
    dt_whole_file_finish(&file);
    return rc;
}

/* 1: *FD and *ST are those of the object; 0: there is none. */
static int open_object(const struct dt_transfer *t, const char *key, int *fd, struct stat *st,
                       struct dt_err *err)
{
    char path[PATH_MAX];
    if (path_of(t, key, path, err) < 0)
        return -1;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (*fd < 0 || fstat(*fd, st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open it");
    return S_ISREG(st->st_mode);
}

static int get(struct dt_transfer *t, const char *key, struct dt_sink *to, struct dt_err *err)
{
    struct stat st;
    DT_AUTO_FD fd = -1;
    int rc = open_object(t, key, &fd, &st, err);
    if (rc <= 0)
        return rc;
    uint64_t size = (uint64_t)st.st_size, left = size > to->from ? size - to->from : 0;
    struct dt_source from = {.fd = fd, .from = to->from, .len = left};
    if (to->kind == DT_SINK_MEMORY && from.len > to->most)
        from.len = to->most;
    if (dt_sink_expect(to, from.len, err) < 0 || copy(t, key, &from, to, err) < 0)
        return -1;
    return 1;
}

static void describe(struct dt_object *o, const struct stat *st)
{
    o->size = (uint64_t)st->st_size;
    o->changed_us = (int64_t)st->st_mtim.tv_sec * 1000000 + st->st_mtim.tv_nsec / 1000;
}

static int head(struct dt_transfer *t, const char *key, struct dt_object *o, struct dt_err *err)
{
    struct stat st;
    DT_AUTO_FD fd = -1;
    int rc = open_object(t, key, &fd, &st, err);
    if (rc == 1)
        describe(o, &st);
    return rc;
}

/* The folders above it go, too, as far as nothing else is in them; the place itself stays. */
static int delete_object(struct dt_transfer *t, const char *key, struct dt_err *err)
{
    char path[PATH_MAX];
    if (path_of(t, key, path, err) < 0)
        return -1;
    if (unlink(path) < 0 && errno != ENOENT && errno != ENOTDIR)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot remove it");
    for (char *slash = strrchr(path, '/'); slash > path + strlen(t->url.path);
         slash = strrchr(path, '/')) {
        *slash = '\0';
        if (rmdir(path) < 0)
            break;
    }
    return 0;
}

/* -- listing ---------------------------------------------------------------------------------- */

struct listing {
    struct dt_transfer *t;
    const char *prefix;
    bool deep;
    dt_transfer_each_fn *each;
    void *arg;
    char key[PATH_MAX]; /* of what is at hand; of a folder it ends in a slash */
};

struct names {
    char **at; /* of a folder with a slash at the end, so that keys come by the order of bytes */
    size_t len, size;
};

static void finish_names(struct names *n)
{
    for (size_t i = 0; i < n->len; i++)
        free(n->at[i]);
    free(n->at);
}

static int add_name(struct names *n, const char *name, bool is_folder, struct dt_err *err)
{
    if (n->len == n->size) {
        size_t size = n->size ? 2 * n->size : 64;
        char **at = reallocarray(n->at, size, sizeof *at);
        if (!at)
            return dt_err_set(err, DT_E_MEMORY, "no memory for a listing");
        n->at = at;
        n->size = size;
    }
    if (asprintf(&n->at[n->len], "%s%s", name, is_folder ? "/" : "") < 0)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a listing");
    n->len++;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(int fd, struct names *n, struct dt_err *err)
{
    int again = fcntl(fd, F_DUPFD_CLOEXEC, 0), rc = 0;
    DIR *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir) {
        dt_err_errno(err, DT_E_RUNTIME, errno, "cannot list it");
        if (again >= 0)
            close(again);
        return -1;
    }
    for (struct dirent *e; rc == 0 && (e = dt_fs_next_entry(dir));) {
        struct stat st;
        if (!dt_url_is_file_key(e->d_name) || dt_whole_file_is_temp(e->d_name) ||
            fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
            rc = add_name(n, e->d_name, S_ISDIR(st.st_mode), err);
    }
    if (rc == 0 && errno)
        rc = dt_err_errno(err, DT_E_RUNTIME, errno, "cannot list all of it");
    closedir(dir);
    if (n->len)
        qsort(n->at, n->len, sizeof *n->at, by_bytes);
    return rc;
}

static int list_folder(struct listing *l, int fd, size_t len, int depth, struct dt_err *err);

/* l->key, of LEN bytes, begins with the prefix or is a part of it. */
static int list_entry(struct listing *l, int fd, size_t len, const char *name, int depth,
                      struct dt_err *err)
{
    struct stat st;
    struct dt_object o = {.key = l->key};
    size_t prefix = strlen(l->prefix);
    bool is_folder = l->key[len - 1] == '/', is_below = len >= prefix;
    if (strncmp(l->key, l->prefix, is_below ? prefix : len) != 0)
        return 0;
    if (is_folder && (l->deep || !is_below || len == prefix)) {
        DT_AUTO_FD inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (inner >= 0)
            return list_folder(l, inner, len, depth + 1, err);
        if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
            return 0; /* it has gone meanwhile, or is another thing now */
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot list %.200s", l->key);
    }
    if (!is_below)
        return 0;
    if (is_folder)
        o.folder = true;
    else if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0; /* it has gone meanwhile */
    else
        describe(&o, &st);
    return l->each(l->arg, &o, err) < 0 ? -1 : 0;
}

static int list_folder(struct listing *l, int fd, size_t len, int depth, struct dt_err *err)
{
    struct names names = {0};
    if (depth > DEPTH_MAX)
        return dt_err_set(err, DT_E_LIMIT, "its folders are more than %d deep", DEPTH_MAX);
    if (dt_transfer_is_stopped(l->t))
        return dt_err_set(err, DT_E_CANCELED, "it was stopped");
    int rc = read_names(fd, &names, err);
    for (size_t i = 0; i < names.len && rc == 0; i++) {
        size_t n = strlen(names.at[i]);
        if (len + n >= sizeof l->key)
            continue;
        memcpy(l->key + len, names.at[i], n + 1);
        rc = list_entry(l, fd, len + n, names.at[i], depth, err);
    }
    finish_names(&names);
    return rc;
}

static int list(struct dt_transfer *t, const char *prefix, bool deep, dt_transfer_each_fn *each,
                void *arg, struct dt_err *err)
{
    struct listing l = {.t = t, .prefix = prefix, .deep = deep, .each = each, .arg = arg};
    DT_AUTO_FD fd = open(t->url.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot list it");
    return list_folder(&l, fd, 0, 0, err);
}

static void close_folder(struct dt_transfer *t)
{
    (void)t;
}

const struct dt_place dt_place_folder = {
    .put = put,
    .get = get,
    .head = head,
    .list = list,
    .remove = delete_object,
    .close = close_folder,
};
