/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/recorders.h"

#include "base/auto.h"
#include "base/fs.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct recorder {
    char *folder, *prefix, *dump, *pipe;
    bool asked; /* the last time */
};

struct dt_recorders {
    int count;
    struct recorder at[];
};

/* -- folders ---------------------------------------------------------------------------------- */

/* Whether pipes can be made in FOLDER: on some file systems on a network they cannot. */
static bool takes_pipes(const char *folder)
{
    DT_AUTO_FREE char *probe = NULL;
    if (asprintf(&probe, "%s/probe", folder) < 0) {
        probe = NULL;
        return false;
    }
    if (mkfifo(probe, 0600) < 0) {
        dt_debug("workers get no pipe for PyTorch's flight recorder: %s: %s", probe,
                 strerror(errno));
        return false;
    }
    unlink(probe);
    return true;
}

static bool name_files(struct recorder *w, int rank)
{
    if (asprintf(&w->prefix, "%s/" DT_RECORDERS_NAME, w->folder) < 0)
        w->prefix = NULL;
    if (asprintf(&w->dump, "%s/" DT_RECORDERS_NAME "%d", w->folder, rank) < 0)
        w->dump = NULL;
    if (asprintf(&w->pipe, "%s/" DT_RECORDERS_NAME "%d.pipe", w->folder, rank) < 0)
        w->pipe = NULL;
    return w->prefix && w->dump && w->pipe;
}

static bool open_one(struct dt_recorders *r, const struct dt_log_dir *logs, int rank)
{
    struct recorder *w = &r->at[r->count];
    w->folder = dt_log_dir_file(logs, r->count, DT_RECORDERS_FOLDER);
    if (!w->folder || mkdir(w->folder, 0700) < 0)
        return false;
    r->count++;
    return name_files(w, rank) && (r->count > 1 || takes_pipes(w->folder));
}

struct dt_recorders *dt_recorders_open(const struct dt_log_dir *logs, int nproc, int first_rank)
{
    struct dt_recorders *r = calloc(1, sizeof *r + (size_t)nproc * sizeof *r->at);
    for (int i = 0; r && i < nproc; i++) {
        if (!open_one(r, logs, first_rank + i)) {
            dt_recorders_close(r);
            r = NULL;
        }
    }
    return r;
}

static void close_one(struct recorder *w)
{
    if (w->pipe)
        unlink(w->pipe);
    rmdir(w->folder); /* fails where there is a dump: it stays */
    free(w->folder);
    free(w->prefix);
    free(w->dump);
    free(w->pipe);
}

void dt_recorders_close(struct dt_recorders *r)
{
    for (int i = 0; r && i < r->count; i++)
        close_one(&r->at[i]);
    free(r);
}

const char *dt_recorders_prefix(const struct dt_recorders *r, int local_rank)
{
    return r ? r->at[local_rank].prefix : NULL;
}

/* -- asking ----------------------------------------------------------------------------------- */

/* Nobody has to read there: opening such a pipe fails instead of waiting, and so does writing to a
 * full one. */
static bool ask_one(const struct recorder *w)
{
    struct stat st;
    DT_AUTO_FD fd = open(w->pipe, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISFIFO(st.st_mode))
        return false;
    unlink(w->dump); /* what is there from now on is the answer */
    return write(fd, "dump\n", 5) == 5;
}

int dt_recorders_ask(struct dt_recorders *r)
{
    int asked = 0;
    for (int i = 0; r && i < r->count; i++) {
        r->at[i].asked = ask_one(&r->at[i]);
        asked += r->at[i].asked;
    }
    return asked;
}

int dt_recorders_silent(const struct dt_recorders *r)
{
    int silent = 0;
    for (int i = 0; r && i < r->count; i++) {
        struct stat st;
        silent += r->at[i].asked && (stat(r->at[i].dump, &st) < 0 || st.st_size == 0);
    }
    return silent;
}

const char *dt_recorders_dump(const struct dt_recorders *r, int local_rank)
{
    return r && r->at[local_rank].asked ? r->at[local_rank].dump : NULL;
}

bool dt_recorders_read(const char *dump, struct dt_flight *f)
{
    struct dt_buf bytes = {0};
    struct dt_err err;
    bool read = false;
    if (dump && dt_fs_exists(dump) && dt_fs_read(dump, DT_FLIGHT_MAX, &bytes, &err) == 0) {
        /* One that is still being written ends early. */
        read = dt_flight_read(f, (struct dt_bytes){bytes.at, bytes.len}, &err) == 0;
        if (!read)
            dt_debug("%s: %s", dump, err.text);
    }
    dt_buf_finish(&bytes);
    return read;
}
