/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/recut.h"

#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/coll/agree.h"

#include <stdlib.h>
#include <string.h>

/* Elements that stand behind each other on both sides, within a unit's shards. */
struct run {
    int owner;         /* who has them in files */
    size_t here, file; /* where in each one's shard of the unit */
    size_t count;
};

/* The runs of one rank in one unit, in the order of its shard: a pure walk, the same on whoever
 * makes it. */
struct walk {
    const struct dt_ckpt_model *m;
    const struct dt_layout_unit *here, *file;
    struct dt_mesh_place place;
    size_t unit, tensor; /* the next one of the unit may be in */
    size_t at, end;      /* what of the unit's part is left */
    bool all;            /* what the first of those who have the same counts for, too */
};

static struct walk walk_of(const struct dt_ckpt_model *m, const struct dt_layout *here,
                           const struct dt_layout *file, size_t unit, int rank, bool all)
{
    struct walk w = {.m = m,
                     .here = &here->unit[unit],
                     .file = &file->unit[unit],
                     .place = dt_mesh_place(&m->recut->mesh, rank),
                     .unit = unit,
                     .all = all};
    size_t index = (size_t)w.place.index[DT_MESH_DP];
    w.at = index * w.here->shard;
    w.end = w.at + w.here->shard < w.here->size ? w.at + w.here->shard : w.here->size;
    return w;
}

/* Skips tensors that end before what is next. */
static const struct dt_tensor *tensor_at(struct walk *w)
{
    const struct dt_tensor *t = w->m->recut->parts;
    while (t[w->tensor].unit != w->unit || t[w->tensor].offset + t[w->tensor].count <= w->at)
        w->tensor++;
    return &t[w->tensor];
}

static bool next_run(struct walk *w, struct run *out)
{
    size_t parts = (size_t)w->m->recut->mesh.size[DT_MESH_TP];
    size_t index = (size_t)w->place.index[DT_MESH_TP];
    while (w->at < w->end) {
        const struct dt_tensor *own = tensor_at(w), *whole = &w->m->tensors[w->tensor];
        struct dt_tensor_part p;
        size_t first = w->at - own->offset, last = own->offset + own->count, count, file;
        dt_shape_part(w->m->shape, whole, parts, index, &p);
        if (p.whole && index > 0 && !w->all) {
            w->at = last;
            continue;
        }
        file = whole->offset + dt_tensor_part_run(whole, &p, first, &count);
        size_t left = w->end - w->at, shard_left = w->file->shard - file % w->file->shard;
        count = count < left ? count : left;
        count = count < shard_left ? count : shard_left;
        *out = (struct run){.owner = (int)(file / w->file->shard),
                            .here = w->at % w->here->shard,
                            .file = file % w->file->shard,
                            .count = count};
        w->at += count;
        return true;
    }
    return false;
}

/* One exchange at a time: of one unit, and one array of its state. */
struct exchange {
    const struct dt_ckpt_model *m;
    const struct dt_zero_state *here, *files;
    bool to_files;
    int rank, world;
    size_t most; /* elements from one rank to another, of any unit */
    float *send, *recv;
};

static struct walk walk(const struct exchange *x, size_t unit, int rank)
{
    return walk_of(x->m, x->here->layout, x->files->layout, unit, rank, !x->to_files);
}

/* Between any two: each rank counts for all, and all come to the same. */
static int count_most(struct exchange *x, struct dt_err *err)
{
    size_t *to = calloc((size_t)x->world, sizeof *to);
    struct run run;
    if (!to)
        return dt_err_set(err, DT_E_MEMORY, "no memory to count for %d ranks", x->world);
    for (size_t unit = 0; unit < x->here->layout->units; unit++) {
        for (int rank = 0; rank < x->world; rank++) {
            memset(to, 0, (size_t)x->world * sizeof *to);
            for (struct walk w = walk(x, unit, rank); next_run(&w, &run);) {
                to[run.owner] += run.count;
                x->most = to[run.owner] > x->most ? to[run.owner] : x->most;
            }
        }
    }
    free(to);
    return 0;
}

/* What this rank has for whom, and who has what for it: each pair's runs in the order of the walk.
 * COPY either way: of the runs of RANK those that OWNER has in files, one behind the other. */
static void copy_runs(const struct exchange *x, size_t unit, int rank, int owner, bool pack,
                      bool in_files, float *shard, float *row)
{
    struct run run;
    for (struct walk w = walk(x, unit, rank); next_run(&w, &run);) {
        float *at = shard + (in_files ? run.file : run.here);
        if (run.owner != owner)
            continue;
        memcpy(pack ? row : at, pack ? at : row, run.count * sizeof *row);
        row += run.count;
    }
}

/* HERE and FILE: the shards of the unit. */
static int swap(const struct exchange *x, size_t unit, float *here, float *file, struct dt_err *err)
{
    for (int peer = 0; peer < x->world; peer++) {
        float *row = x->send + (size_t)peer * x->most;
        if (x->to_files)
            copy_runs(x, unit, x->rank, peer, true, false, here, row);
        else
            copy_runs(x, unit, peer, x->rank, true, true, file, row);
    }
    if (dt_coll_all_to_all(x->m->recut->world, x->send, x->recv, x->most, DT_F32, err) < 0)
        return -1;
    for (int peer = 0; peer < x->world; peer++) {
        float *row = x->recv + (size_t)peer * x->most;
        if (x->to_files)
            copy_runs(x, unit, peer, x->rank, false, true, file, row);
        else
            copy_runs(x, unit, x->rank, peer, false, false, here, row);
    }
    return 0;
}

static int swap_all(const struct exchange *x, struct dt_err *err)
{
    float *const here[] = {x->here->master, x->here->exp_avg, x->here->exp_avg_sq};
    float *const file[] = {x->files->master, x->files->exp_avg, x->files->exp_avg_sq};
    for (size_t unit = 0; unit < x->here->layout->units; unit++)
        for (size_t i = 0; i < sizeof here / sizeof *here; i++)
            if (swap(x, unit, here[i] + x->here->layout->unit[unit].shard_at,
                     file[i] + x->files->layout->unit[unit].shard_at, err) < 0)
                return -1;
    return 0;
}

static int exchange(struct exchange *x, struct dt_err *err)
{
    x->rank = dt_coll_rank(x->m->recut->world);
    x->world = dt_coll_size(x->m->recut->world);
    int rc = count_most(x, err);
    if (rc == 0) {
        x->send = calloc((size_t)x->world * x->most, sizeof *x->send);
        x->recv = calloc((size_t)x->world * x->most, sizeof *x->recv);
        if (!x->send || !x->recv)
            rc = dt_err_set(err, DT_E_MEMORY, "no memory to cut %zu numbers for %d ranks anew",
                            x->most, x->world);
    }
    rc = dt_agree(x->m->recut->world, rc, err);
    if (rc == 0)
        rc = swap_all(x, err);
    free(x->send);
    free(x->recv);
    return rc;
}

int dt_recut_to_files(const struct dt_ckpt_model *m, const struct dt_zero_state *here,
                      const struct dt_zero_state *files, struct dt_err *err)
{
    struct exchange x = {.m = m, .here = here, .files = files, .to_files = true};
    return exchange(&x, err);
}

int dt_recut_from_files(const struct dt_ckpt_model *m, const struct dt_zero_state *files,
                        const struct dt_zero_state *here, struct dt_err *err)
{
    struct exchange x = {.m = m, .here = here, .files = files};
    return exchange(&x, err);
}

size_t dt_recut_place(const struct dt_ckpt_model *m, size_t tensor, size_t at, size_t *count)
{
    struct dt_tensor_part p;
    size_t run;
    if (!m->recut)
        return at;
    struct dt_mesh_place place = dt_mesh_place(&m->recut->mesh, dt_coll_rank(m->recut->world));
    dt_shape_part(m->shape, &m->tensors[tensor], (size_t)m->recut->mesh.size[DT_MESH_TP],
                  (size_t)place.index[DT_MESH_TP], &p);
    size_t there = dt_tensor_part_run(&m->tensors[tensor], &p, at, &run);
    *count = run < *count ? run : *count;
    return there;
}
