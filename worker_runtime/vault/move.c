/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/vault/move.h"

#include "worker_runtime/coll/agree.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)1 << 20) /* floats of one message */
#define ARRAYS 3

struct move {
    const struct dt_vault *v;
    const struct dt_vault_choice *c;
    struct dt_layout old;
    struct dt_coll *g;
    int rank;
    bool in_place; /* this rank holds just what it is to have */
    float *to[ARRAYS];
};

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool dt_vault_next_piece(struct dt_vault_walk *w, const struct dt_layout *old,
                         const struct dt_layout *new, struct dt_vault_piece *out)
{
    while (w->unit < old->units && w->at >= old->unit[w->unit].size)
        *w = (struct dt_vault_walk){.unit = w->unit + 1};
    if (w->unit >= old->units)
        return false;
    const struct dt_layout_unit *a = &old->unit[w->unit], *b = &new->unit[w->unit];
    size_t from = w->at / a->shard, to = w->at / b->shard;
    size_t end = least(least((from + 1) * a->shard, (to + 1) * b->shard), a->size);
    *out = (struct dt_vault_piece){.from = (int)from,
                                   .to = (int)to,
                                   .from_at = a->shard_at + w->at % a->shard,
                                   .to_at = b->shard_at + w->at % b->shard,
                                   .count = end - w->at};
    w->at = end;
    return true;
}

/* Number WHICH of the arrays that this rank holds of what was rank FROM's. */
static const float *held(const struct move *m, int from, int which)
{
    const struct dt_vault_giver *giver = &m->c->giver[from];
    return dt_vault_slot_array(dt_vault_slot(m->v, giver->source, giver->slot), which);
}

static int pass(const struct move *m, const struct dt_vault_piece *p, int which, struct dt_err *err)
{
    int giver = m->c->giver[p->from].rank;
    const float *from = giver == m->rank ? held(m, p->from, which) + p->from_at : NULL;
    float *to = p->to == m->rank ? m->to[which] + p->to_at : NULL;
    if (from && to) {
        memcpy(to, from, p->count * sizeof *to);
        return 0;
    }
    for (size_t at = 0; at < p->count; at += CHUNK) {
        size_t n = least(CHUNK, p->count - at);
        int rc = from ? dt_coll_send(m->g, from + at, n, DT_F32, p->to, err)
                      : dt_coll_recv(m->g, to + at, n, DT_F32, giver, err);
        if (rc < 0)
            return dt_err_wrap(err, "shards of step %lld, on their way", (long long)m->c->step);
    }
    return 0;
}

/* Whether who is to have the shard of rank TO holds just that: then nothing of it moves. */
static bool stays(const struct move *m, const struct dt_layout *new, int to)
{
    return m->old.world == new->world && m->c->giver[to].rank == to;
}

static int pass_all(const struct move *m, const struct dt_layout *new, struct dt_err *err)
{
    struct dt_vault_walk w = {0};
    struct dt_vault_piece p;
    while (dt_vault_next_piece(&w, &m->old, new, &p)) {
        bool mine = m->c->giver[p.from].rank == m->rank || p.to == m->rank;
        for (int i = 0; mine && !stays(m, new, p.to) && i < ARRAYS; i++)
            if (pass(m, &p, i, err) < 0)
                return -1;
    }
    return 0;
}

static int make_room(struct move *m, const struct dt_layout *new, struct dt_vault_shards *out,
                     struct dt_err *err)
{
    size_t n = new->shard;
    if (m->in_place) {
        for (int i = 0; i < ARRAYS; i++)
            m->to[i] = dt_vault_slot_array(
                dt_vault_slot(m->v, m->c->giver[m->rank].source, m->c->giver[m->rank].slot), i);
    } else {
        out->room = calloc(n ? n : 1, ARRAYS * sizeof *out->room); /* padding is 0 */
        if (!out->room)
            return dt_err_set(err, DT_E_MEMORY, "no memory for the shards of %zu numbers", n);
        for (int i = 0; i < ARRAYS; i++)
            m->to[i] = out->room + (size_t)i * n;
    }
    out->state.master = m->to[0];
    out->state.exp_avg = m->to[1];
    out->state.exp_avg_sq = m->to[2];
    return 0;
}

/* The cut of the world that made the step; -1 where that is not the one of its images. */
static int cut_as_before(struct move *m, const struct dt_layout *new, struct dt_err *err)
{
    size_t *sizes = calloc(new->units ? new->units : 1, sizeof *sizes);
    if (!sizes)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu units", new->units);
    for (size_t u = 0; u < new->units; u++)
        sizes[u] = new->unit[u].size;
    int rc = dt_layout_init(&m->old, sizes, new->units, (size_t)m->c->world, err);
    free(sizes);
    if (rc == 0 && (int64_t)m->old.shard != m->c->shard)
        rc = dt_err_set(err, DT_E_RUNTIME, "step %lld of the vault is not cut as this model is",
                        (long long)m->c->step);
    return rc;
}

int dt_vault_move(const struct dt_vault *v, const struct dt_vault_choice *c,
                  const struct dt_layout *layout, struct dt_coll *g, struct dt_vault_shards *out,
                  struct dt_err *err)
{
    struct move m = {.v = v, .c = c, .g = g, .rank = dt_coll_rank(g)};
    *out = (struct dt_vault_shards){0};
    int rc = cut_as_before(&m, layout, err);
    m.in_place = rc == 0 && stays(&m, layout, m.rank);
    if (rc == 0)
        rc = make_room(&m, layout, out, err);
    rc = dt_agree(g, rc, err);
    if (rc == 0)
        rc = pass_all(&m, layout, err);
    dt_layout_finish(&m.old);
    out->state.layout = layout;
    out->state.rank = (size_t)m.rank;
    return rc;
}

void dt_vault_shards_finish(struct dt_vault_shards *s)
{
    free(s->room);
    *s = (struct dt_vault_shards){0};
}
