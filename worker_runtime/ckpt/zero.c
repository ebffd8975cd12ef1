/* SPDX-License-Identifier: Apache-2.0 */
/* Between a dt_zero and the files: all that needs a dt_zero or a group of ranks. */
#include "worker_runtime/ckpt/inside.h"
#include "worker_runtime/ckpt/recut.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/device/device.h"

#include <stdio.h>
#include <string.h>

/* Who saves and loads together. */
static struct dt_coll *group_of(const struct dt_ckpt_model *m, const struct dt_zero *z)
{
    return m->recut ? m->recut->world : dt_zero_group(z);
}

/* -- saving ----------------------------------------------------------------------------------- */

/* This rank's shards, cut as those of the checkpoint. */
static int save_as_cut(struct dt_ckpt *c, struct dt_zero *z, struct dt_err *err)
{
    const struct dt_layout *l = dt_zero_layout(z);
    if (l->payload != c->layout.payload || l->shard != c->layout.shard ||
        l->world != c->layout.world || dt_zero_rank(z) != c->shards.rank)
        return dt_err_set(err, DT_E_RUNTIME, "what is to be saved is not cut as the checkpoint");
    if (dt_zero_save(z, &c->shards, err) < 0)
        return -1;
    c->snapped = dt_zero_device(z);
    return 0;
}

/* This rank's shards as it has them, and what it takes to hand them over. */
static int copy_own(const struct dt_ckpt_model *m, struct dt_zero *z, struct dt_zero_state *here,
                    struct dt_recut_room **room, struct dt_err *err)
{
    struct dt_device *device = dt_zero_device(z);
    *room = NULL;
    if (dt_ckpt_shards_init(here, dt_zero_layout(z), dt_zero_rank(z), NULL, err) < 0 ||
        dt_zero_save(z, here, err) < 0 || device->table->snap_wait(device, err) < 0)
        return -1;
    *room = dt_recut_room_open(m, here->layout->units, err);
    return *room ? 0 : -1;
}

/* GIVEN_UP: one rank or more has no copy of its shards, as all know, and WHY has a code where this
 * one has not. */
enum { LOST = -1, WELL, GIVEN_UP };

static int save_recut(struct dt_ckpt *c, struct dt_zero *z, struct dt_err *why, struct dt_err *err)
{
    const struct dt_ckpt_model *m = &c->o.model;
    struct dt_zero_state here = {.steps = &c->steps};
    struct dt_recut_room *room;
    struct dt_err all;
    int rc = copy_own(m, z, &here, &room, why);
    all = *why;
    if (dt_agree(m->recut->world, rc, &all) == 0) {
        rc = dt_recut_to_files(room, &here, &c->shards, err);
    } else if (dt_agree_is_lost(&all)) {
        if (err)
            *err = all;
        rc = LOST;
    } else {
        rc = GIVEN_UP;
    }
    dt_recut_room_close(room);
    dt_ckpt_shards_finish(&here, NULL);
    c->snapped = NULL;
    return rc;
}

int dt_ckpt_begin(struct dt_ckpt *c, struct dt_zero *z, const struct dt_ckpt_state *s,
                  struct dt_err *err)
{
    struct dt_ckpt_state state = *s;
    struct dt_err why = {0};
    dt_ckpt_settle(c);
    int rc = c->o.model.recut ? save_recut(c, z, &why, err) : save_as_cut(c, z, err);
    state.optimizer_steps = c->steps;
    if (rc == GIVEN_UP)
        return dt_ckpt_start_given_up(c, &state, &why, err);
    return rc < 0 ? -1 : dt_ckpt_start(c, &state, err);
}

/* -- loading ---------------------------------------------------------------------------------- */

/* Shards that are read, until they are a dt_zero's, and whose memory it is. */
struct reading {
    const struct dt_ckpt_model *m;
    struct dt_zero *z;
    struct dt_layout layout; /* of files, where they are cut another way */
    struct dt_zero_state in;
    int64_t steps;
    bool lent;
};

/* The memory of C's snapshots serves until the first one: as much again would be the peak of the
 * whole run. */
static int open_shards(struct reading *r, struct dt_ckpt *c, const struct dt_layout *l, size_t rank,
                       struct dt_err *err)
{
    r->lent = c && c->layout.shard == l->shard;
    if (!r->lent && dt_ckpt_shards_init(&r->in, l, rank, NULL, err) < 0)
        return -1;
    if (r->lent) {
        size_t bytes = l->shard * sizeof(float);
        r->in = *dt_ckpt_shards(c);
        r->in.layout = l;
        r->in.rank = rank;
        memset(r->in.master, 0, bytes); /* padding is 0 */
        memset(r->in.exp_avg, 0, bytes);
        memset(r->in.exp_avg_sq, 0, bytes);
    }
    r->in.steps = &r->steps;
    return 0;
}

static int open_reading(struct reading *r, const struct dt_ckpt_model *m, struct dt_ckpt *c,
                        struct dt_zero *z, struct dt_err *err)
{
    *r = (struct reading){.m = m, .z = z};
    if (!m->recut)
        return open_shards(r, c, dt_zero_layout(z), dt_zero_rank(z), err);
    struct dt_coll *world = m->recut->world;
    if (dt_ckpt_cut(m, (size_t)dt_coll_size(world), &r->layout, err) < 0)
        return -1;
    return open_shards(r, c, &r->layout, (size_t)dt_coll_rank(world), err);
}

static void close_reading(struct reading *r)
{
    if (!r->lent)
        dt_ckpt_shards_finish(&r->in, NULL);
    dt_layout_finish(&r->layout);
}

/* What was read is the dt_zero's. Collective. */
static int load_read(struct reading *r, struct dt_err *err)
{
    struct dt_zero_state here = {.steps = &r->steps};
    struct dt_recut_room *room = NULL;
    if (!r->m->recut)
        return dt_zero_load(r->z, &r->in, err);
    int rc = dt_ckpt_shards_init(&here, dt_zero_layout(r->z), dt_zero_rank(r->z), NULL, err);
    if (rc == 0)
        rc = (room = dt_recut_room_open(r->m, here.layout->units, err)) ? 0 : -1;
    rc = dt_agree(r->m->recut->world, rc, err);
    if (rc == 0)
        rc = dt_recut_from_files(room, &r->in, &here, err);
    if (rc == 0)
        rc = dt_zero_load(r->z, &here, err);
    dt_recut_room_close(room);
    dt_ckpt_shards_finish(&here, NULL);
    return rc;
}

int dt_ckpt_load(const char *path, const struct dt_ckpt_model *m, struct dt_zero *z,
                 struct dt_ckpt *c, struct dt_ckpt_state *s, struct dt_err *err)
{
    struct reading r;
    int rc = open_reading(&r, m, c, z, err);
    if (rc == 0)
        rc = dt_ckpt_read(path, m, &r.in, s, err);
    rc = dt_agree(group_of(m, z), rc, err);
    if (rc == 0)
        rc = load_read(&r, err);
    close_reading(&r);
    return rc;
}

struct filling {
    struct dt_ckpt_weights *weights;
    const struct dt_ckpt_model *model;
    size_t tensor; /* the last one that was asked for: the next is most often behind it */
    int rc;        /* of the first failure */
    struct dt_err *err;
};

static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    struct filling *f = arg;
    const struct dt_tensor *tensors = f->model->tensors;
    while (tensors[f->tensor].unit != unit || tensors[f->tensor].index != param)
        f->tensor = (f->tensor + 1) % f->model->count;
    while (f->rc == 0 && count > 0) {
        size_t run = count, there = dt_recut_place(f->model, f->tensor, first, &run);
        if (there == DT_PADDING)
            memset(out, 0, run * sizeof *out);
        else
            f->rc = dt_ckpt_weights_read(f->weights, f->tensor, there, run, out, f->err);
        first += run;
        count -= run;
        out += run;
    }
}

int dt_ckpt_load_weights(const char *dir, const struct dt_ckpt_model *m, struct dt_zero *z,
                         struct dt_err *err)
{
    struct dt_err why = {0};
    struct filling f = {.model = m, .err = &why};
    f.weights = dt_ckpt_weights_open(dir, m, err);
    int rc = dt_agree(group_of(m, z), f.weights ? 0 : -1, err);
    if (rc == 0)
        rc = dt_zero_fill(z, fill, &f, err);
    if (rc == 0) {
        if (f.rc < 0 && err)
            *err = why;
        rc = dt_agree(group_of(m, z), f.rc, err);
    }
    dt_ckpt_weights_close(f.weights);
    return rc;
}

/* -- resuming --------------------------------------------------------------------------------- */

enum { FOUND, NOTHING, NONE_WHOLE };

/* What a rank says of the one found; the least counts. A checkpoint of another model is no damage
 * that an older one would not have, and where memory is missing nobody knows of damage. */
enum { NO_MEMORY, NOT_OURS, BROKEN, WHOLE };

struct find {
    int32_t answer;
    char path[PATH_MAX];
    struct dt_err why;
};

/* What rank 0 finds, on all. */
static int find_together(struct dt_coll *g, const char *dir, struct find *f, struct dt_buf *warning,
                         struct dt_err *err)
{
    if (dt_coll_rank(g) == 0) {
        char before[PATH_MAX];
        snprintf(before, sizeof before, "%s", f->path);
        int rc = dt_ckpt_find_before(dir, *before ? before : NULL, f->path, sizeof f->path, warning,
                                     &f->why);
        f->answer = rc < 0 ? NONE_WHOLE : *f->path ? FOUND : NOTHING;
    }
    if (dt_coll_broadcast(g, f, sizeof *f, DT_U8, 0, err) < 0)
        return -1;
    return f->answer == NONE_WHOLE ? dt_err_set(err, f->why.code, "%s", f->why.text) : 0;
}

/* This rank's part of it; *WHY is left alone where it is whole. */
static int32_t read_found(const struct find *f, struct reading *r, struct dt_ckpt_state *s,
                          struct dt_err *why)
{
    struct dt_err here = {0};
    if (dt_ckpt_read(f->path, r->m, &r->in, s, &here) == 0)
        return WHOLE;
    *why = here;
    return here.code == DT_E_MEMORY ? NO_MEMORY : here.code == DT_E_USAGE ? NOT_OURS : BROKEN;
}

/* What all say of it, into *ANSWER. -1: what is wrong is with no checkpoint. */
static int read_together(const struct find *f, struct reading *r, struct dt_ckpt_state *s,
                         int32_t *answer, struct dt_err *why, struct dt_buf *warning,
                         struct dt_err *err)
{
    struct dt_coll *g = group_of(r->m, r->z);
    int32_t own = *answer = read_found(f, r, s, why);
    if (dt_coll_all_reduce(g, answer, 1, DT_I32, DT_MIN, err) < 0)
        return -1;
    if (*answer == BROKEN && own == BROKEN && warning)
        dt_buf_printf(warning, "%s\n", why->text);
    if (*answer >= BROKEN)
        return 0;
    return dt_agree(g, own == *answer ? dt_err_set(err, why->code, "%s", why->text) : 0, err);
}

int dt_ckpt_resume(const char *dir, const struct dt_ckpt_model *m, struct dt_zero *z,
                   struct dt_ckpt *c, struct dt_ckpt_state *s, char path[PATH_MAX],
                   struct dt_buf *warning, struct dt_err *err)
{
    struct dt_coll *g = group_of(m, z);
    struct reading r = {0};
    struct find f = {0};
    struct dt_err why = {0}; /* of the last one that could not be read */
    int32_t answer = BROKEN;
    int rc = 0;
    while (rc == 0 && answer == BROKEN) {
        rc = find_together(g, dir, &f, warning, err);
        if (rc < 0 && f.answer == NONE_WHOLE && f.why.code != DT_E_MEMORY && *why.text && err)
            *err = why; /* says more than that there is no other */
        if (rc < 0)
            rc = dt_agree(g, rc, err);
        if (rc < 0 || f.answer == NOTHING)
            break;
        if (!r.m)
            rc = dt_agree(g, open_reading(&r, m, c, z, err), err);
        if (rc == 0)
            rc = read_together(&f, &r, s, &answer, &why, warning, err);
    }
    snprintf(path, PATH_MAX, "%s", rc == 0 ? f.path : "");
    if (rc == 0 && f.answer == FOUND)
        rc = load_read(&r, err);
    close_reading(&r);
    return rc;
}
