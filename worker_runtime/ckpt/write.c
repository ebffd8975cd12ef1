/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of a save. It works on the snapshot alone; what it shares with the rest is `outcome`,
 * which it sets last, and `stop`, which it reads. */
#include "worker_runtime/ckpt/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/fs.h"
#include "worker_runtime/ckpt/convert.h"
#include "worker_runtime/device/device.h"

#define CHUNK ((uint64_t)8 << 20)
#define CHUNK_ELEMENTS ((size_t)1 << 18)
#define NICE 15 /* the step has the right of way: of a busy processor it gives away 3 % */

struct out {
    struct dt_ckpt *c;
    enum dt_ckpt_file file;
    int fd;
    uint64_t at;
    struct dt_err *err;
};

static const char *name_of(const struct out *o)
{
    return dt_ckpt_file_name(o->c->o.model.lora != NULL, o->file);
}

static int failed(const struct out *o, int errnum)
{
    const char *name = name_of(o);
    if (errnum == ENOSPC || errnum == EDQUOT)
        return dt_err_errno(
            o->err, DT_E_RUNTIME, errnum,
            "the checkpoint of step %lld is given up: cannot write %s/%s; free some "
            "room, or keep fewer checkpoints",
            (long long)o->c->state.step, o->c->o.dir, name);
    return dt_err_errno(o->err, DT_E_RUNTIME, errnum,
                        "the checkpoint of step %lld is given up: cannot write %s in %s",
                        (long long)o->c->state.step, name, o->c->temp);
}

/* Behind what was put last, cut where a block ends. */
static int put(struct out *o, const uint8_t *bytes, size_t len)
{
    uint64_t block = o->c->o.block_bytes;
    while (len) {
        uint64_t n = block - o->at % block;
        if (atomic_load_explicit(&o->c->stop, memory_order_relaxed))
            return dt_err_set(o->err, DT_E_CANCELED, "the save is called off");
        n = n < len ? n : len;
        n = n < CHUNK ? n : CHUNK;
        ssize_t done = pwrite(o->fd, bytes, (size_t)n, (off_t)o->at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return failed(o, done < 0 ? errno : ENOSPC);
        struct dt_bytes written = {bytes, (size_t)done};
        if (dt_ckpt_pieces_add(&o->c->pieces, block, o->file, o->at, written, o->err) < 0)
            return -1;
        o->at += (uint64_t)done;
        bytes += done;
        len -= (size_t)done;
    }
    return 0;
}

static int put_rounded(struct out *o, enum dt_dtype type, const float *v, size_t count)
{
    DT_AUTO_FREE uint8_t *room = malloc(CHUNK_ELEMENTS * sizeof(double));
    if (!room)
        return dt_err_set(o->err, DT_E_MEMORY, "no memory to round parameters");
    while (count) {
        size_t n = count < CHUNK_ELEMENTS ? count : CHUNK_ELEMENTS;
        dt_convert_from_f32(type, v, room, n);
        if (put(o, room, n * dt_dtype_size(type)) < 0)
            return -1;
        v += n;
        count -= n;
    }
    return 0;
}

static const float *source(const struct dt_ckpt *c, enum dt_ckpt_file file)
{
    if (file == DT_FILE_EXP_AVG)
        return c->shards.exp_avg;
    return file == DT_FILE_EXP_AVG_SQ ? c->shards.exp_avg_sq : c->shards.master;
}

/* A checkpoint that nobody can go on from would push out one that somebody can. */
static int check_finite(const struct out *o, const float *v, size_t count)
{
    if (!o->c->o.finite_only)
        return 0;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(v[i]))
            return dt_err_set(o->err, DT_E_RUNTIME,
                              "the checkpoint of step %lld is given up: the model has diverged, %s "
                              "would hold numbers that are not finite",
                              (long long)o->c->state.step, name_of(o));
    return 0;
}

/* This rank's part of a file, and as rank 0 what stands in front. */
static int write_file(struct out *o)
{
    struct dt_ckpt *c = o->c;
    const struct dt_buf *head = &c->head[o->file];
    enum dt_dtype type = o->file == DT_FILE_MODEL ? c->o.model_type : DT_F32;
    const float *from = source(c, o->file);
    struct dt_stretch s;
    if (c->o.rank == 0 && put(o, head->at, head->len) < 0)
        return -1;
    if (o->file == DT_FILE_CONFIG)
        return 0;
    for (size_t i = 0; dt_layout_owned(&c->layout, (size_t)c->o.rank, &i, &s);) {
        const float *v = from + s.shard_at;
        if (check_finite(o, v, s.count) < 0)
            return -1;
        o->at = head->len + s.payload_at * dt_dtype_size(type);
        int rc = type == DT_F32 ? put(o, (const uint8_t *)v, s.count * sizeof *v)
                                : put_rounded(o, type, v, s.count);
        if (rc < 0)
            return -1;
    }
    return 0;
}

/* A full disk is noticed before anything is written. By the system call itself: where a file system
 * has none, the C library's stand-in writes zeros, over what other ranks wrote. */
static int reserve(struct out *o)
{
    off_t size = (off_t)o->c->bytes[o->file];
    if (o->c->o.rank != 0)
        return 0;
    if (fallocate(o->fd, 0, 0, size) == 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != ENOSYS)
        return failed(o, errno);
    return ftruncate(o->fd, size) < 0 ? failed(o, errno) : 0;
}

static int open_file(struct out *o)
{
    char path[PATH_MAX];
    if (dt_ckpt_join_path(path, o->c->temp, name_of(o), o->err) < 0)
        return -1;
    o->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    return o->fd < 0 ? failed(o, errno) : reserve(o);
}

static int write_files(struct out out[DT_CKPT_FILES])
{
    for (int f = 0; f < DT_CKPT_FILES; f++)
        if (out[f].c->bytes[f] && open_file(&out[f]) < 0)
            return -1;
    for (int f = 0; f < DT_CKPT_FILES; f++)
        if (out[f].c->bytes[f] && write_file(&out[f]) < 0)
            return -1;
    for (int f = 0; f < DT_CKPT_FILES; f++)
        if (out[f].c->bytes[f] && fsync(out[f].fd) < 0)
            return failed(&out[f], errno);
    return 0;
}

int dt_ckpt_part_path(const struct dt_ckpt *c, int rank, char out[PATH_MAX], struct dt_err *err)
{
    char name[40];
    snprintf(name, sizeof name, ".part-%d.json", rank);
    return dt_ckpt_join_path(out, c->temp, name, err);
}

static int write_part(struct dt_ckpt *c, struct dt_err *err)
{
    char path[PATH_MAX];
    if (dt_ckpt_part_path(c, c->o.rank, path, err) < 0)
        return -1;
    return dt_ckpt_pieces_write(&c->pieces, path, err);
}

/* Whichever rank is the first makes them, from the top if somebody has removed it all. */
static int make_folders(struct dt_ckpt *c, struct dt_err *err)
{
    char optimizer[PATH_MAX];
    int claim = c->claim;
    if (c->o.rank == 0 && dt_ckpt_claim_again(c->o.dir, c->o.run_id, &c->claim, err) < 0)
        return -1;
    if (c->claim != claim && dt_ckpt_fence_begin_again(c, err) < 0)
        return -1;
    if (dt_ckpt_join_path(optimizer, c->temp, DT_CKPT_OPTIMIZER, err) < 0)
        return -1;
    return dt_fs_mkdir_p(optimizer, 0777, err);
}

static int write_save(struct dt_ckpt *c, struct dt_err *err)
{
    struct out out[DT_CKPT_FILES];
    int rc = 0;
    c->pieces.count = 0;
    if (make_folders(c, err) < 0)
        return -1;
    for (int f = 0; f < DT_CKPT_FILES; f++)
        out[f] = (struct out){.c = c, .file = f, .fd = -1, .err = err};
    rc = write_files(out);
    for (int f = 0; f < DT_CKPT_FILES; f++)
        if (out[f].fd >= 0)
            close(out[f].fd);
    return rc < 0 ? -1 : write_part(c, err);
}

/* Steps go on while a GPU copies. */
static int await_snapshot(struct dt_ckpt *c, struct dt_err *err)
{
    if (!c->snapped || c->snapped->table->snap_wait(c->snapped, err) == 0)
        return 0;
    return dt_err_wrap(err, "the checkpoint of step %lld is given up", (long long)c->state.step);
}

void *dt_ckpt_write(void *ckpt)
{
    struct dt_ckpt *c = ckpt;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    dt_ckpt_sweep_join(&c->sweep);
    int rc = await_snapshot(c, &c->failure);
    if (rc == 0)
        rc = write_save(c, &c->failure);
    atomic_store_explicit(&c->outcome, rc < 0 ? DT_CKPT_FAILED : DT_CKPT_WELL,
                          memory_order_release);
    return NULL;
}
