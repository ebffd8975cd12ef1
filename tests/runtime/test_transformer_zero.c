/* SPDX-License-Identifier: Apache-2.0 */
/* A transformer on the real ZeRO: the same losses at every stage, in every world, and however the
 * samples are dealt out. */
#include "worker_runtime/model/transformer.h"

#include "base/chance.h"
#include "tests/runtime/ranks.h"
#include "worker_runtime/zero/stage.h"

#include <math.h>

enum { STEPS = 4, SAMPLES = 4, POSITIONS = 6, RANKS = 4 };

static const struct dt_shape gpt2 = {DT_GPT2,   3,  2,     2, 10,   5,           13,
                                     POSITIONS, 11, 1e-5f, 0, 0.3f, .tied = true};
static const struct dt_shape llama = {DT_LLAMA, 3,     6,   2,    10,           4, 7, POSITIONS,
                                      13,       1e-5f, 100, 0.3f, .tied = false};

struct training {
    struct dt_shape shape;
    int stage, world;
    bool apart, recompute;
    /* Samples of each rank's micro-steps; 0: an empty one; -1: none. */
    int deal[RANKS][3];
    double *losses; /* [STEPS][RANKS], shared by the ranks */
};

struct trainer {
    const struct training *run;
    struct rank_self *me;
    struct dt_device *device;
    struct dt_coll *coll;
    struct dt_tensor *tensors;
    struct dt_unit *units;
    struct dt_param *params;
    struct dt_zero *z;
    struct dt_transformer *t;
};

/* The same whoever asks, and for however little. */
static void fill(void *arg, size_t unit, size_t param, size_t first, size_t count, float *out)
{
    struct trainer *t = arg;
    const struct dt_tensor *tensor = t->tensors;
    while (tensor->unit != unit || tensor->index != param)
        tensor++;
    for (size_t i = 0; i < count; i++) {
        uint64_t seed = unit * 1000003 + param * 10007 + first + i;
        float x = (float)(dt_chance(&seed) >> 40) / (1 << 23) - 1;
        out[i] = tensor->init_value + x * tensor->init_std;
    }
}

static void open_trainer(struct trainer *t, struct rank_self *me)
{
    const struct training *run = me->arg;
    struct dt_err err = {0};
    struct dt_zero_options o;
    *t = (struct trainer){.run = run, .me = me};
    dt_zero_defaults(&o);
    o.stage = run->stage;
    o.persist_below = 0;
    t->device = dt_device_open_cpu(1, &err);
    CHECK_OK(t->device ? 0 : -1, err);
    t->coll = rank_open(me);
    t->tensors = dt_shape_tensors(&run->shape, &err);
    CHECK(t->tensors != NULL);
    CHECK_OK(dt_shape_units(&run->shape, t->tensors, &t->units, &t->params, &err), err);
    struct dt_zero_place place = {.device = t->device,
                                  .group = t->coll,
                                  .sharing = run->apart ? 1 : (size_t)me->per_host,
                                  .apart = run->apart};
    t->z = dt_zero_create_on(&place, t->units, dt_shape_unit_count(&run->shape), &o, &err);
    CHECK_OK(t->z ? 0 : -1, err);
    CHECK_OK(dt_zero_fill(t->z, fill, t, &err), err);
    struct dt_transformer_options to = {.batch = SAMPLES,
                                        .positions = POSITIONS,
                                        .recompute = run->recompute,
                                        .recompute_every = 2};
    t->t = dt_transformer_create(&run->shape, &to, t->device, &err);
    CHECK_OK(t->t ? 0 : -1, err);
}

static void close_trainer(struct trainer *t)
{
    dt_transformer_destroy(t->t);
    dt_zero_destroy(t->z);
    dt_coll_destroy(t->coll);
    dt_device_close(t->device);
    free(t->units);
    free(t->params);
    free(t->tensors);
}

/* Sample S of a step counts up by its own stride: there is something to learn. */
static void make_sample(const struct training *run, int step, int s, int32_t *ids, int32_t *targets)
{
    size_t word = (size_t)(step * SAMPLES + s) * 5;
    for (size_t p = 0; p < POSITIONS; p++) {
        ids[p] = (int32_t)(word % run->shape.vocabulary);
        word = word * 3 + 1;
        targets[p] = (int32_t)(word % run->shape.vocabulary);
    }
}

/* The number of the rank's first sample: what those before it have is theirs. */
static int first_sample(const struct training *run, int rank)
{
    int first = 0;
    for (int r = 0; r < rank; r++)
        for (int m = 0; m < 3; m++)
            first += run->deal[r][m] > 0 ? run->deal[r][m] : 0;
    return first;
}

static double step(struct trainer *t, int number)
{
    const struct training *run = t->run;
    const int *deal = run->deal[t->me->rank];
    int sample = first_sample(run, t->me->rank);
    struct dt_err err = {0};
    double loss = 0;
    for (int m = 0; m < 3 && deal[m] >= 0; m++) {
        int32_t ids[SAMPLES * POSITIONS], targets[SAMPLES * POSITIONS];
        for (int s = 0; s < deal[m]; s++, sample++)
            make_sample(run, number, sample, ids + s * POSITIONS, targets + s * POSITIONS);
        dt_zero_begin(t->z, true, m == 2 || deal[m + 1] < 0);
        CHECK_OK(dt_transformer_train(t->t, t->z, (size_t)deal[m], ids, targets,
                                      1.0f / (SAMPLES * POSITIONS), &loss, &err),
                 err);
    }
    struct dt_zero_update u = {.lr = 0.01f, .loss_scale = 1, .clip = 1};
    struct dt_zero_updated done;
    CHECK_OK(dt_zero_step(t->z, &u, &done, &err), err);
    CHECK(!done.overflow && done.grad_norm > 0);
    return loss;
}

static void play(struct rank_self *me)
{
    struct trainer t;
    open_trainer(&t, me);
    for (int i = 0; i < STEPS; i++)
        t.run->losses[i * RANKS + me->rank] = step(&t, i);
    close_trainer(&t);
}

struct result {
    double by_rank[STEPS * RANKS];
    double mean[STEPS];
};

static struct result train(struct training run)
{
    struct result r = {0};
    run.losses =
        mmap(NULL, sizeof r.by_rank, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(run.losses != MAP_FAILED);
    ranks_run(run.world, play, &run);
    memcpy(r.by_rank, run.losses, sizeof r.by_rank);
    for (int i = 0; i < STEPS * RANKS; i++)
        r.mean[i / RANKS] += r.by_rank[i] / (SAMPLES * POSITIONS);
    munmap(run.losses, sizeof r.by_rank);
    CHECK(r.mean[STEPS - 1] < r.mean[0] - 0.05);
    return r;
}

static void check_close(const struct result *a, const struct result *b)
{
    for (int i = 0; i < STEPS; i++) {
        CHECK_ROW("step %d: %.9g and %.9g", i, a->mean[i], b->mean[i]);
        CHECK(fabs(a->mean[i] - b->mean[i]) < 1e-5 * b->mean[i]);
    }
}

static void check_family(const struct dt_shape *shape)
{
    struct training alone = {*shape, .world = 1, .deal = {{4, -1}}};
    struct training two = {*shape, .world = 2, .deal = {{2, -1}, {2, -1}}};
    struct result one = train(alone), plain = train(two);
    check_close(&plain, &one);
    for (int way = 0; way < 16; way++) {
        struct training t = two;
        t.stage = way & 3;
        t.apart = way & 4;
        t.recompute = way & 8;
        if (t.apart && t.stage == 0)
            continue;
        CHECK_ROW("stage %d%s%s", t.stage, t.apart ? ", apart" : "",
                  t.recompute ? ", recomputed" : "");
        struct result r = train(t);
        CHECK_BYTES(r.by_rank, sizeof r.by_rank, plain.by_rank, sizeof plain.by_rank);
    }
}

TEST(a_gpt2_has_the_same_losses_at_every_stage)
{
    check_family(&gpt2);
}

TEST(a_llama_has_the_same_losses_at_every_stage)
{
    check_family(&llama);
}

TEST(what_a_family_has_beside_a_llama_is_the_same_in_every_world)
{
    struct dt_shape s = llama;
    s.family = DT_QWEN2;
    s.qkv_bias = true;
    s.window = 3;
    s.full_layers = 1;
    check_family(&s);
    s = llama;
    s.family = DT_QWEN3;
    s.qk_norm = true;
    s.tied = true;
    check_family(&s);
    s.family = DT_GEMMA2;
    s.norm_plus_one = s.scaled_words = s.gelu_gate = s.branch_norms = true;
    s.score_cap = 2;
    s.logit_cap = 5;
    s.window = 3;
    s.full_every = 2;
    check_family(&s);
}

TEST(how_samples_are_dealt_makes_no_difference_to_speak_of)
{
    struct training alone = {gpt2, .world = 1, .deal = {{4, -1}}};
    struct training four = {gpt2, .world = 4, .deal = {{1, -1}, {1, -1}, {1, -1}, {1, -1}}};
    struct training uneven = {gpt2, .world = 2, .deal = {{2, 1, -1}, {1, -1}}};
    struct result one = train(alone), r;
    for (int stage = 0; stage < 4; stage++) {
        CHECK_ROW("stage %d", stage);
        four.stage = uneven.stage = stage;
        r = train(four);
        check_close(&r, &one);
        if (stage >= 2) { /* every micro-step is everyone's, also of who has no samples left */
            uneven.deal[1][1] = 0;
            uneven.deal[1][2] = -1;
        }
        r = train(uneven);
        check_close(&r, &one);
    }
}
