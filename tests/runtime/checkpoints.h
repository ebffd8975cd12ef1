/* SPDX-License-Identifier: Apache-2.0 */
/* A world of ranks in one process, each with its own dt_ckpt, over a model of a few hundred
 * parameters whose values follow from the step: what is read is known without a copy. */
#ifndef DT_TESTS_RUNTIME_CHECKPOINTS_H
#define DT_TESTS_RUNTIME_CHECKPOINTS_H

#include "tests/lib/folder.h"
#include "worker_runtime/ckpt/inside.h"

#include <dirent.h>

#define WORLD_MAX 4
#define BLOCK 512 /* bytes: many blocks in small files */

struct model {
    struct dt_shape shape;
    struct dt_tensor *tensors;
    size_t count;
};

static inline struct model model_make(void)
{
    struct dt_err err;
    struct model m = {.shape = {.family = DT_GPT2,
                                .layers = 2,
                                .heads = 2,
                                .kv_heads = 2,
                                .width = 6,
                                .head_dim = 3,
                                .inner = 24,
                                .positions = 5,
                                .vocabulary = 11,
                                .norm_eps = 1e-5f,
                                .init_std = 0.02f,
                                .tied = true}};
    m.count = dt_shape_tensor_count(&m.shape);
    m.tensors = dt_shape_tensors(&m.shape, &err);
    CHECK_OK(m.tensors ? 0 : -1, err);
    return m;
}

static inline struct dt_ckpt_model model_saved(const struct model *m)
{
    return (struct dt_ckpt_model){.shape = &m->shape, .tensors = m->tensors, .count = m->count};
}

struct world {
    struct model model;
    int size;
    char dir[512];
    struct dt_ckpt *rank[WORLD_MAX];
};

static inline void world_open(struct world *w, const char *folder, int size,
                              struct dt_ckpt_options o)
{
    struct dt_err err;
    w->model = model_make();
    w->size = size;
    snprintf(w->dir, sizeof w->dir, "%s", folder);
    o.dir = w->dir;
    o.model = model_saved(&w->model);
    o.world = size;
    o.block_bytes = o.block_bytes ? o.block_bytes : BLOCK;
    for (o.rank = 0; o.rank < size; o.rank++) {
        w->rank[o.rank] = dt_ckpt_open(&o, &err);
        CHECK_OK(w->rank[o.rank] ? 0 : -1, err);
    }
}

static inline void world_close(struct world *w)
{
    for (int r = 0; r < w->size; r++)
        dt_ckpt_close(w->rank[r]);
    free(w->model.tensors);
}

/* Of element I, in master, exp_avg or exp_avg_sq. */
static inline float value_of(int64_t step, int which, size_t i)
{
    return (float)((double)(i + 1) * 1.001 + (double)which * 10000 + (double)step * 0.37);
}

static inline void fill(struct dt_zero_state *s, int64_t step)
{
    float *arrays[] = {s->master, s->exp_avg, s->exp_avg_sq};
    struct dt_stretch p;
    for (size_t i = 0; dt_layout_owned(s->layout, s->rank, &i, &p);)
        for (int a = 0; a < 3; a++)
            for (size_t k = 0; k < p.count; k++)
                arrays[a][p.shard_at + k] = value_of(step, a, p.payload_at + k);
}

/* How many of S's elements are not those of STEP. */
static inline size_t wrong_values(const struct dt_zero_state *s, int64_t step)
{
    float *arrays[] = {s->master, s->exp_avg, s->exp_avg_sq};
    struct dt_stretch p;
    size_t wrong = 0;
    for (size_t i = 0; dt_layout_owned(s->layout, s->rank, &i, &p);)
        for (int a = 0; a < 3; a++)
            for (size_t k = 0; k < p.count; k++) {
                float want = value_of(step, a, p.payload_at + k);
                wrong += memcmp(&arrays[a][p.shard_at + k], &want, sizeof want) != 0;
            }
    return wrong;
}

static inline struct dt_ckpt_state state_of(int64_t step)
{
    struct dt_ckpt_state s = {
        .step = step,
        .tokens = step * 1000,
        .data_position = UINT64_MAX - (uint64_t)step,
        .seed = (uint64_t)1 << 63 | 12345,
        .train_batch = 48,
        .shuffled = -1,
        .packed = 1,
        .optimizer_steps = step - 1,
        .schedule_steps = step - 2,
        .scaler = {.scale = 65536.0 / 3, .hysteresis_left = 2, .iteration = 7, .last_overflow = -1},
        .last_loss = 10.0 / 3,
        .best = {.validated = step, .step = 2, .loss = 10.0 / 7, .worse = 4, .mark = UINT32_MAX},
        .world = 4,
        .stage = 2,
        .run_id = "a \"run\"/with\nall",
        .round = 3,
        .job_mark = UINT64_MAX - 9,
        .micro_steps_count = 3,
        .micro_steps = {4, 5, 3},
        .own_size = 4,
        .own = {0, 255, '"', 1},
    };
    return s;
}

static inline void world_start(struct world *w, int64_t step)
{
    struct dt_ckpt_state s = state_of(step);
    struct dt_err err;
    for (int r = 0; r < w->size; r++) {
        fill(dt_ckpt_shards(w->rank[r]), step);
        CHECK_OK(dt_ckpt_start(w->rank[r], &s, &err), err);
    }
}

/* Waits, and commits as a training loop does. */
static inline int world_finish(struct world *w, struct dt_err *err)
{
    bool ok = true;
    for (int r = 0; r < w->size; r++) {
        dt_ckpt_wait(w->rank[r]);
        ok = dt_ckpt_done(w->rank[r], ok ? err : NULL) == 1 && ok;
    }
    for (int r = 1; r < w->size; r++)
        dt_ckpt_commit(w->rank[r], ok, NULL);
    int rc = dt_ckpt_commit(w->rank[0], ok, ok ? err : NULL);
    return ok ? rc : -1;
}

static inline void world_save(struct world *w, int64_t step)
{
    struct dt_err err;
    world_start(w, step);
    CHECK_OK(world_finish(w, &err), err);
}

/* How many entries of FOLDER begin with PREFIX. */
static inline int entries(const char *folder, const char *prefix)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0 && strcmp(e->d_name, ".") != 0 &&
             strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* A world of SIZE saves STEP. */
static inline void save_once(const char *folder, int size, enum dt_dtype type, int64_t step)
{
    struct world w;
    world_open(&w, folder, size, (struct dt_ckpt_options){.model_type = type});
    world_save(&w, step);
    world_close(&w);
}

/* One rank of SIZE reads PATH; *WRONG (may be NULL): how many elements are not those of STEP. */
static inline int read_rank(const char *path, int rank, int size, int64_t step, size_t *wrong,
                            struct dt_ckpt_state *s, struct dt_err *err)
{
    struct model m = model_make();
    struct dt_ckpt_model saved = model_saved(&m);
    struct dt_layout l;
    int64_t steps = 0;
    struct dt_zero_state in = {.steps = &steps};
    CHECK_OK(dt_ckpt_cut(&saved, (size_t)size, &l, err), *err);
    CHECK_OK(dt_ckpt_shards_init(&in, &l, (size_t)rank, NULL, err), *err);
    int rc = dt_ckpt_read(path, &saved, &in, s, err);
    if (wrong)
        *wrong = rc == 0 ? wrong_values(&in, step) : 0;
    dt_ckpt_shards_finish(&in, NULL);
    dt_layout_finish(&l);
    free(m.tensors);
    return rc;
}

/* All ranks of SIZE: 0, or the first that fails. */
static inline int read_all_ranks(const char *path, int size, int64_t step, struct dt_err *err)
{
    for (int r = 0; r < size; r++) {
        struct dt_ckpt_state s = {0};
        size_t wrong;
        if (read_rank(path, r, size, step, &wrong, &s, err) < 0)
            return -1;
        CHECK_EQ(wrong, 0);
        CHECK_EQ(s.step, step);
    }
    return 0;
}

#endif
