/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/recut.h"

#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/model/lora_cut.h"

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
    const struct dt_tensor *parts; /* of the rank's stage */
    const struct dt_layout_unit *here, *file;
    struct dt_mesh_place place;
    size_t unit, tensor; /* the next one of the unit may be in */
    size_t at, end;      /* what of the unit's part is left */
    bool all;            /* what the first of those who have the same counts for, too */
};

/* Of parts: for each stage, and in it for each of those that share experts. */
static size_t lists(const struct dt_ckpt_model *m)
{
    const struct dt_mesh_shape *mesh = &m->recut->mesh;
    return (size_t)mesh->size[DT_MESH_PP] * (size_t)mesh->size[DT_MESH_EP];
}

static size_t list_of(const struct dt_ckpt_model *m, const struct dt_mesh_place *place)
{
    size_t experts = (size_t)m->recut->mesh.size[DT_MESH_EP];
    return (size_t)place->index[DT_MESH_PP] * experts + (size_t)place->index[DT_MESH_EP];
}

/* STAGES: how each one's shards lie. */
static struct walk walk_of(const struct dt_ckpt_model *m, const struct dt_layout *stages,
                           const struct dt_layout *file, size_t unit, int rank, bool all)
{
    struct dt_mesh_place place = dt_mesh_place(&m->recut->mesh, rank);
    size_t stage = list_of(m, &place);
    struct walk w = {.m = m,
                     .parts = m->recut->parts[stage],
                     .here = &stages[stage].unit[unit],
                     .file = &file->unit[unit],
                     .place = place,
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
    const struct dt_tensor *t = w->parts;
    while (t[w->tensor].unit != w->unit || t[w->tensor].offset + t[w->tensor].count <= w->at)
        w->tensor++;
    return &t[w->tensor];
}

/* An earlier stage has the same: the words, where the head is tied; or an earlier rank of those who
 * share experts, what is no expert. */
static bool is_earlier(const struct walk *w)
{
    bool earlier = false;
    for (size_t i = 0; i < list_of(w->m, &w->place); i++)
        earlier = earlier || w->m->recut->parts[i][w->tensor].count > 0;
    return earlier;
}

static bool next_run(struct walk *w, struct run *out)
{
    size_t parts = (size_t)w->m->recut->mesh.size[DT_MESH_TP];
    size_t index = (size_t)w->place.index[DT_MESH_TP];
    while (w->at < w->end) {
        const struct dt_tensor *own = tensor_at(w), *whole = &w->m->tensors[w->tensor];
        struct dt_tensor_part p;
        size_t first = w->at - own->offset, last = own->offset + own->count, count, file;
        dt_recut_part(w->m, whole, parts, index, &p);
        if (!w->all && (index % p.copies > 0 || is_earlier(w))) {
            w->at = last;
            continue;
        }
        file = dt_tensor_part_run(whole, &p, first, &count);
        if (file == DT_PADDING) {
            w->at = last;
            continue;
        }
        file += whole->offset;
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

/* Of the runs of one rank those that OWNER has in files, one behind the other. */
struct stream {
    struct walk walk;
    struct run run; /* what is left of the one at hand */
    int owner;
};

/* What goes from one rank to another is cut so that all of a rank's together has room in a buffer
 * of so many elements, be units as large as they may: what a save takes beside the snapshot should
 * not grow with the vocabulary. */
#define AT_ONCE ((size_t)1 << 20)
#define LEAST_AT_ONCE ((size_t)1 << 12) /* from one to another */

/* One exchange at a time: of one unit, and one array of its state. */
struct dt_recut_room {
    const struct dt_ckpt_model *m;
    const struct dt_zero_state *here, *files;
    struct dt_layout *stages; /* how each one's shards lie: HERE's as this rank's does */
    bool to_files;
    int rank, world;
    size_t at_once; /* elements from one rank to another */
    float *send, *recv;
    struct stream *out, *in; /* by peer */
    size_t *to;              /* by owner */
};

static struct walk walk(const struct dt_recut_room *x, size_t unit, int rank)
{
    return walk_of(x->m, x->stages, x->files->layout, unit, rank, !x->to_files);
}

/* MINE: of this rank's runs, those that PEER has in files; else the other way around. */
static struct stream stream_of(const struct dt_recut_room *x, size_t unit, int peer, bool mine)
{
    return (struct stream){.walk = walk(x, unit, mine ? x->rank : peer),
                           .owner = mine ? peer : x->rank};
}

static bool has_more(struct stream *s)
{
    while (s->run.count == 0) {
        if (!next_run(&s->walk, &s->run)) {
            s->run.count = 0;
            return false;
        }
        if (s->run.owner != s->owner)
            s->run.count = 0;
    }
    return true;
}

/* The next elements of S, COUNT at most, from a shard into ROW; or else from there. */
static void copy(struct stream *s, bool pack, bool in_files, float *shard, float *row, size_t count)
{
    while (count > 0 && has_more(s)) {
        size_t n = s->run.count < count ? s->run.count : count;
        float *at = shard + (in_files ? s->run.file : s->run.here);
        memcpy(pack ? row : at, pack ? at : row, n * sizeof *row);
        s->run.here += n;
        s->run.file += n;
        s->run.count -= n;
        row += n;
        count -= n;
    }
}

/* Elements of the unit from one rank to another, between any two: each rank counts for all, and all
 * come to the same. */
static size_t count_most(const struct dt_recut_room *x, size_t unit)
{
    struct run run;
    size_t most = 0;
    for (int rank = 0; rank < x->world; rank++) {
        memset(x->to, 0, (size_t)x->world * sizeof *x->to);
        for (struct walk w = walk(x, unit, rank); next_run(&w, &run);) {
            x->to[run.owner] += run.count;
            most = x->to[run.owner] > most ? x->to[run.owner] : most;
        }
    }
    return most;
}

/* HERE and FILE: the shards of the unit. MOST: elements between any two. */
static int swap(const struct dt_recut_room *x, size_t unit, size_t most, float *here, float *file,
                struct dt_err *err)
{
    float *from = x->to_files ? here : file, *to = x->to_files ? file : here;
    for (int peer = 0; peer < x->world; peer++) {
        x->out[peer] = stream_of(x, unit, peer, x->to_files);
        x->in[peer] = stream_of(x, unit, peer, !x->to_files);
    }
    for (size_t done = 0, n = 0; done < most; done += n) {
        n = most - done < x->at_once ? most - done : x->at_once;
        for (int peer = 0; peer < x->world; peer++)
            copy(&x->out[peer], true, !x->to_files, from, x->send + (size_t)peer * n, n);
        if (dt_coll_all_to_all(x->m->recut->world, x->send, x->recv, n, DT_F32, err) < 0)
            return -1;
        for (int peer = 0; peer < x->world; peer++)
            copy(&x->in[peer], false, x->to_files, to, x->recv + (size_t)peer * n, n);
    }
    return 0;
}

static int swap_all(const struct dt_recut_room *x, struct dt_err *err)
{
    float *const here[] = {x->here->master, x->here->exp_avg, x->here->exp_avg_sq};
    float *const file[] = {x->files->master, x->files->exp_avg, x->files->exp_avg_sq};
    for (size_t unit = 0; unit < x->here->layout->units; unit++) {
        size_t most = count_most(x, unit);
        for (size_t i = 0; i < sizeof here / sizeof *here; i++)
            if (swap(x, unit, most, here[i] + x->here->layout->unit[unit].shard_at,
                     file[i] + x->files->layout->unit[unit].shard_at, err) < 0)
                return -1;
    }
    return 0;
}

static int lay_stage(const struct dt_ckpt_model *m, size_t stage, size_t units,
                     struct dt_layout *out, struct dt_err *err)
{
    const struct dt_tensor *parts = m->recut->parts[stage];
    size_t *sizes = calloc(units, sizeof *sizes);
    if (!sizes)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu units", units);
    for (size_t i = 0; i < m->count; i++)
        sizes[parts[i].unit] += parts[i].count;
    int rc = dt_layout_init(out, sizes, units, (size_t)m->recut->mesh.size[DT_MESH_DP], err);
    free(sizes);
    return rc;
}

static int lay_stages(struct dt_recut_room *x, size_t units, struct dt_err *err)
{
    size_t count = lists(x->m);
    x->stages = calloc(count, sizeof *x->stages);
    if (!x->stages)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu stages", count);
    for (size_t i = 0; i < count; i++)
        if (lay_stage(x->m, i, units, &x->stages[i], err) < 0)
            return -1;
    return 0;
}

static int take_memory(struct dt_recut_room *x, struct dt_err *err)
{
    size_t ranks = (size_t)x->world, each = AT_ONCE / ranks;
    x->at_once = each > LEAST_AT_ONCE ? each : LEAST_AT_ONCE;
    x->send = calloc(ranks * x->at_once, sizeof *x->send);
    x->recv = calloc(ranks * x->at_once, sizeof *x->recv);
    x->out = calloc(ranks, sizeof *x->out);
    x->in = calloc(ranks, sizeof *x->in);
    x->to = calloc(ranks, sizeof *x->to);
    if (x->send && x->recv && x->out && x->in && x->to)
        return 0;
    return dt_err_set(err, DT_E_MEMORY, "no memory to cut the model for %d ranks anew", x->world);
}

struct dt_recut_room *dt_recut_room_open(const struct dt_ckpt_model *m, size_t units,
                                         struct dt_err *err)
{
    struct dt_recut_room *x = calloc(1, sizeof *x);
    if (!x) {
        dt_err_set(err, DT_E_MEMORY, "no memory to cut the model anew");
        return NULL;
    }
    *x = (struct dt_recut_room){
        .m = m, .rank = dt_coll_rank(m->recut->world), .world = dt_coll_size(m->recut->world)};
    if (lay_stages(x, units, err) == 0 && take_memory(x, err) == 0)
        return x;
    dt_recut_room_close(x);
    return NULL;
}

void dt_recut_room_close(struct dt_recut_room *x)
{
    if (!x)
        return;
    for (size_t i = 0; x->stages && i < lists(x->m); i++)
        dt_layout_finish(&x->stages[i]);
    free(x->stages);
    free(x->send);
    free(x->recv);
    free(x->out);
    free(x->in);
    free(x->to);
    free(x);
}

int dt_recut_to_files(struct dt_recut_room *x, const struct dt_zero_state *here,
                      const struct dt_zero_state *files, struct dt_err *err)
{
    x->here = here;
    x->files = files;
    x->to_files = true;
    return swap_all(x, err);
}

int dt_recut_from_files(struct dt_recut_room *x, const struct dt_zero_state *files,
                        const struct dt_zero_state *here, struct dt_err *err)
{
    x->here = here;
    x->files = files;
    x->to_files = false;
    return swap_all(x, err);
}

int dt_recut_shard(const struct dt_ckpt_model *m, size_t units, size_t *most, struct dt_err *err)
{
    *most = 0;
    for (size_t i = 0; i < lists(m); i++) {
        struct dt_layout l;
        if (lay_stage(m, i, units, &l, err) < 0)
            return -1;
        *most = l.shard > *most ? l.shard : *most;
        dt_layout_finish(&l);
    }
    return 0;
}

void dt_recut_part(const struct dt_ckpt_model *m, const struct dt_tensor *t, size_t parts,
                   size_t index, struct dt_tensor_part *out)
{
    if (m->lora)
        dt_lora_part(m->lora, m->shape, t, parts, index, out);
    else
        dt_shape_part(m->shape, t, parts, index, out);
}

size_t dt_recut_place(const struct dt_ckpt_model *m, size_t tensor, size_t at, size_t *count)
{
    struct dt_tensor_part p;
    size_t run;
    if (!m->recut)
        return at;
    struct dt_mesh_place place = dt_mesh_place(&m->recut->mesh, dt_coll_rank(m->recut->world));
    dt_recut_part(m, &m->tensors[tensor], (size_t)m->recut->mesh.size[DT_MESH_TP],
                  (size_t)place.index[DT_MESH_TP], &p);
    size_t there = dt_tensor_part_run(&m->tensors[tensor], &p, at, &run);
    *count = run < *count ? run : *count;
    return there;
}
