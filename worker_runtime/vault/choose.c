/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/vault/choose.h"

#include <stdlib.h>
#include <string.h>

/* Whether A and B are parts of one step, cut alike. */
static bool fit(const struct dt_vault_held *a, const struct dt_vault_held *b)
{
    return a->epoch == b->epoch && a->step == b->step && a->world == b->world &&
           a->shard == b->shard && a->state == b->state;
}

/* Newest first; equal only of parts that fit. */
static int compare(const void *x, const void *y)
{
    const struct dt_vault_held *const *px = x, *const *py = y;
    const struct dt_vault_held *a = *px, *b = *py;
    const int64_t va[] = {a->epoch, a->step, a->world, a->shard, a->state};
    const int64_t vb[] = {b->epoch, b->step, b->world, b->shard, b->state};
    for (size_t i = 0; i < sizeof va / sizeof *va; i++)
        if (va[i] != vb[i])
            return va[i] > vb[i] ? -1 : 1;
    return 0;
}

/* What holder number AT tells is liked better than GIVER. One who is in the place that the shard
 * had before need not send it. */
static bool is_better(const struct dt_vault_held *h, int holder, const struct dt_vault_giver *g)
{
    if (g->source == DT_VAULT_NOTHING || (int)h->source != (int)g->source)
        return g->source == DT_VAULT_NOTHING || (int)h->source < (int)g->source;
    bool stays = holder == h->rank, stayed = g->rank == h->rank;
    return stays != stayed ? stays : holder < g->rank;
}

/* Of GROUP, parts of one step, who gives which; whether there is somebody for each. */
static bool give(const struct dt_vault_held *const *group, size_t count,
                 const struct dt_vault_held *held, struct dt_vault_giver *giver)
{
    int64_t world = group[0]->world, found = 0;
    memset(giver, 0, (size_t)world * sizeof *giver);
    for (size_t i = 0; i < count; i++) {
        const struct dt_vault_held *h = group[i];
        int holder = (int)((h - held) / DT_VAULT_HELD);
        struct dt_vault_giver *g = &giver[h->rank];
        found += g->source == DT_VAULT_NOTHING;
        if (is_better(h, holder, g))
            *g = (struct dt_vault_giver){holder, (int)h->slot, (enum dt_vault_source)h->source,
                                         (int)h->host};
    }
    return found == world;
}

/* What can be a part of something: lists of other ranks come over a network. */
static bool is_part(const struct dt_vault_held *h)
{
    return h->source > DT_VAULT_NOTHING && h->source <= DT_VAULT_COPY && h->world > 0 &&
           h->rank >= 0 && h->rank < h->world && h->slot >= 0;
}

/* The newest step of COUNT sorted parts that is whole. */
static int find_whole(const struct dt_vault_held *const *part, size_t count,
                      const struct dt_vault_held *held, struct dt_vault_choice *out,
                      struct dt_err *err)
{
    for (size_t first = 0, end; first < count; first = end) {
        const struct dt_vault_held *p = part[first];
        for (end = first + 1; end < count && fit(p, part[end]); end++)
            ;
        if ((size_t)p->world > end - first)
            continue;
        struct dt_vault_giver *giver = calloc((size_t)p->world, sizeof *giver);
        if (!giver)
            return dt_err_set(err, DT_E_MEMORY, "no memory to choose a step of the vault");
        if (give(part + first, end - first, held, giver)) {
            *out = (struct dt_vault_choice){.epoch = p->epoch,
                                            .step = p->step,
                                            .shard = p->shard,
                                            .state = p->state,
                                            .world = (int)p->world,
                                            .giver = giver};
            return 0;
        }
        free(giver);
    }
    return 0;
}

int dt_vault_choose(const struct dt_vault_held *held, int ranks, struct dt_vault_choice *out,
                    struct dt_err *err)
{
    size_t all = (size_t)ranks * DT_VAULT_HELD, count = 0;
    *out = (struct dt_vault_choice){0};
    const struct dt_vault_held **part = calloc(all ? all : 1, sizeof *part);
    if (!part)
        return dt_err_set(err, DT_E_MEMORY, "no memory to choose a step of the vault");
    for (size_t i = 0; i < all; i++)
        if (is_part(&held[i]))
            part[count++] = &held[i];
    qsort(part, count, sizeof *part, compare);
    int rc = find_whole(part, count, held, out, err);
    free(part);
    return rc;
}

const struct dt_vault_held *dt_vault_next_step(const struct dt_vault_held *held, size_t count,
                                               const struct dt_vault_held *before)
{
    const struct dt_vault_held *next = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct dt_vault_held *h = &held[i];
        bool older = !before || compare(&h, &before) > 0;
        if (is_part(h) && older && (!next || compare(&h, &next) < 0))
            next = h;
    }
    return next;
}

const struct dt_vault_held *dt_vault_part(const struct dt_vault_held *held, size_t count,
                                          const struct dt_vault_held *step, int rank)
{
    const struct dt_vault_held *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (is_part(&held[i]) && fit(&held[i], step) && held[i].rank == rank &&
            (!best || held[i].source < best->source))
            best = &held[i];
    return best;
}

bool dt_vault_choice_is_older(const struct dt_vault_choice *c, int64_t epoch, int64_t step)
{
    return c->epoch < epoch || (c->epoch == epoch && c->step < step);
}

void dt_vault_choice_finish(struct dt_vault_choice *c)
{
    free(c->giver);
    *c = (struct dt_vault_choice){0};
}

/* -- in words --------------------------------------------------------------------------------- */

static bool alike(const struct dt_vault_giver *a, const struct dt_vault_giver *b)
{
    return a->source == b->source && (a->source != DT_VAULT_COPY || a->host == b->host);
}

/* The first rank from AT on that has what LIKE has; the world's size: none. */
static int next_alike(const struct dt_vault_choice *c, const struct dt_vault_giver *like, int at)
{
    while (at < c->world && !alike(&c->giver[at], like))
        at++;
    return at;
}

/* The last of the ranks in a row that begins with AT. */
static int end_of_row(const struct dt_vault_choice *c, int at)
{
    int end = at;
    while (end + 1 < c->world && alike(&c->giver[end + 1], &c->giver[at]))
        end++;
    return end;
}

static void put_ranks(const struct dt_vault_choice *c, int at, struct dt_buf *out)
{
    const struct dt_vault_giver *like = &c->giver[at];
    bool many = next_alike(c, like, at + 1) < c->world;
    dt_buf_put_str(out, many ? "ranks " : "rank ");
    for (int first = at, next; first < c->world; first = next) {
        int last = end_of_row(c, first);
        next = next_alike(c, like, last + 1);
        bool pair = last == first + 1;
        if (first != at)
            dt_buf_put_str(out, next == c->world && !pair ? " and " : ", ");
        dt_buf_printf(out, "%d", first);
        if (last > first)
            dt_buf_printf(out, "%s%d", !pair ? " to " : next == c->world ? " and " : ", ", last);
    }
    if (like->source == DT_VAULT_COPY)
        dt_buf_printf(out, " from %s on node %d", many ? "copies" : "a copy", like->host);
    else
        dt_buf_printf(out, " from %s %s", many ? "their own" : "its own",
                      like->source == DT_VAULT_OWN_MEMORY ? "memory"
                      : many                              ? "vaults"
                                                          : "vault");
}

void dt_vault_choice_describe(const struct dt_vault_choice *c, struct dt_buf *out)
{
    for (int r = 0; r < c->world; r++) {
        int first = next_alike(c, &c->giver[r], 0);
        if (first != r)
            continue; /* told with that one */
        if (r > 0)
            dt_buf_put_str(out, ", ");
        put_ranks(c, r, out);
    }
}
