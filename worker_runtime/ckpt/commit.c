/* SPDX-License-Identifier: Apache-2.0 */
/* From files under a temporary name to a checkpoint. At each point of it a crash leaves the old
 * checkpoint, or the new one as well, and what else is left has a name that the next world removes.
 */
#include "worker_runtime/ckpt/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"

/* What has been taken back, and what a rank made that began with a save when it was over already: a
 * save has the end of the one before behind it on every rank. */
static bool goes(const char *name, const void *arg)
{
    const struct dt_ckpt_sweep *s = arg;
    const char *world = strstr(name, s->world);
    if (strncmp(name, DT_CKPT_GONE, strlen(DT_CKPT_GONE)) == 0)
        return true;
    return strncmp(name, ".tmp-step-", strlen(".tmp-step-")) == 0 && world &&
           strtoul(world + strlen(s->world), NULL, 10) < s->before;
}

static void *sweep(void *arg)
{
    const struct dt_ckpt_sweep *s = arg;
    dt_ckpt_sweep(s->dir, goes, s);
    return NULL;
}

/* Large files take their time to go, so the step does not wait for it. */
static void start_sweep(struct dt_ckpt *c)
{
    dt_ckpt_sweep_join(&c->sweep);
    c->sweep.dir = c->o.dir;
    c->sweep.before = c->saves;
    memcpy(c->sweep.world, c->world, sizeof c->sweep.world);
    c->sweep.running = dt_ckpt_thread(&c->sweep.thread, sweep, &c->sweep) == 0;
}

/* No checkpoint any more, from this moment on. */
static void discard(const struct dt_ckpt *c, const char *path)
{
    char gone[PATH_MAX], name[64];
    const char *base = strrchr(path, '/');
    /* The step and the count of saves: a name that is not there yet. */
    snprintf(name, sizeof name, DT_CKPT_GONE "%u-%.40s", c->saves, base ? base + 1 : path);
    if (dt_ckpt_join_path(gone, c->o.dir, name, NULL) == 0)
        rename(path, gone);
}

static int collect(struct dt_ckpt *c, struct dt_ckpt_pieces *all, struct dt_err *err)
{
    char path[PATH_MAX];
    for (int rank = 0; rank < c->o.world; rank++) {
        if (dt_ckpt_part_path(c, rank, path, err) < 0)
            return -1;
        if (!dt_fs_exists(path))
            return dt_err_set(err, DT_E_RUNTIME,
                              "rank %d's part of the checkpoint is not in %s: all hosts must see "
                              "one and the same folder %s",
                              rank, c->temp, c->o.dir);
        if (dt_ckpt_pieces_read(all, path, err) < 0)
            return -1;
        unlink(path);
    }
    return 0;
}

static int sync_optimizer(const struct dt_ckpt *c, struct dt_err *err)
{
    char path[PATH_MAX];
    if (dt_ckpt_join_path(path, c->temp, DT_CKPT_OPTIMIZER, err) < 0)
        return -1;
    return dt_ckpt_sync_folder(path, err);
}

/* state.json, the last file; with it the folder is on disk. */
static int write_state(struct dt_ckpt *c, struct dt_err *err)
{
    struct dt_manifest m = {.state = c->state,
                            .model_type = c->o.model_type,
                            .block_bytes = c->o.block_bytes,
                            .adapters = c->o.model.lora != NULL};
    struct dt_ckpt_pieces all = {0};
    struct dt_buf text = {0};
    char path[PATH_MAX];
    int rc = dt_ckpt_join_path(path, c->temp, DT_CKPT_STATE, err);
    for (int f = 0; f < DT_CKPT_FILES && rc == 0; f++)
        if (c->bytes[f])
            rc = dt_manifest_size(&m, f, c->bytes[f], err);
    if (rc == 0 &&
        (collect(c, &all, err) < 0 || dt_ckpt_pieces_join(&all, &m, err) < 0 ||
         sync_optimizer(c, err) < 0 || dt_companions_write(&c->companions, c->temp, err) < 0))
        rc = -1;
    if (rc == 0) {
        dt_manifest_write(&m, &text);
        rc = text.bad ? dt_err_set(err, DT_E_MEMORY, "no memory for %s", path)
                      : dt_fs_replace(path, text.at, text.len, 0644, err);
    }
    dt_buf_finish(&text);
    free(all.v);
    dt_manifest_finish(&m);
    return rc;
}

static int not_renamed(struct dt_ckpt *c, const char *from, const char *to, struct dt_err *err)
{
    int why = errno;
    if (why == ENOENT && dt_ckpt_fence_check(c, err) < 0)
        return -1;
    return dt_err_errno(err, DT_E_RUNTIME, why, "cannot rename %s to %s", from, to);
}

/* The folder's final name. Where a folder has it already (a run that went back, and came here
 * again) the two change places, and *OLD says so. */
static int give_name(struct dt_ckpt *c, const char *final, bool *old, struct dt_err *err)
{
    *old = false;
    if (renameat2(AT_FDCWD, c->temp, AT_FDCWD, final, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno == EEXIST) {
        *old = true;
        if (renameat2(AT_FDCWD, c->temp, AT_FDCWD, final, RENAME_EXCHANGE) == 0)
            return 0;
    }
    if (errno == EINVAL || errno == ENOSYS) { /* a file system that knows neither */
        *old = false;
        if (dt_fs_exists(final) && dt_fs_exists(c->temp))
            discard(c, final);
        if (rename(c->temp, final) == 0)
            return 0;
    }
    return not_renamed(c, c->temp, final, err);
}

static void take_name_back(struct dt_ckpt *c, const char *final, bool old)
{
    renameat2(AT_FDCWD, final, AT_FDCWD, c->temp, old ? RENAME_EXCHANGE : 0);
}

/* A disk may take seconds to sync, in which the round can end: so that is asked again, last. The
 * temporary name is this world's alone: nobody else's rename takes it. */
static int point_latest(struct dt_ckpt *c, struct dt_err *err)
{
    char path[PATH_MAX], temp[PATH_MAX], name[64], text[40];
    int n = snprintf(text, sizeof text, "step-%08" PRId64 "\n", c->state.step);
    snprintf(name, sizeof name, ".tmp-latest%s%u", c->world, c->saves);
    if (dt_ckpt_sync_folder(c->o.dir, err) < 0 ||
        dt_ckpt_join_path(temp, c->o.dir, name, err) < 0 ||
        dt_ckpt_join_path(path, c->o.dir, "latest", err) < 0 ||
        dt_fs_replace(temp, text, (size_t)n, 0644, err) < 0)
        return -1;
    int rc = dt_ckpt_fence_pass(c, err);
    if (rc == 0 && rename(temp, path) < 0)
        rc = not_renamed(c, temp, path, err);
    if (rc < 0) {
        unlink(temp);
        return -1;
    }
    return dt_ckpt_sync_folder(c->o.dir, err);
}

/* A file system without links costs the link alone. */
static void note_best(const struct dt_ckpt *c)
{
    if (c->o.keep_best && c->state.best.step == c->state.step && c->state.step > 0)
        dt_ckpt_point_best(c->o.dir, c->state.step, NULL);
}

/* Folders of higher steps are of a run that was gone back from: not ours to count. */
static void prune(const struct dt_ckpt *c)
{
    int64_t *steps, latest = dt_ckpt_latest(c->o.dir), best = dt_ckpt_best(c->o.dir);
    size_t count;
    int kept = 0;
    if (c->o.keep_last <= 0 || dt_ckpt_steps(c->o.dir, &steps, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        char path[PATH_MAX];
        if (steps[i] > c->state.step || steps[i] == atomic_load(&c->pinned))
            continue;
        bool named = steps[i] == latest || steps[i] == best ||
                     (c->o.keep_best && steps[i] == c->state.best.step);
        if (kept++ >= c->o.keep_last && !named)
            discard(c, dt_ckpt_step_path(c->o.dir, steps[i], path));
    }
    free(steps);
}

void dt_ckpt_pin(struct dt_ckpt *c, int64_t step)
{
    atomic_store(&c->pinned, step);
}

static int finish(struct dt_ckpt *c, struct dt_err *err)
{
    char final[PATH_MAX];
    bool old;
    if (write_state(c, err) < 0) {
        dt_ckpt_fence_check(c, err); /* a later world that has taken the files away is the reason */
        return -1;
    }
    if (dt_ckpt_fence_pass(c, err) < 0)
        return -1;
    dt_ckpt_step_path(c->o.dir, c->state.step, final);
    if (give_name(c, final, &old, err) < 0)
        return -1;
    if (point_latest(c, err) < 0) {
        if (!dt_ckpt_fence_is_lost(c)) /* else the name may be another's by now */
            take_name_back(c, final, old);
        return -1;
    }
    if (old)
        discard(c, c->temp);
    if (dt_ckpt_fence_check(c, NULL) == 0) {
        note_best(c);
        prune(c);
    }
    return 0;
}

static void *commit(void *ckpt)
{
    struct dt_ckpt *c = ckpt;
    int rc = finish(c, &c->failure);
    if (rc < 0)
        discard(c, c->temp);
    atomic_store_explicit(&c->outcome, rc < 0 ? DT_CKPT_FAILED : DT_CKPT_WELL,
                          memory_order_release);
    return NULL;
}

/* Behind a save, however it went. */
static void end(struct dt_ckpt *c)
{
    dt_ckpt_enter(c, DT_CKPT_IDLE);
    if (c->o.rank == 0)
        start_sweep(c);
}

int dt_ckpt_commit_start(struct dt_ckpt *c, bool ok, struct dt_err *err)
{
    if (c->phase != DT_CKPT_WRITING && c->phase != DT_CKPT_WRITTEN)
        return 0;
    if (!ok)
        atomic_store(&c->stop, true);
    dt_ckpt_wait(c);
    atomic_store(&c->hurry, false);
    int rc = ok && dt_ckpt_done(c, err) < 0 ? -1 : 0;
    if (ok && rc == 0 && c->o.rank == 0) {
        atomic_store(&c->outcome, DT_CKPT_BUSY);
        int why = dt_ckpt_thread(&c->thread, commit, c);
        if (why == 0) {
            dt_ckpt_enter(c, DT_CKPT_COMMITTING);
            return 0;
        }
        rc = dt_err_errno(err, DT_E_RUNTIME, why, "cannot start the thread that commits");
    }
    if (c->o.rank == 0)
        discard(c, c->temp);
    end(c);
    return rc;
}

int dt_ckpt_committed(struct dt_ckpt *c, struct dt_err *err)
{
    if (c->phase != DT_CKPT_COMMITTING && c->phase != DT_CKPT_NAMED)
        return 1;
    int outcome = atomic_load_explicit(&c->outcome, memory_order_acquire);
    if (outcome == DT_CKPT_BUSY)
        return 0;
    dt_ckpt_wait(c);
    end(c);
    if (outcome == DT_CKPT_FAILED && err)
        *err = c->failure;
    return outcome == DT_CKPT_FAILED ? -1 : 1;
}

int dt_ckpt_commit(struct dt_ckpt *c, bool ok, struct dt_err *err)
{
    if (dt_ckpt_commit_start(c, ok, err) < 0)
        return -1;
    dt_ckpt_hurry(c);
    dt_ckpt_wait(c);
    return dt_ckpt_committed(c, err) < 0 ? -1 : 0;
}
