/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/upload/fetch.h"

#include "worker_runtime/ckpt/inside.h"

#include "base/auto.h"
#include "base/fs.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define BESIDE_MAX ((uint64_t)256 << 20) /* bytes of a tokenizer's file and its like */

/* -- what is there ---------------------------------------------------------------------------- */

static int look(struct dt_depot *d, struct dt_depot_list *files, struct dt_shelf *s,
                struct dt_err *err)
{
    struct dt_buf latest = {0};
    int rc = dt_transfer_get_bytes(dt_depot_transfer(d), "latest", 64, &latest, err);
    if (rc >= 0)
        rc = dt_shelf_read(s, files, (struct dt_bytes){latest.at, latest.len}, err);
    dt_buf_finish(&latest);
    return rc;
}

int dt_shelf_look(struct dt_depot *d, struct dt_depot_list *files, struct dt_shelf *s,
                  struct dt_err *err)
{
    struct dt_depot_list all;
    if (dt_depot_list(d, "step-", &all, err) < 0) /* what else is there may be much */
        return -1;
    int rc = look(d, &all, s, err);
    if (rc == 0 && files)
        *files = all;
    else
        dt_depot_list_finish(&all);
    return rc;
}

static int get_state(struct dt_depot *d, int64_t step, struct dt_buf *text, struct dt_err *err)
{
    char key[64];
    snprintf(key, sizeof key, "step-%08" PRId64 "/" DT_CKPT_STATE, step);
    return dt_transfer_get_bytes(dt_depot_transfer(d), key, DT_MANIFEST_MAX, text, err);
}

/* 1: this job has made STEP; 0: it has not, or nobody can tell. */
static int is_of_job(struct dt_depot *d, int64_t step, uint64_t job_mark, struct dt_err *err)
{
    struct dt_buf text = {0};
    struct dt_manifest m;
    bool ours = false;
    int rc = job_mark ? get_state(d, step, &text, err) : 0;
    if (rc > 0 && dt_manifest_read(&m, (struct dt_bytes){text.at, text.len}, NULL) == 0) {
        ours = m.state.job_mark == job_mark;
        dt_manifest_finish(&m);
    }
    dt_buf_finish(&text);
    return rc < 0 ? -1 : ours;
}

int dt_shelf_refuse_others(struct dt_depot *d, int64_t newest, uint64_t job_mark,
                           struct dt_err *err)
{
    int ours = newest < 0 ? 1 : is_of_job(d, newest, job_mark, err);
    if (ours)
        return ours < 0 ? -1 : 0;
    return dt_err_set(err, DT_E_RUNTIME,
                      "%s holds checkpoints of another run, up to step %" PRId64
                      "; give this one a place of its own, or remove them with dtrun-train rm",
                      dt_depot_name(d), newest);
}

int dt_shelf_remove(struct dt_depot *d, const struct dt_depot_list *files, int64_t step,
                    struct dt_err *err)
{
    char key[64];
    struct dt_transfer *t = dt_depot_transfer(d);
    snprintf(key, sizeof key, "step-%08" PRId64 "/" DT_CKPT_STATE, step);
    int rc = dt_transfer_delete(t, key, err);
    for (size_t i = 0; i < files->count && rc == 0; i++) {
        int64_t of;
        const char *name;
        if (dt_shelf_key(files->at[i].key, &of, &name) && of == step)
            rc = dt_transfer_delete(t, files->at[i].key, err);
    }
    return rc;
}

/* -- a share ---------------------------------------------------------------------------------- */

/* A name that the next world removes, if this one does not come to it. */
static const char *temporary(const struct dt_fetch *f, char out[PATH_MAX])
{
    snprintf(out, PATH_MAX, "%.*s/.tmp-step-%08" PRId64 "-fetch", PATH_MAX - 64, f->dir, f->step);
    return out;
}

int dt_fetch_prepare(const struct dt_fetch *f, struct dt_err *err)
{
    char temp[PATH_MAX];
    dt_ckpt_remove(temporary(f, temp));
    return dt_fs_mkdir_p(temp, 0777, err);
}

void dt_fetch_give_up(const struct dt_fetch *f)
{
    char temp[PATH_MAX];
    dt_ckpt_remove(temporary(f, temp));
}

static int get(const struct dt_fetch *f, const char *key, struct dt_err *err)
{
    char temp[PATH_MAX], path[PATH_MAX], folder[PATH_MAX];
    if (dt_ckpt_join_path(path, temporary(f, temp), strchr(key, '/') + 1, err) < 0)
        return -1;
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    if (dt_fs_mkdir_p(folder, 0777, err) < 0)
        return -1;
    int rc = dt_transfer_get_file(dt_depot_transfer(f->depot), key, path, err);
    if (rc == 0)
        return dt_err_set(err, DT_E_RUNTIME, "%s is not in %s any more", key,
                          dt_depot_name(f->depot));
    return rc < 0 ? -1 : 0;
}

/* Whether FILE is one of a checkpoint with manifest M: one that it lists, of that size, or one that
 * may stand beside them. Nothing else is taken, whatever else is there. -1: it cannot be right. */
static int is_wanted(const struct dt_manifest *m, const struct dt_depot_file *file,
                     struct dt_err *err)
{
    const char *name = strchr(file->key, '/') + 1;
    for (int i = 0; i < DT_CKPT_FILES; i++) {
        uint64_t bytes = m->files[i].bytes;
        if (!bytes || strcmp(name, dt_manifest_file_name(m, i)) != 0)
            continue;
        if (file->bytes != bytes)
            return dt_err_set(err, DT_E_RUNTIME,
                              "%s has %" PRIu64 " bytes and should have %" PRIu64, file->key,
                              file->bytes, bytes);
        return 1;
    }
    return !strchr(name, '/') && file->bytes <= BESIDE_MAX;
}

static int get_mine(const struct dt_fetch *f, const struct dt_manifest *m,
                    const struct dt_depot_list *files, struct dt_err *err)
{
    DT_AUTO_FREE uint64_t *bytes = calloc(files->count + 1, sizeof *bytes);
    DT_AUTO_FREE bool *mine = calloc(files->count + 1, sizeof *mine);
    if (!bytes || !mine)
        return dt_err_set(err, DT_E_MEMORY, "no memory to fetch %zu files", files->count);
    for (size_t i = 0; i < files->count; i++)
        bytes[i] = files->at[i].bytes;
    int rc = dt_share_split(&f->ranks, bytes, files->count, mine, err);
    for (size_t i = 0; i < files->count && rc == 0; i++) {
        int wanted = mine[i] ? is_wanted(m, &files->at[i], err) : 0;
        rc = wanted > 0 ? get(f, files->at[i].key, err) : wanted;
    }
    return rc;
}

static int read_manifest(const struct dt_fetch *f, const char *prefix, struct dt_manifest *m,
                         struct dt_err *err)
{
    struct dt_buf text = {0};
    int rc = get_state(f->depot, f->step, &text, err) < 0
                 ? -1
                 : dt_manifest_read(m, (struct dt_bytes){text.at, text.len}, err);
    dt_buf_finish(&text);
    return rc < 0 ? dt_err_wrap(err, "%s" DT_CKPT_STATE, prefix) : 0;
}

int dt_fetch_share(void *fetch, struct dt_err *err)
{
    const struct dt_fetch *f = fetch;
    struct dt_depot_list files;
    struct dt_manifest m;
    char prefix[40];
    snprintf(prefix, sizeof prefix, "step-%08" PRId64 "/", f->step);
    if (read_manifest(f, prefix, &m, err) < 0)
        return -1;
    int rc = dt_depot_list(f->depot, prefix, &files, err);
    if (rc == 0) {
        rc = get_mine(f, &m, &files, err);
        dt_depot_list_finish(&files);
    }
    dt_manifest_finish(&m);
    return rc;
}

/* -- the end ---------------------------------------------------------------------------------- */

/* What is not whole and has the name already gives way. */
static int give_name(const struct dt_fetch *f, const char *temp, const char *final,
                     struct dt_err *err)
{
    char gone[PATH_MAX], name[64];
    snprintf(name, sizeof name, DT_CKPT_GONE "%08" PRId64 "-fetch", f->step);
    if (dt_ckpt_join_path(gone, f->dir, name, err) < 0)
        return -1;
    if (rename(final, gone) == 0)
        dt_ckpt_remove(gone);
    if (rename(temp, final) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot rename %s to %s", temp, final);
    return dt_ckpt_sync_folder(f->dir, err);
}

/* Who fetches an old one into a folder that has newer ones wants to see it, and no more. */
static int point_latest(const struct dt_fetch *f, struct dt_err *err)
{
    char path[PATH_MAX], text[40];
    int n = snprintf(text, sizeof text, "step-%08" PRId64 "\n", f->step);
    if (dt_ckpt_latest(f->dir) >= f->step)
        return 0;
    if (dt_ckpt_join_path(path, f->dir, "latest", err) < 0)
        return -1;
    return dt_fs_replace(path, text, (size_t)n, 0644, err);
}

int dt_fetch_settle(void *fetch, struct dt_err *err)
{
    const struct dt_fetch *f = fetch;
    char temp[PATH_MAX], final[PATH_MAX];
    struct dt_ckpt_state s;
    if (dt_ckpt_verify(temporary(f, temp), err) < 0 || dt_ckpt_peek(temp, &s, err) < 0)
        return dt_err_wrap(err, "what was fetched from %s", dt_depot_name(f->depot));
    if (s.step != f->step)
        return dt_err_set(err, DT_E_RUNTIME, "step-%08" PRId64 " of %s holds step %" PRId64,
                          f->step, dt_depot_name(f->depot), s.step);
    if (dt_ckpt_sync_folder(temp, err) < 0 ||
        give_name(f, temp, dt_ckpt_step_path(f->dir, f->step, final), err) < 0)
        return -1;
    return point_latest(f, err);
}

int dt_fetch_alone(struct dt_fetch *f, char path[PATH_MAX], struct dt_err *err)
{
    f->ranks = (struct dt_share_ranks){.world = 1, .hosts = 1};
    dt_ckpt_step_path(f->dir, f->step, path);
    if (dt_fetch_prepare(f, err) == 0 && dt_fetch_share(f, err) == 0 &&
        dt_fetch_settle(f, err) == 0)
        return 0;
    dt_fetch_give_up(f);
    return -1;
}
