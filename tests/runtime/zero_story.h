/* SPDX-License-Identifier: Apache-2.0 */
/* A training run that is small enough to be worked out in full beside it. The model: every
 * parameter p is pulled to a target of its own, by each of 36 samples a step with a little noise,
 * so a gradient is 2 (p - target) + noise, averaged. Units are of several sizes and parameters, and
 * the first is used again at the end, as a tied embedding is.
 *
 * What the ranks ended with is put together in an outcome, in payload order, so that any two runs
 * can be compared. */
#ifndef DT_TESTS_RUNTIME_ZERO_STORY_H
#define DT_TESTS_RUNTIME_ZERO_STORY_H

#include "base/chance.h"
#include "tests/runtime/ranks.h"
#include "tests/runtime/zero_half.h"
#include "worker_runtime/zero/slots.h"
#include "worker_runtime/zero/stage.h"
#include "worker_runtime/zero/state.h"

#include <math.h>

enum {
    STORY_UNITS = 5,
    STORY_SIZE = 37 + 5 + 130 + 7 + 129 + 8 + 3 + 411 + 1,
    STORY_SAMPLES = 36,
    STORY_STEPS = 5,
    STORY_RANKS = 8
};

static const struct dt_param story_params[] = {
    {"token", 37, true}, {"position", 5, false}, {"w0", 130, true},
    {"b0", 7, false},    {"w1", 129, true},      {"b1", 8, false},
    {"g", 3, false},     {"head", 411, true},    {"scale", 1, false},
};
static const struct dt_unit story_units[STORY_UNITS] = {
    {"embed", story_params, 2},       {"block.0", story_params + 2, 2},
    {"block.1", story_params + 4, 2}, {"head", story_params + 6, 2},
    {"tail", story_params + 8, 1},
};
static const size_t story_unit_at[STORY_UNITS + 1] = {0, 42, 179, 316, 730, 731};

struct outcome {
    float params[STORY_SIZE], master[STORY_SIZE], exp_avg[STORY_SIZE], exp_avg_sq[STORY_SIZE];
    double norm[STORY_STEPS];
    bool overflow[STORY_STEPS];
    int64_t steps;
    struct dt_zero_memory memory[STORY_RANKS];
    size_t gathers, most_live; /* of stage 3's slots, where there are any */
};

struct story {
    struct dt_zero_options o;
    bool apart;
    int world, accumulation, steps;
    int per_host;  /* ranks of a host; 0: all */
    bool hold_all; /* the gradients of all units are complete before any is reduced */
    int idle;      /* a rank, from 1 on, without work; 0: none */
    int uneven;    /* micro-steps of rank 0, if not as many as the others */
    float lr, clip, loss_scale;
    int broken_step, broken_rank; /* whose gradients have an infinite one; step 0: none */
    bool half;                    /* the device computes with bfloat16 */
    float boost;                  /* gradients are that much larger; 0: not */
    int first_step;               /* that have been made before, with .from */
    const struct outcome *from;
    struct outcome *out; /* shared by the ranks */
};

static inline struct story story_of(int stage, int world, int accumulation)
{
    struct story s = {.world = world, .accumulation = accumulation, .steps = STORY_STEPS};
    dt_zero_defaults(&s.o);
    s.o.stage = stage;
    s.o.weight_decay = 0.1f;
    s.o.full_gradients = stage == 2 && accumulation > 1;
    s.o.persist_below = 0;
    s.lr = 0.01f;
    s.loss_scale = 1;
    return s;
}

static inline struct outcome *outcome_create(void)
{
    void *o = mmap(NULL, sizeof(struct outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                   -1, 0);
    CHECK(o != MAP_FAILED);
    return o;
}

static inline void outcome_destroy(struct outcome *o)
{
    munmap(o, sizeof *o);
}

static inline float story_noise(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t seed = a * 1000003 + b * 10007 + c;
    return (float)(dt_chance(&seed) >> 40) / (1 << 24) - 0.5f;
}

static inline float story_first(size_t i)
{
    return 0.2f * story_noise(1, 2, i);
}

static inline float story_target(size_t i)
{
    return i % 3 ? 1.5f : -2.0f;
}

/* Of samples FIRST to below END of a step: their part of the average. */
static inline float story_gradient(const struct story *s, float p, size_t i, int step, int first,
                                   int end)
{
    float sum = 0;
    for (int sample = first; sample < end; sample++)
        sum += 2 * (p - story_target(i)) +
               story_noise((uint64_t)step + 10, (uint64_t)sample, (uint64_t)i);
    return sum / STORY_SAMPLES * s->loss_scale * (s->boost > 0 ? s->boost : 1);
}

struct actor {
    const struct story *s;
    struct rank_self *me;
    struct dt_device *device;
    struct dt_coll *coll;
    struct dt_zero *z;
    struct dt_ops half;
    float whole[STORY_SIZE]; /* parameters as floats, where the device has others */
};

static inline void story_fill(void *arg, size_t unit, size_t param, size_t first, size_t count,
                              float *out)
{
    size_t at = story_unit_at[unit] + first;
    (void)arg;
    for (size_t p = 0; p < param; p++)
        at += story_units[unit].params[p].count;
    for (size_t k = 0; k < count; k++)
        out[k] = story_first(at + k);
}

static inline const float *story_gather(struct actor *a, size_t unit)
{
    struct dt_err err = {0};
    const float *p = dt_zero_gather(a->z, unit, &err);
    CHECK_OK(p ? 0 : -1, err);
    if (!a->s->half)
        return p;
    float *out = a->whole + story_unit_at[unit];
    dt_ops_reference.cast(story_unit_at[unit + 1] - story_unit_at[unit], out, DT_F32, p, DT_BF16,
                          NULL);
    return out;
}

/* Adds N floats to gradients of the device's type. */
static inline void story_add_to(const struct actor *a, void *grads, const float *x, size_t n)
{
    uint16_t *half = calloc(n, sizeof *half);
    for (size_t i = 0; !a->s->half && i < n; i++)
        ((float *)grads)[i] += x[i];
    if (a->s->half) {
        dt_ops_reference.cast(n, half, DT_BF16, x, DT_F32, NULL);
        half_add(n, grads, half, NULL);
    }
    free(half);
}

/* PART: of the gradient, as several layers of a unit each give theirs. */
static inline void story_add(struct actor *a, size_t unit, int step, int first, int end, float part)
{
    struct dt_err err = {0};
    size_t at = story_unit_at[unit], n = story_unit_at[unit + 1] - at;
    const float *p = story_gather(a, unit);
    if (a->me->rank + 1 == a->s->idle) {
        dt_zero_release(a->z, unit);
        return;
    }
    void *grads = dt_zero_grads(a->z, unit, &err);
    CHECK_OK(grads ? 0 : -1, err);
    float g[STORY_SIZE];
    for (size_t i = 0; i < n; i++)
        g[i] = part * story_gradient(a->s, p[i], at + i, step, first, end);
    if (step + 1 == a->s->broken_step && a->me->rank == a->s->broken_rank)
        g[n - 1] = INFINITY;
    story_add_to(a, grads, g, n);
    dt_zero_release(a->z, unit);
}

/* What is under way stays within the bucket, or is one unit. */
static inline void story_reduce(struct actor *a, size_t unit)
{
    struct dt_err err = {0};
    const struct dt_queue *q = &a->z->queue;
    CHECK_OK(dt_zero_reduce(a->z, unit, &err), err);
    CHECK(q->count < 2 || q->elements <= a->s->o.reduce_bucket);
}

static inline void story_micro_step(struct actor *a, int step, int first, int end, bool last)
{
    dt_zero_begin(a->z, true, last);
    for (size_t u = 0; u < STORY_UNITS; u++) {
        story_gather(a, u);
        dt_zero_release(a->z, u);
    }
    story_add(a, 0, step, first, end, 0.25f);
    for (size_t u = STORY_UNITS; u-- > 0;) {
        story_add(a, u, step, first, end, u == 0 ? 0.75f : 1);
        if (!a->s->hold_all)
            story_reduce(a, u);
    }
    for (size_t u = STORY_UNITS; a->s->hold_all && u-- > 0;)
        story_reduce(a, u);
}

static inline void story_step(struct actor *a, int step)
{
    const struct story *s = a->s;
    struct dt_err err = {0};
    int rank = a->me->rank, mine = rank == 0 && s->uneven ? s->uneven : s->accumulation;
    int all = s->accumulation * (s->world - 1) + (s->uneven ? s->uneven : s->accumulation);
    int before = rank == 0 ? 0 : all - s->accumulation * (s->world - rank);
    int each = STORY_SAMPLES / all;
    CHECK_EQ(STORY_SAMPLES % all, 0);
    for (int m = 0; m < mine; m++)
        story_micro_step(a, step + s->first_step, (before + m) * each, (before + m + 1) * each,
                         m + 1 == mine);
    struct dt_zero_update u = {.lr = s->lr, .loss_scale = s->loss_scale, .clip = s->clip};
    struct dt_zero_updated done;
    CHECK_OK(dt_zero_step(a->z, &u, &done, &err), err);
    if (rank == 0) {
        s->out->norm[step] = done.grad_norm;
        s->out->overflow[step] = done.overflow;
    }
    CHECK(done.overflow || done.grad_norm == s->out->norm[step] || rank != 0);
}

struct story_shards {
    struct dt_zero_state state;
    int64_t steps;
};

static inline void shards_open(struct story_shards *t, const struct dt_zero *z)
{
    size_t n = dt_zero_layout(z)->shard;
    *t = (struct story_shards){.state = {.layout = dt_zero_layout(z), .rank = dt_zero_rank(z)}};
    t->state.master = calloc(n, sizeof(float));
    t->state.exp_avg = calloc(n, sizeof(float));
    t->state.exp_avg_sq = calloc(n, sizeof(float));
    t->state.steps = &t->steps;
}

static inline void shards_close(struct story_shards *t)
{
    free(t->state.master);
    free(t->state.exp_avg);
    free(t->state.exp_avg_sq);
}

static inline void story_load(struct actor *a)
{
    struct story_shards t;
    struct dt_err err = {0};
    struct dt_stretch s;
    shards_open(&t, a->z);
    t.steps = a->s->from->steps;
    for (size_t i = 0; dt_layout_owned(t.state.layout, t.state.rank, &i, &s);) {
        memcpy(t.state.master + s.shard_at, a->s->from->master + s.payload_at, 4 * s.count);
        memcpy(t.state.exp_avg + s.shard_at, a->s->from->exp_avg + s.payload_at, 4 * s.count);
        memcpy(t.state.exp_avg_sq + s.shard_at, a->s->from->exp_avg_sq + s.payload_at, 4 * s.count);
    }
    CHECK_OK(dt_zero_load(a->z, &t.state, &err), err);
    shards_close(&t);
}

static inline void story_save(struct actor *a)
{
    struct story_shards t;
    struct dt_err err = {0};
    struct dt_stretch s;
    shards_open(&t, a->z);
    CHECK_OK(dt_zero_save(a->z, &t.state, &err), err);
    CHECK_OK(dt_zero_device(a->z)->table->snap_wait(dt_zero_device(a->z), &err), err);
    for (size_t i = 0; dt_layout_owned(t.state.layout, t.state.rank, &i, &s);) {
        memcpy(a->s->out->master + s.payload_at, t.state.master + s.shard_at, 4 * s.count);
        memcpy(a->s->out->exp_avg + s.payload_at, t.state.exp_avg + s.shard_at, 4 * s.count);
        memcpy(a->s->out->exp_avg_sq + s.payload_at, t.state.exp_avg_sq + s.shard_at, 4 * s.count);
    }
    if (a->me->rank == 0)
        a->s->out->steps = t.steps;
    shards_close(&t);
}

/* All ranks must see the same parameters; rank 0's go into the outcome. */
static inline void story_read(struct actor *a)
{
    struct dt_err err = {0};
    float *mine = calloc(STORY_SIZE, sizeof *mine);
    dt_zero_begin(a->z, false, false);
    for (size_t u = 0; u < STORY_UNITS; u++) {
        size_t at = story_unit_at[u];
        memcpy(mine + at, story_gather(a, u), (story_unit_at[u + 1] - at) * sizeof *mine);
        dt_zero_release(a->z, u);
    }
    if (a->me->rank == 0)
        memcpy(a->s->out->params, mine, STORY_SIZE * sizeof *mine);
    CHECK_OK(dt_coll_barrier(a->coll, &err), err);
    CHECK(memcmp(mine, a->s->out->params, STORY_SIZE * sizeof *mine) == 0);
    free(mine);
}

static inline void story_open(struct actor *a, struct rank_self *me)
{
    struct dt_err err = {0};
    *a = (struct actor){.s = me->arg, .me = me};
    a->device = dt_device_open_cpu(1, &err);
    CHECK_OK(a->device ? 0 : -1, err);
    a->half = half_ops();
    if (a->s->half)
        a->device->ops = &a->half;
    a->coll = rank_open(me);
    struct dt_zero_place place = {.device = a->device,
                                  .group = a->coll,
                                  .sharing = a->s->apart ? 1 : (size_t)me->per_host,
                                  .apart = a->s->apart};
    a->z = dt_zero_create_on(&place, story_units, STORY_UNITS, &a->s->o, &err);
    CHECK_OK(a->z ? 0 : -1, err);
    if (a->s->from)
        story_load(a);
    else
        CHECK_OK(dt_zero_fill(a->z, story_fill, NULL, &err), err);
}

static inline void story_close(struct actor *a)
{
    dt_zero_memory(a->z, &a->s->out->memory[a->me->rank]);
    if (a->z->slots && a->me->rank == 0) {
        a->s->out->gathers = dt_slots_gathers(a->z->slots);
        a->s->out->most_live = dt_slots_most_live(a->z->slots);
    }
    dt_zero_destroy(a->z);
    dt_coll_destroy(a->coll);
    dt_device_close(a->device);
}

static inline void story_play(struct rank_self *me)
{
    struct actor a;
    story_open(&a, me);
    for (int step = 0; step < a.s->steps; step++)
        story_step(&a, step);
    story_read(&a);
    story_save(&a);
    story_close(&a);
}

/* Plays S; free the result with outcome_destroy(). */
static inline struct outcome *story_run(struct story s)
{
    s.out = outcome_create();
    ranks_run_on(s.world, s.per_host ? s.per_host : s.world, story_play, &s);
    return s.out;
}

static inline void check_same_bits(const struct outcome *a, const struct outcome *b)
{
    CHECK_BYTES(a->master, sizeof a->master, b->master, sizeof b->master);
    CHECK_BYTES(a->params, sizeof a->params, b->params, sizeof b->params);
    CHECK_BYTES(a->exp_avg, sizeof a->exp_avg, b->exp_avg, sizeof b->exp_avg);
    CHECK_BYTES(a->exp_avg_sq, sizeof a->exp_avg_sq, b->exp_avg_sq, sizeof b->exp_avg_sq);
    CHECK_BYTES(a->norm, sizeof a->norm, b->norm, sizeof b->norm);
    CHECK_EQ(a->steps, b->steps);
}

static inline void check_close(const struct outcome *a, const struct outcome *b)
{
    for (size_t i = 0; i < STORY_SIZE; i++) {
        CHECK_ROW("element %zu: %.9g and %.9g", i, (double)a->params[i], (double)b->params[i]);
        CHECK(fabsf(a->params[i] - b->params[i]) <= 1e-6f);
    }
}

static inline void tighten(struct story *s)
{
    s->o.reduce_bucket = s->o.gather_bucket = 64;
    s->o.prefetch = 200;
    s->o.max_live = 500;
    s->o.max_reuse_distance = 150;
    s->o.persist_below = 10;
}

/* All ways to play STAGE against WANTED; frees nothing of it. */
static inline void check_ways(struct story s, const struct outcome *wanted)
{
    for (int way = 0; way < 8; way++) {
        struct story t = s;
        t.o.overlap = way & 1;
        t.apart = way & 4;
        if (way & 2)
            tighten(&t);
        if (t.apart && t.o.stage == 0)
            continue;
        CHECK_ROW("stage %d, %s, %s buckets%s", t.o.stage, t.o.overlap ? "overlap" : "no overlap",
                  way & 2 ? "small" : "large", t.apart ? ", apart" : "");
        struct outcome *got = story_run(t);
        check_same_bits(got, wanted);
        outcome_destroy(got);
    }
}

#endif
