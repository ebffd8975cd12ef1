/* SPDX-License-Identifier: Apache-2.0 */
/* A depot gets the folder as it is on disk, so that whoever copies it back by other means has a
 * checkpoint. */
#include "worker_runtime/ckpt/upload/send.h"

#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/ckpt/upload/fetch.h"
#include "worker_runtime/ckpt/upload/shelf.h"

#include "base/crc32c.h"
#include "base/fs.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define LOOK_EVERY_NS 20000000

/* Where the file NAME of a checkpoint's FOLDER is, and what it is called in the depot. */
static int join(char path[PATH_MAX], char key[DT_KEY_MAX], const char *folder, const char *name,
                struct dt_err *err)
{
    if (dt_ckpt_join_path(path, folder, name, err) < 0)
        return -1;
    snprintf(key, DT_KEY_MAX, "%s/%s", strrchr(folder, '/') + 1, name);
    return 0;
}

/* -- a share ---------------------------------------------------------------------------------- */

static int add(struct dt_depot_batch *b, const char *folder, const char *name, const uint32_t *crc,
               struct dt_err *err)
{
    char path[PATH_MAX], key[DT_KEY_MAX];
    if (join(path, key, folder, name, err) < 0)
        return -1;
    return dt_depot_batch_add(b, path, key, crc, err);
}

/* Of the whole file, from those of its blocks. */
static uint32_t crc_of(const struct dt_manifest *m, int f)
{
    const struct dt_ckpt_sums *s = &m->files[f];
    uint32_t crc = 0;
    uint64_t left = s->bytes;
    for (size_t i = 0; i < s->blocks; i++) {
        uint64_t n = left < m->block_bytes ? left : m->block_bytes;
        crc = dt_crc32c_combine(crc, s->crc[i], n);
        left -= n;
    }
    return crc;
}

static int add_files(const struct dt_send *s, const char *folder, const struct dt_manifest *m,
                     struct dt_depot_batch *b, struct dt_err *err)
{
    uint64_t bytes[DT_CKPT_FILES];
    bool mine[DT_CKPT_FILES];
    for (int f = 0; f < DT_CKPT_FILES; f++)
        bytes[f] = m->files[f].bytes;
    if (dt_share_split(&s->ranks, bytes, DT_CKPT_FILES, mine, err) < 0)
        return -1;
    for (int f = 0; f < DT_CKPT_FILES; f++) {
        uint32_t crc = crc_of(m, f);
        if (mine[f] && bytes[f] && add(b, folder, dt_manifest_file_name(m, f), &crc, err) < 0)
            return -1;
    }
    return 0;
}

/* One that state.json knows, or is that itself. */
static bool is_listed(const struct dt_manifest *m, const char *name)
{
    for (int f = 0; f < DT_CKPT_FILES; f++)
        if (strcmp(name, dt_manifest_file_name(m, f)) == 0)
            return true;
    return strcmp(name, DT_CKPT_STATE) == 0;
}

/* The tokenizer and the like. */
static int add_companions(const char *folder, const struct dt_manifest *m, struct dt_depot_batch *b,
                          struct dt_err *err)
{
    int rc = 0;
    DIR *d = opendir(folder);
    if (!d)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot look into %s", folder);
    for (struct dirent *e; rc == 0 && (e = dt_fs_next_entry(d));) {
        char path[PATH_MAX];
        struct stat st;
        if (e->d_name[0] == '.' || is_listed(m, e->d_name) ||
            dt_ckpt_join_path(path, folder, e->d_name, NULL) < 0 || lstat(path, &st) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        rc = add(b, folder, e->d_name, NULL, err);
    }
    if (rc == 0 && errno)
        rc = dt_err_errno(err, DT_E_RUNTIME, errno, "cannot read all names in %s", folder);
    closedir(d);
    return rc;
}

/* What the depot has under the name of this checkpoint. */
enum there { NOTHING, THE_SAME, ANOTHER, UNKNOWN };

static enum there look(const struct dt_send *s, const char *folder, struct dt_err *err)
{
    char path[PATH_MAX], key[64];
    struct dt_buf here = {0}, there = {0};
    struct dt_transfer *t = dt_depot_transfer(s->depot);
    enum there what = NOTHING;
    int rc = dt_ckpt_join_path(path, folder, DT_CKPT_STATE, err);
    snprintf(key, sizeof key, "step-%08" PRId64 "/" DT_CKPT_STATE, s->step);
    if (rc == 0 && t)
        rc = dt_transfer_get_bytes(t, key, DT_MANIFEST_MAX, &there, err);
    if (rc > 0) {
        rc = dt_fs_read(path, DT_MANIFEST_MAX, &here, err);
        bool same = here.len == there.len && memcmp(here.at, there.at, here.len) == 0;
        what = same ? THE_SAME : ANOTHER;
    }
    dt_buf_finish(&here);
    dt_buf_finish(&there);
    return rc < 0 ? UNKNOWN : what;
}

/* Of a run that went back and came here again: it is no checkpoint any more from the moment on at
 * which its files begin to be replaced. Ranks do not wait for each other, so each makes sure. */
static int unseal(const struct dt_send *s, struct dt_err *err)
{
    char key[64];
    snprintf(key, sizeof key, "step-%08" PRId64 "/" DT_CKPT_STATE, s->step);
    return dt_transfer_delete(dt_depot_transfer(s->depot), key, err);
}

/* Before each share, on each rank: the store may not have answered when the run began, and ranks do
 * not wait for each other before they replace files. */
static int refuse_others(const struct dt_send *s, struct dt_err *err)
{
    struct dt_shelf shelf;
    if (!s->anew || !dt_depot_transfer(s->depot))
        return 0;
    if (dt_shelf_look(s->depot, NULL, &shelf, err) < 0)
        return -1;
    int rc = dt_shelf_refuse_others(s->depot, dt_shelf_next(&shelf, -1), s->job_mark, err);
    dt_shelf_finish(&shelf);
    return rc;
}

static int send_all(const struct dt_send *s, const char *folder, const struct dt_manifest *m,
                    struct dt_err *err)
{
    struct dt_depot_batch b = {0};
    int rc = s->ranks.rank == 0 ? add_companions(folder, m, &b, err) : 0;
    if (rc == 0)
        rc = add_files(s, folder, m, &b, err);
    if (rc == 0)
        rc = dt_depot_put_all(s->depot, &b, err);
    dt_depot_batch_finish(&b);
    return rc;
}

/* A world that follows another does not know what that one has sent already. */
int dt_send_share(void *send, struct dt_err *err)
{
    const struct dt_send *s = send;
    struct dt_manifest m;
    char folder[PATH_MAX];
    dt_ckpt_step_path(s->dir, s->step, folder);
    if (refuse_others(s, err) < 0)
        return -1;
    enum there there = look(s, folder, err);
    if (there == UNKNOWN)
        return -1;
    if (there == THE_SAME)
        return 0;
    if (there == ANOTHER && unseal(s, err) < 0)
        return -1;
    if (dt_ckpt_look(folder, &m, NULL, err) < 0)
        return -1;
    int rc = send_all(s, folder, &m, err);
    dt_manifest_finish(&m);
    return rc;
}

/* -- the end ---------------------------------------------------------------------------------- */

/* As for a commit: a world that has a successor must not seal beside it. */
static int await_leave(const struct dt_send *s, struct dt_err *err)
{
    const struct timespec nap = {.tv_nsec = LOOK_EVERY_NS};
    enum dt_ckpt_leave leave = DT_CKPT_MAY;
    while (s->may_commit && (leave = s->may_commit(s->may_commit_arg)) == DT_CKPT_MAY_LATER) {
        if (atomic_load(s->stop))
            return dt_err_set(err, DT_E_CANCELED, "dtrun does not hear of the rendezvous");
        nanosleep(&nap, NULL);
    }
    if (leave == DT_CKPT_MAY_NEVER)
        return dt_err_set(err, DT_E_CANCELED, "the round of this world is over");
    return 0;
}

static int seal(const struct dt_send *s, const char *folder, struct dt_err *err)
{
    char path[PATH_MAX], key[DT_KEY_MAX];
    if (join(path, key, folder, DT_CKPT_STATE, err) < 0)
        return -1;
    return dt_depot_put(s->depot, path, key, err);
}

static int point_latest(const struct dt_send *s, struct dt_err *err)
{
    char text[40];
    struct dt_transfer *t = dt_depot_transfer(s->depot);
    snprintf(text, sizeof text, "step-%08" PRId64 "\n", s->step);
    return t && s->step == s->newest ? dt_transfer_put_bytes(t, "latest", dt_bytes_of(text), err)
                                     : 0;
}

static bool is_on(const struct dt_shelf *shelf, int64_t step)
{
    for (size_t i = 0; i < shelf->count; i++)
        if (shelf->at[i].step == step)
            return shelf->at[i].whole;
    return false;
}

/* state.json goes first: what is left if the rest cannot be removed is no checkpoint. */
static int remove_old(struct dt_send *s, struct dt_err *err)
{
    struct dt_depot_list files;
    struct dt_shelf shelf;
    if (!dt_depot_transfer(s->depot))
        return 0;
    if (dt_shelf_look(s->depot, &files, &shelf, err) < 0)
        return -1;
    int64_t newest = s->newest > s->step ? s->newest : s->step;
    bool wait = s->best > 0 && !is_on(&shelf, s->best);
    int rc = 0;
    for (size_t i = 0; i < shelf.count && rc == 0; i++)
        if ((!shelf.at[i].whole || (shelf.at[i].step != s->best && !wait)) &&
            dt_shelf_is_outdated(&shelf, &shelf.at[i], newest, s->keep_last))
            rc = dt_shelf_remove(s->depot, &files, shelf.at[i].step, err);
    dt_shelf_finish(&shelf);
    dt_depot_list_finish(&files);
    return rc;
}

int dt_send_seal(void *send, struct dt_err *err)
{
    struct dt_send *s = send;
    char folder[PATH_MAX];
    struct dt_err why = {0};
    dt_ckpt_step_path(s->dir, s->step, folder);
    if (await_leave(s, err) < 0 || seal(s, folder, err) < 0 || point_latest(s, err) < 0)
        return -1;
    if (remove_old(s, &why) < 0)
        dt_buf_printf(&s->warnings,
                      "step %" PRId64 " is in %s, but older checkpoints there could not be "
                      "removed: %s\n",
                      s->step, dt_depot_name(s->depot), why.text);
    return 0;
}
