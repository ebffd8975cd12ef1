/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/upload/scan.h"

#include "base/auto.h"
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#define DEPTH_MAX 16
#define FILES_MAX ((size_t)1 << 20)

/* -- files ------------------------------------------------------------------------------------ */

/* BASE: the followed folder; BELOW: from there on, "" for itself. */
static int scan(struct dt_follow_scan *out, const char *base, const char *below, int depth,
                struct dt_err *err);

static int take(struct dt_follow_scan *out, const char *base, char *below, int depth,
                struct dt_err *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (snprintf(path, sizeof path, "%s/%s", base, below) >= (int)sizeof path ||
        lstat(path, &st) < 0)
        return 0; /* gone meanwhile */
    if (S_ISDIR(st.st_mode) && depth == DEPTH_MAX)
        return dt_err_set(err, DT_E_LIMIT, "%s: folders are nested more than %d deep", path,
                          DEPTH_MAX);
    if (S_ISDIR(st.st_mode))
        return scan(out, base, below, depth + 1, err);
    if (!S_ISREG(st.st_mode))
        return 0;
    if (out->count == FILES_MAX)
        return dt_err_set(err, DT_E_LIMIT, "%s holds more than %zu files", base, FILES_MAX);
    struct dt_follow_file f = {
        .path = below,
        .bytes = (uint64_t)st.st_size,
        .inode = st.st_ino,
        .written_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
    };
    return dt_follow_scan_add(out, &f, err);
}

/* In a folder that was put into place hidden files count: torch's checkpoints have ".metadata". */
static bool is_left_out(const char *name, int depth)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return true;
    return dt_follow_is_temporary(depth > 0 && name[0] == '.' ? name + 1 : name);
}

/* An entry of others, such as lost+found, is none of ours. Of an entry that we can look into
 * nothing is left out: it would be called uploaded without it. */
static bool is_passed_over(int why, int depth)
{
    return why == ENOENT || (why == EACCES && depth == 1);
}

static int scan(struct dt_follow_scan *out, const char *base, const char *below, int depth,
                struct dt_err *err)
{
    char path[PATH_MAX], next[PATH_MAX];
    int rc = 0;
    if (snprintf(path, sizeof path, "%s/%s", base, below) >= (int)sizeof path)
        return 0;
    DIR *d = opendir(path);
    if (!d && is_passed_over(errno, depth))
        return 0;
    if (!d)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot look into %s", depth ? path : base);
    for (struct dirent *e; rc == 0 && (e = dt_fs_next_entry(d));) {
        if (is_left_out(e->d_name, depth) ||
            snprintf(next, sizeof next, "%s%s%s", below, *below ? "/" : "", e->d_name) >=
                (int)sizeof next)
            continue;
        rc = take(out, base, next, depth, err);
    }
    if (rc == 0 && errno)
        rc = dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read all names in %s", path);
    closedir(d);
    return rc;
}

int dt_scan_folder(struct dt_follow_scan *out, const char *dir, struct dt_err *err)
{
    *out = (struct dt_follow_scan){0};
    if (scan(out, dir, "", 0, err) < 0) {
        dt_follow_scan_finish(out);
        return -1;
    }
    dt_follow_scan_sort(out);
    return 0;
}

/* -- who writes ------------------------------------------------------------------------------- */

/* From linux/magic.h and the file systems' own sources. */
#define NFS 0x6969
#define SMB2 0xfe534d42
#define CIFS 0xff534d42

/* There a lease is refused whenever the server has not delegated the file to this host, which is
 * its own affair, and no sign of a writer. */
static bool refuses_anyway(int fd)
{
    struct statfs s;
    if (fstatfs(fd, &s) < 0)
        return false;
    unsigned long type = (unsigned long)s.f_type & 0xffffffffUL;
    return type == NFS || type == SMB2 || type == CIFS;
}

/* The kernel gives a lease for reading only where nobody has the file open for writing, or mapped
 * so. On file systems without leases, and for the files of other users, it does not say. */
bool dt_scan_is_written(const char *path)
{
    DT_AUTO_FD fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    if (fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN && !refuses_anyway(fd);
    fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

/* -- whose ------------------------------------------------------------------------------------ */

static bool is_of_a_network(const struct statfs *s)
{
    static const unsigned long network[] = {
        NFS,        /* of each version */
        SMB2,       /* and SMB 3 */
        CIFS,       /* SMB 1 */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x19830326, /* BeeGFS */
        0x00c36400, /* Ceph */
        0x01021997, /* 9P */
        0x65735546, /* FUSE */
        0x7461636f, /* OCFS2 */
        0x01161970, /* GFS2 */
        0xaad7aaea, /* PanFS */
        0x013111a8, /* AFS */
    };
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if (((unsigned long)s->f_type & 0xffffffffUL) == network[i])
            return true;
    return false;
}

bool dt_scan_is_shared(const char *dir)
{
    char path[PATH_MAX];
    struct statfs s;
    if (snprintf(path, sizeof path, "%s", dir) >= (int)sizeof path)
        return false;
    while (statfs(path, &s) < 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return statfs(slash ? "/" : ".", &s) == 0 && is_of_a_network(&s);
        *slash = '\0';
    }
    return is_of_a_network(&s);
}
