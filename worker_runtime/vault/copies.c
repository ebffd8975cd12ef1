/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/vault/copies.h"

#include "base/auto.h"
#include "worker_runtime/coll/agree.h"
#include "worker_runtime/vault/link.h"
#include "worker_runtime/vault/neighbour.h"

#include <stdlib.h>

/* For one copy, once the step beside it is over. A connection that breaks says so much earlier;
 * this is for a network that has become too slow to be of use. */
#define PATIENCE (60 * DT_SECOND)

struct dt_copies {
    struct dt_copies_options o;
    struct dt_link *link;
};

struct card { /* of a rank, for all others */
    struct dt_link_card link;
    int64_t host;
};

/* The tables of a world, by rank. */
struct table {
    struct dt_link_card *cards;
    int *host, *wards;
    struct dt_link_ward *ward;
};

static int table_init(struct table *t, int world, struct dt_err *err)
{
    size_t n = (size_t)world;
    *t = (struct table){calloc(n, sizeof *t->cards), calloc(n, sizeof *t->host),
                        calloc(n, sizeof *t->wards), calloc(n, sizeof *t->ward)};
    if (t->cards && t->host && t->wards && t->ward)
        return 0;
    return dt_err_set(err, DT_E_MEMORY, "no memory for copies of %d ranks", world);
}

static void table_finish(struct table *t)
{
    free(t->cards);
    free(t->host);
    free(t->wards);
    free(t->ward);
}

static int fill_wards(struct dt_copies *c, struct table *t, int count, struct dt_err *err)
{
    for (int i = 0; i < count; i++) {
        t->ward[i] = (struct dt_link_ward){t->wards[i], dt_vault_peer(c->o.vault, i)};
        if (!t->ward[i].image)
            return dt_err_set(err, DT_E_RUNTIME,
                              "this worker has files for copies of %d ranks, and would keep those "
                              "of %d; run equally many workers on all nodes",
                              i, count);
    }
    return 0;
}

/* What this rank does by itself, once it has all cards. */
static int start(struct dt_copies *c, const struct card *all, struct dt_err *err)
{
    int world = dt_coll_size(c->o.world), rank = dt_coll_rank(c->o.world);
    struct table t;
    int rc = table_init(&t, world, err);
    for (int r = 0; rc == 0 && r < world; r++) {
        t.cards[r] = all[r].link;
        t.host[r] = (int)all[r].host;
    }
    if (rc == 0) {
        int count = dt_neighbour_wards(t.host, world, rank, t.wards);
        int neighbour = dt_neighbour_of(t.host, world, rank);
        struct dt_vault_facts like = dt_vault_facts_here(c->o.vault, c->o.need.shard);
        struct dt_vault_need need = c->o.need;
        need.images += count;
        rc = fill_wards(c, &t, count, err);
        if (rc == 0)
            rc = dt_vault_check_room(c->o.vault, &need, err);
        if (rc == 0)
            rc = dt_link_start(c->link, t.cards, neighbour, t.ward, count, &like, err);
    }
    table_finish(&t);
    return rc;
}

static int meet(struct dt_copies *c, struct card *mine, struct dt_err *err)
{
    struct dt_coll *g = c->o.world;
    DT_AUTO_FREE struct card *all = calloc((size_t)dt_coll_size(g), sizeof *all);
    int rc = all ? 0 : dt_err_set(err, DT_E_MEMORY, "no memory for copies");
    if (rc == 0) {
        c->link = dt_link_open(dt_coll_rank(g), &mine->link, err);
        rc = c->link ? 0 : -1;
    }
    if (dt_agree(g, rc, err) < 0 || dt_coll_all_gather(g, mine, all, sizeof *mine, DT_U8, err) < 0)
        return -1;
    return dt_agree(g, start(c, all, err), err);
}

int dt_copies_open(const struct dt_copies_options *o, struct dt_copies **out, struct dt_err *err)
{
    struct dt_copies *c = calloc(1, sizeof *c);
    struct card mine = {.host = o->host};
    *out = NULL;
    if (!c)
        return dt_agree(o->world, dt_err_set(err, DT_E_MEMORY, "no memory for copies"), err);
    c->o = *o;
    if (meet(c, &mine, err) < 0) {
        dt_copies_close(c);
        return -1;
    }
    *out = c;
    return 0;
}

void dt_copies_close(struct dt_copies *c)
{
    if (!c)
        return;
    dt_link_close(c->link);
    free(c);
}

void dt_copies_send(struct dt_copies *c)
{
    int slot;
    struct dt_vault_image *own = dt_vault_own(c->o.vault, &slot);
    dt_link_offer(c->link, own, slot);
}

int dt_copies_wait(struct dt_copies *c, struct dt_err *err)
{
    return dt_link_wait(c->link, PATIENCE, c->o.give_up, c->o.give_up_arg, err);
}
