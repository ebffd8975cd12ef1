/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/journal/folder.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/str.h"
#include "rendezvous/journal/format.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#define JOURNAL "journal"
#define LOCK "journal.lock"
#define NEW "journal.new"
#define DAMAGED "journal.damaged"

#define READ_STEP ((size_t)1 << 20)

int dt_journal_write_at(int fd, const void *bytes, size_t len, uint64_t at)
{
    const uint8_t *from = bytes;
    while (len) {
        ssize_t n = pwrite(fd, from, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        from += n;
        len -= (size_t)n;
        at += (uint64_t)n;
    }
    return 0;
}

static int fail(const struct dt_journal_folder *f, const char *verb, const char *file,
                struct dt_err *err)
{
    if (errno == ELOOP)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%s/%s is a symbolic link, which no server made; remove it", f->name,
                          file);
    return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot %s %s/%s", verb, f->name, file);
}

static int make_file(const struct dt_journal_folder *f, const char *file, int flags)
{
    return openat(f->fd, file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

/* -- the folder ------------------------------------------------------------------------------- */

static int lock(struct dt_journal_folder *f, struct dt_err *err)
{
    f->lock = make_file(f, LOCK, 0);
    if (f->lock < 0)
        return fail(f, "make", LOCK, err);
    if (flock(f->lock, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return fail(f, "lock", LOCK, err);
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s: another server keeps its journal there; stop that one, or give this one "
                      "a folder of its own",
                      f->name);
}

/* What stands there is believed and written to: only who runs this server, or root, may have put it
 * there. */
static int check_owner(const struct dt_journal_folder *f, struct dt_err *err)
{
    struct stat st;
    if (fstat(f->fd, &st) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot look at the folder %s", f->name);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return dt_err_set(err, DT_E_RUNTIME,
                          "%s belongs to user %u, who could change what this server believes; give "
                          "it a folder of its own",
                          f->name, (unsigned)st.st_uid);
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return dt_err_set(err, DT_E_RUNTIME,
                          "other users may write to %s and could change what this server believes; "
                          "`chmod go-w` it, or name a new folder inside it",
                          f->name);
    return 0;
}

/* A folder that was just made is on disk only when the one it stands in is. */
static int sync_parent(const struct dt_journal_folder *f)
{
    DT_AUTO_FD fd = openat(f->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -1 : fsync(fd);
}

int dt_journal_folder_open(struct dt_journal_folder *f, const char *name, struct dt_err *err)
{
    bool made = !dt_fs_exists(name);
    *f = (struct dt_journal_folder){.name = strdup(name), .fd = -1, .lock = -1};
    if (!f->name)
        return dt_err_set(err, DT_E_MEMORY, "%s: no memory for its journal", name);
    if (dt_fs_mkdir_p(name, 0700, err) < 0)
        return -1;
    f->fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->fd < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot open the folder %s", name);
    if (made && sync_parent(f) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot sync the folder of %s", name);
    if (check_owner(f, err) < 0 || lock(f, err) < 0)
        return -1;
    dt_journal_folder_drop_new(f);
    return 0;
}

void dt_journal_folder_close(struct dt_journal_folder *f)
{
    dt_auto_close_fd(&f->lock);
    dt_auto_close_fd(&f->fd);
    free(f->name);
}

/* -- a compacted journal ---------------------------------------------------------------------- */

int dt_journal_folder_begin_new(const struct dt_journal_folder *f, struct dt_err *err)
{
    struct dt_buf header = {0};
    int fd = make_file(f, NEW, O_TRUNC);
    if (fd < 0)
        return fail(f, "make", NEW, err);
    dt_journal_write_header(&header);
    errno = header.bad ? ENOMEM : dt_journal_write_at(fd, header.at, header.len, 0);
    dt_buf_finish(&header);
    if (errno == 0)
        return fd;
    fail(f, "write", NEW, err);
    close(fd);
    return -1;
}

void dt_journal_folder_drop_new(const struct dt_journal_folder *f)
{
    unlinkat(f->fd, NEW, 0);
}

int dt_journal_folder_adopt_new(const struct dt_journal_folder *f)
{
    return renameat(f->fd, NEW, f->fd, JOURNAL) < 0 || fsync(f->fd) < 0 ? errno : 0;
}

/* -- the journal as it is found --------------------------------------------------------------- */

static int read_all(const struct dt_journal_folder *f, int fd, struct dt_buf *out,
                    struct dt_err *err)
{
    for (;;) {
        uint8_t *to = dt_buf_room(out, READ_STEP);
        if (!to)
            return dt_err_set(err, DT_E_MEMORY, "no memory to read %s/" JOURNAL, f->name);
        ssize_t n = pread(fd, to, READ_STEP, (off_t)out->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fail(f, "read", JOURNAL, err);
        if (n == 0)
            return 0;
        dt_buf_grew(out, (size_t)n);
    }
}

/* A journal that nothing was ever put into gets its header. */
static int begin(const struct dt_journal_folder *f, int fd, struct dt_buf *bytes,
                 struct dt_err *err)
{
    dt_buf_clear(bytes);
    dt_journal_write_header(bytes);
    errno = dt_journal_write_at(fd, bytes->at, bytes->len, 0);
    if (errno || fsync(fd) < 0 || fsync(f->fd) < 0)
        return fail(f, "begin", JOURNAL, err);
    return 0;
}

/* Where the last whole record before any damage ends. */
static size_t sound_part(struct dt_bytes file)
{
    size_t end = DT_JOURNAL_HEADER;
    struct dt_journal_record r;
    while (dt_journal_read_record((struct dt_bytes){file.at + end, file.len - end}, &r))
        end += r.size;
    return end;
}

static int save_aside(const struct dt_journal_folder *f, struct dt_bytes rest, struct dt_err *err)
{
    DT_AUTO_FD fd = make_file(f, DAMAGED, O_TRUNC);
    if (fd < 0)
        return fail(f, "make", DAMAGED, err);
    errno = dt_journal_write_at(fd, rest.at, rest.len, 0);
    if (errno || fsync(fd) < 0 || fsync(f->fd) < 0)
        return fail(f, "write", DAMAGED, err);
    return 0;
}

/* Cuts off what is no record. When more stands there than the one record that a crash may leave
 * unfinished, a person may want to look at it. */
static int cut_rest(const struct dt_journal_folder *f, int fd, struct dt_buf *bytes, size_t end,
                    struct dt_err *err)
{
    struct dt_bytes rest = {bytes->at + end, bytes->len - end};
    char size[32];
    if (rest.len == 0)
        return 0;
    bool damaged = dt_journal_holds_record(rest);
    if (damaged && save_aside(f, rest, err) < 0)
        return -1;
    if (ftruncate(fd, (off_t)end) < 0)
        return fail(f, "cut", JOURNAL, err);
    dt_str_from_size(rest.len, size, sizeof size);
    if (damaged)
        dt_warn("%s/" JOURNAL ": damaged at byte %zu; that and all behind it, %s, is left out and "
                "kept in " DAMAGED,
                f->name, end, size);
    else
        dt_warn("%s/" JOURNAL ": cut %s off its end, a record that was not written whole", f->name,
                size);
    bytes->len = end;
    return 0;
}

static int check_header(const struct dt_journal_folder *f, int fd, struct dt_buf *bytes,
                        struct dt_err *err)
{
    uint32_t version;
    switch (dt_journal_read_header((struct dt_bytes){bytes->at, bytes->len}, &version)) {
    case DT_JOURNAL_OURS:
        return 0;
    case DT_JOURNAL_EMPTY:
        return begin(f, fd, bytes, err);
    case DT_JOURNAL_NEWER:
        return dt_err_set(err, DT_E_RUNTIME,
                          "%s/" JOURNAL " is of version %u, and this program knows %d: start the "
                          "newer one that wrote it, or give another folder",
                          f->name, version, DT_JOURNAL_VERSION);
    case DT_JOURNAL_FOREIGN:
        break;
    }
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s/" JOURNAL " does not begin as a journal does; move it away to begin a "
                      "new one, or give another folder",
                      f->name);
}

static int load(const struct dt_journal_folder *f, int fd, struct dt_buf *bytes, uint64_t *cut,
                struct dt_err *err)
{
    if (read_all(f, fd, bytes, err) < 0)
        return -1;
    size_t found = bytes->len;
    if (check_header(f, fd, bytes, err) < 0 ||
        cut_rest(f, fd, bytes, sound_part((struct dt_bytes){bytes->at, bytes->len}), err) < 0)
        return -1;
    *cut = found > bytes->len ? found - bytes->len : 0;
    /* What a killed server wrote may be in memory only; from here on it counts. */
    return fdatasync(fd) < 0 ? fail(f, "sync", JOURNAL, err) : 0;
}

int dt_journal_folder_load(const struct dt_journal_folder *f, struct dt_buf *bytes, uint64_t *cut,
                           struct dt_err *err)
{
    int fd = make_file(f, JOURNAL, 0);
    if (fd < 0)
        return fail(f, "open", JOURNAL, err);
    if (load(f, fd, bytes, cut, err) == 0)
        return fd;
    close(fd);
    return -1;
}
