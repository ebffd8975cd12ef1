/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/pack.h"

#include <stdbool.h>
#include <stdlib.h>

#define NONE UINT32_MAX

/* Documents of one length are a list in the order of the file. */
struct packing {
    uint32_t *next;  /* [documents] */
    uint32_t *heads; /* [positions + 1], by length */
    size_t *below;   /* [positions + 1]: from a length on down, where to look for a list that is not
                        empty: it is that one, or a step towards it; 0: there is none */
};

static void list(struct packing *g, const uint32_t *lengths, size_t count, size_t positions)
{
    for (size_t i = 0; i <= positions; i++) {
        g->heads[i] = NONE;
        g->below[i] = i;
    }
    for (size_t i = count; i-- > 0;) {
        if (lengths[i] == 0 || lengths[i] > positions)
            continue;
        g->next[i] = g->heads[lengths[i]];
        g->heads[lengths[i]] = (uint32_t)i;
    }
}

/* The greatest length up to MOST of which there is a document; 0: none. Ways that were gone once
 * are shorter the next time, as lists that are empty stay so. */
static size_t longest(struct packing *g, size_t most)
{
    size_t at = most;
    while (at > 0 && g->heads[at] == NONE)
        at = g->below[at] < at ? g->below[at] : at - 1;
    for (size_t i = most, next; i > at; i = next) {
        next = g->below[i] < i ? g->below[i] : i - 1;
        g->below[i] = at;
    }
    return at;
}

static void fill(struct packing *g, struct dt_pack *p, size_t positions)
{
    size_t placed = 0;
    while (longest(g, positions) > 0) {
        size_t left = positions, length;
        p->first[p->samples++] = placed;
        while ((length = longest(g, left)) > 0) {
            p->order[placed++] = g->heads[length];
            g->heads[length] = g->next[g->heads[length]];
            left -= length;
        }
    }
    p->first[p->samples] = placed;
}

static int no_memory(struct dt_pack *p, size_t count, struct dt_err *err)
{
    dt_pack_finish(p);
    return dt_err_set(err, DT_E_MEMORY, "no memory for the order of %zu documents", count);
}

/* Room for COUNT documents, those counted that are too long. */
static int begin(struct dt_pack *p, const uint32_t *lengths, size_t count, size_t positions,
                 struct dt_err *err)
{
    *p = (struct dt_pack){.first = calloc(count + 1, sizeof *p->first),
                          .order = calloc(count + 1, sizeof *p->order)};
    if (count >= NONE || !p->first || !p->order)
        return no_memory(p, count, err);
    for (size_t i = 0; i < count; i++)
        p->left_out += lengths[i] > positions;
    return 0;
}

int dt_pack_make(struct dt_pack *p, const uint32_t *lengths, size_t count, size_t positions,
                 struct dt_err *err)
{
    if (begin(p, lengths, count, positions, err) < 0)
        return -1;
    struct packing g = {.next = calloc(count + 1, sizeof *g.next),
                        .heads = calloc(positions + 1, sizeof *g.heads),
                        .below = calloc(positions + 1, sizeof *g.below)};
    int rc = g.next && g.heads && g.below ? 0 : no_memory(p, count, err);
    if (rc == 0) {
        list(&g, lengths, count, positions);
        fill(&g, p, positions);
    }
    free(g.next);
    free(g.heads);
    free(g.below);
    return rc;
}

int dt_pack_alone(struct dt_pack *p, const uint32_t *lengths, size_t count, size_t positions,
                  struct dt_err *err)
{
    if (begin(p, lengths, count, positions, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (lengths[i] == 0 || lengths[i] > positions)
            continue;
        p->order[p->samples] = (uint32_t)i;
        p->samples++;
        p->first[p->samples] = p->samples;
    }
    return 0;
}

int dt_pack_pairs(struct dt_pack *p, const uint32_t *lengths, size_t count, size_t positions,
                  struct dt_err *err)
{
    *p = (struct dt_pack){.first = calloc(count / 2 + 1, sizeof *p->first),
                          .order = calloc(count + 1, sizeof *p->order)};
    if (count >= NONE || !p->first || !p->order) {
        dt_pack_finish(p);
        return dt_err_set(err, DT_E_MEMORY, "no memory for the order of %zu documents", count);
    }
    for (size_t i = 0; i + 1 < count; i += 2) {
        if ((uint64_t)lengths[i] + lengths[i + 1] > positions) {
            p->left_out += 2;
            continue;
        }
        p->order[2 * p->samples] = (uint32_t)i;
        p->order[2 * p->samples + 1] = (uint32_t)i + 1;
        p->samples++;
        p->first[p->samples] = 2 * p->samples;
    }
    return 0;
}

void dt_pack_finish(struct dt_pack *p)
{
    free(p->first);
    free(p->order);
    *p = (struct dt_pack){0};
}
