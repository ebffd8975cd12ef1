/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that share positions, against one that has them all: the same attention, and the same
 * gradients of it. */
#include "worker_runtime/model/block.h"

#include "base/chance.h"
#include "tests/lib/sanitized.h"
#include "tests/runtime/ranks.h"

#include <math.h>

TEST(each_position_is_in_one_piece_and_all_ranks_have_as_much_to_do)
{
    for (size_t ranks = 1; ranks <= 5; ranks++) {
        size_t positions = 2 * ranks * 3, all = positions * (positions + 1) / 2, batch = 2;
        bool had[2][2 * 5 * 3] = {{false}};
        for (size_t rank = 0; rank < ranks; rank++) {
            struct dt_pieces p = {.ranks = ranks, .rank = rank, .positions = positions};
            size_t scores = 0;
            CHECK_ROW("rank %zu of %zu", rank, ranks);
            CHECK_EQ(dt_pieces_own(&p), positions / ranks);
            for (size_t row = 0; row < batch * dt_pieces_own(&p); row++) {
                size_t sample, at = dt_pieces_place(&p, batch, row, &sample);
                CHECK(sample < batch && at < positions && !had[sample][at]);
                had[sample][at] = true;
                scores += sample == 0 ? at + 1 : 0;
            }
            CHECK_EQ(scores * ranks, all);
        }
    }
    struct dt_pieces whole = {.positions = 7};
    size_t sample;
    CHECK_EQ(dt_pieces_own(&whole), 7);
    CHECK_EQ(dt_pieces_place(&whole, 2, 9, &sample), 2);
    CHECK_EQ(sample, 1);
}

struct row {
    int ranks;
    size_t batch, positions, heads, kv_heads, head_dim, window;
    float cap;
    bool packed;
    enum dt_context_by by;
};

static const struct row table[] = {
    {2, 1, 8, 1, 1, 4, 0, 0, false, DT_BY_KEYS},    {2, 3, 16, 3, 3, 2, 0, 0, false, DT_BY_KEYS},
    {4, 2, 24, 6, 2, 4, 0, 0, false, DT_BY_KEYS},   {3, 2, 30, 4, 1, 6, 7, 0, false, DT_BY_KEYS},
    {2, 1, 640, 2, 1, 8, 0, 0, false, DT_BY_KEYS},  {2, 2, 640, 2, 2, 4, 90, 0, true, DT_BY_KEYS},
    {4, 2, 40, 4, 2, 4, 0, 3, true, DT_BY_KEYS},    {3, 1, 6, 5, 5, 2, 2, 0, true, DT_BY_KEYS},
    {2, 1, 8, 2, 2, 4, 0, 0, false, DT_BY_HEADS},   {2, 3, 16, 8, 4, 2, 0, 0, false, DT_BY_HEADS},
    {4, 2, 24, 8, 4, 4, 0, 0, false, DT_BY_HEADS},  {3, 2, 30, 9, 3, 6, 7, 0, true, DT_BY_HEADS},
    {2, 2, 640, 4, 2, 4, 90, 0, true, DT_BY_HEADS}, {4, 1, 40, 4, 4, 4, 0, 3, true, DT_BY_HEADS},
    {2, 1, 8, 1, 1, 4, 0, 0, false, DT_BY_RING},    {2, 3, 16, 3, 3, 2, 0, 0, false, DT_BY_RING},
    {4, 2, 24, 6, 2, 4, 0, 0, false, DT_BY_RING},   {3, 2, 30, 4, 1, 6, 7, 0, false, DT_BY_RING},
    {2, 1, 1280, 2, 1, 8, 0, 0, false, DT_BY_RING}, {2, 2, 640, 2, 2, 4, 90, 0, true, DT_BY_RING},
    {4, 2, 40, 4, 2, 4, 0, 3, true, DT_BY_RING},    {3, 1, 6, 5, 5, 2, 2, 0, true, DT_BY_RING},
    {5, 2, 100, 3, 1, 4, 0, 0, true, DT_BY_RING},   {2, 4, 1280, 8, 8, 16, 0, 0, false, DT_BY_RING},
};

static float *chance(size_t count, uint64_t seed)
{
    float *x = calloc(count, sizeof *x);
    CHECK(x != NULL);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)(dt_chance(&seed) >> 40) / (1 << 23) - 1;
    return x;
}

/* Of each position, where its document begins: they become longer and longer. */
static int32_t *documents_of(const struct row *r)
{
    int32_t *d = calloc(r->batch * r->positions, sizeof *d);
    CHECK(d != NULL);
    for (size_t i = 0; i < r->batch * r->positions; i++) {
        size_t at = i % r->positions, begins = at == 0 ? 0 : (size_t)d[i - 1];
        d[i] = (int32_t)(at >= 2 * begins + 3 + i / r->positions ? at : begins);
    }
    return d;
}

/* Attention of a whole batch, and what a rank is to have of it. */
struct whole {
    const struct row *row;
    size_t q, pair, in; /* numbers of a position: attention gives Q, and is given IN */
    int32_t *documents;
    float *qkv, *attended, *logsum, *dout, *dqkv;
};

static void open_whole(struct whole *w, const struct row *r)
{
    size_t all = r->batch * r->positions;
    *w = (struct whole){.row = r,
                        .q = r->heads * r->head_dim,
                        .pair = 2 * r->kv_heads * r->head_dim,
                        .documents = r->packed ? documents_of(r) : NULL};
    w->in = w->q + w->pair;
    w->qkv = chance(all * w->in, 3);
    w->dout = chance(all * w->q, 5);
    w->attended = calloc(all * w->q, sizeof(float));
    w->logsum = calloc(all * r->heads, sizeof(float));
    w->dqkv = calloc(all * w->in, sizeof(float));
    struct dt_attention a = {.batch = r->batch,
                             .queries = r->positions,
                             .keys = r->positions,
                             .window = r->window,
                             .documents = w->documents,
                             .heads = r->heads,
                             .kv_heads = r->kv_heads,
                             .head_dim = r->head_dim,
                             .cap = r->cap,
                             .q_stride = w->in,
                             .k_stride = w->in,
                             .v_stride = w->in,
                             .out_stride = w->q,
                             .q = w->qkv,
                             .k = w->qkv + w->q,
                             .v = w->qkv + w->q + w->pair / 2,
                             .logsum = w->logsum};
    dt_ops_reference.attention_forward(&a, w->attended, NULL);
    dt_ops_reference.attention_backward(&a, w->dqkv, w->dqkv + w->q, w->dqkv + w->q + w->pair / 2,
                                        w->attended, w->dout, NULL);
}

static void close_whole(struct whole *w)
{
    free(w->documents);
    free(w->qkv);
    free(w->attended);
    free(w->logsum);
    free(w->dout);
    free(w->dqkv);
}

/* The rows of WHOLE, of WIDTH numbers each, that the pieces P are, in their order. */
static float *take(const struct whole *w, const struct dt_pieces *p, const float *whole,
                   size_t width)
{
    size_t rows = w->row->batch * dt_pieces_own(p), sample;
    float *own = calloc(rows * width, sizeof *own);
    CHECK(own != NULL);
    for (size_t n = 0; n < rows; n++) {
        size_t at = dt_pieces_place(p, w->row->batch, n, &sample);
        memcpy(own + n * width, whole + (sample * p->positions + at) * width, width * sizeof *own);
    }
    return own;
}

static void check_close(const float *got, const float *wanted, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++) {
        CHECK_ROW("%s, number %zu: %.9g and %.9g", what, i, (double)got[i], (double)wanted[i]);
        CHECK(fabsf(got[i] - wanted[i]) <= 1e-5f * (1 + fabsf(wanted[i])));
    }
}

/* What one of both ways needs: the other's is not there. */
static struct dt_scratch scratch_of(const struct whole *w, size_t own)
{
    size_t all = w->row->batch * w->row->positions;
    if (w->row->by == DT_BY_HEADS)
        return (struct dt_scratch){
            .heads_qkv = {calloc(own * w->in, sizeof(float)), calloc(own * w->in, sizeof(float))},
            .heads_out = {calloc(own * w->q, sizeof(float)), calloc(own * w->q, sizeof(float))}};
    if (w->row->by == DT_BY_RING) {
        struct dt_scratch s = {.ranks_pairs = NULL};
        for (int i = 0; i < 5; i++)
            *(i < 2 ? &s.round_pairs[i] : &s.round_dpairs[i - 2]) =
                calloc(own * w->pair, sizeof(float));
        return s;
    }
    return (struct dt_scratch){.ranks_pairs = calloc(all * w->pair, sizeof(float)),
                               .pairs = calloc(all * w->pair, sizeof(float)),
                               .dpairs = calloc(all * w->pair, sizeof(float))};
}

static void free_scratch(const struct dt_scratch *s)
{
    dt_elem *all[] = {s->ranks_pairs,     s->pairs,           s->dpairs,
                      s->heads_qkv[0],    s->heads_qkv[1],    s->heads_out[0],
                      s->heads_out[1],    s->round_pairs[0],  s->round_pairs[1],
                      s->round_dpairs[0], s->round_dpairs[1], s->round_dpairs[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

static void attend(struct rank_self *me)
{
    const struct row *r = me->arg;
    struct dt_err err = {0};
    struct whole w;
    open_whole(&w, r);
    struct dt_pieces p = {(size_t)r->ranks, (size_t)me->rank, r->positions, r->by};
    struct dt_team team = {.group = rank_open(me), .index = me->rank};
    struct dt_device *device = dt_device_open_cpu(1, &err);
    CHECK_OK(device ? 0 : -1, err);
    size_t all = r->batch * r->positions, own = all / (size_t)r->ranks;
    struct dt_shape shape = {
        .heads = r->heads, .kv_heads = r->kv_heads, .head_dim = r->head_dim, .score_cap = r->cap};
    struct dt_kept kept = {.qkv = take(&w, &p, w.qkv, w.in),
                           .attended = calloc(own * w.q, sizeof(float)),
                           .logsum = calloc(own * r->heads, sizeof(float))};
    struct dt_scratch scratch = scratch_of(&w, own);
    struct dt_block b = {.shape = &shape,
                         .ops = device->ops,
                         .stream = device->stream,
                         .batch = r->batch,
                         .positions = dt_pieces_own(&p),
                         .rows = own,
                         .window = r->window,
                         .pieces = p,
                         .context = &team,
                         .documents = w.documents,
                         .kept = &kept,
                         .scratch = &scratch};
    const struct dt_attention a = dt_block_attention(&b);
    float *dout = take(&w, &p, w.dout, w.q), *dqkv = calloc(own * w.in, sizeof *dqkv);
    float *attended = take(&w, &p, w.attended, w.q), *wanted = take(&w, &p, w.dqkv, w.in);

    dt_block_attention_forward(&b, &a);
    check_close(kept.attended, attended, own * w.q, "forward");
    dt_block_attention_backward(&b, &a, dqkv, dout);
    check_close(dqkv, wanted, own * w.in, "backward");
    CHECK(!team.failed && team.ns > 0);

    float *mine[] = {dout, dqkv, attended, wanted, kept.qkv, kept.attended, kept.logsum};
    for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
        free(mine[i]);
    free_scratch(&scratch);
    close_whole(&w);
    dt_device_close(device);
    dt_coll_destroy(team.group);
}

TEST(ranks_that_share_samples_attend_as_one_would)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct row r = table[i];
        CHECK_ROW("row %zu", i);
        if (SANITIZED && r.positions * r.heads > 5000)
            continue; /* the largest takes longer than all others together */
        ranks_run(r.ranks, attend, &r);
    }
}

/* The others are not there: what is computed is not used, and the caller is told. */
static void alone(struct rank_self *me)
{
    struct dt_team team = {.group = rank_open_within(me, 50), .index = me->rank};
    float all[4] = {1, 2, 3, 4};
    if (me->rank == 0) {
        dt_team_gather(&team, all, 2, DT_F32);
        CHECK(team.failed);
        CHECK(team.err.code != 0 && team.err.text[0]);
        uint64_t ns = team.ns;
        dt_team_scatter(&team, all, 2, DT_F32);
        CHECK_EQ(team.ns, ns);
        CHECK(all[0] == 1 && all[1] == 2);
    }
    dt_coll_destroy(team.group);
}

TEST(a_team_that_failed_exchanges_nothing_any_more)
{
    ranks_run(2, alone, NULL);
}
