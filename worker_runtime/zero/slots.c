/* SPDX-License-Identifier: Apache-2.0 */
/* A slot is memory and, for a while, a unit in it. Memory of units that are gone is kept for others
 * of at most that size, and given back only when it is too small for what comes. */
#include "worker_runtime/zero/slots.h"

#include <stdlib.h>

#include "worker_runtime/zero/offload.h"
#include "worker_runtime/zero/stage.h"
#include "worker_runtime/zero/trace.h"

enum { AHEAD_MAX = 4 }; /* gathers under way beyond the one that is asked for */

struct slot {
    void *memory;
    size_t capacity; /* elements */
    size_t unit;     /* NOBODY: free */
    size_t held;
    bool on_its_way, stays;
    struct dt_coll_handle handle;
};

#define NOBODY SIZE_MAX

struct dt_slots {
    struct dt_zero *z;
    struct slot **slot; /* handles do not move, so neither do slots */
    size_t count;
    size_t *sizes; /* padded, of each unit */
    struct dt_trace trace[2], *now;
    size_t live, most_live, gathers, ahead;
};

struct dt_slots *dt_slots_create(struct dt_zero *z, struct dt_err *err)
{
    struct dt_slots *s = calloc(1, sizeof *s);
    size_t *sizes = calloc(z->layout.units, sizeof *sizes);
    if (!s || !sizes) {
        free(s);
        free(sizes);
        dt_err_set(err, DT_E_MEMORY, "no memory for a list of units");
        return NULL;
    }
    for (size_t u = 0; u < z->layout.units; u++)
        sizes[u] = z->layout.unit[u].padded;
    s->z = z;
    s->sizes = sizes;
    s->now = &s->trace[0];
    return s;
}

void dt_slots_begin(struct dt_slots *s, bool train)
{
    s->now = &s->trace[train];
    dt_trace_begin(s->now);
}

static struct slot *slot_of(const struct dt_slots *s, size_t unit)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->slot[i]->unit == unit)
            return s->slot[i];
    return NULL;
}

static int arrive(struct dt_slots *s, struct slot *n, struct dt_err *err)
{
    if (!n->on_its_way)
        return 0;
    n->on_its_way = false;
    s->ahead--;
    return dt_zero_wait(s->z, &n->handle, n->unit, err);
}

static int empty(struct dt_slots *s, struct slot *n, struct dt_err *err)
{
    int rc = arrive(s, n, err);
    s->live -= s->sizes[n->unit];
    n->unit = NOBODY;
    n->stays = false;
    return rc;
}

static bool fits(const struct dt_slots *s, size_t more)
{
    return s->z->o.max_live == 0 || s->live + more <= s->z->o.max_live;
}

/* Of those nobody holds, the one that is needed last. */
static struct slot *least_needed(const struct dt_slots *s)
{
    struct slot *best = NULL;
    size_t farthest = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct slot *n = s->slot[i];
        if (n->unit == NOBODY || n->held > 0 || n->stays)
            continue;
        size_t distance = dt_trace_distance(s->now, n->unit, s->sizes);
        if (!best || distance > farthest) {
            best = n;
            farthest = distance;
        }
    }
    return best;
}

static struct slot *add_slot(struct dt_slots *s, struct dt_err *err)
{
    struct slot **more = realloc(s->slot, (s->count + 1) * sizeof(struct slot *));
    if (more)
        s->slot = more;
    struct slot *n = more ? calloc(1, sizeof *n) : NULL;
    if (!n) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu units", s->count + 1);
        return NULL;
    }
    n->unit = NOBODY;
    s->slot[s->count++] = n;
    return n;
}

/* The smallest free slot with room for NEED; else a free one that is too small, or a new one, gets
 * other memory. */
static struct slot *find_memory(struct dt_slots *s, size_t need, struct dt_err *err)
{
    struct slot *best = NULL, *small = NULL;
    for (size_t i = 0; i < s->count; i++) {
        struct slot *n = s->slot[i];
        if (n->unit != NOBODY)
            continue;
        if (n->capacity < need)
            small = n;
        else if (!best || n->capacity < best->capacity)
            best = n;
    }
    if (best)
        return best;
    struct slot *n = small ? small : add_slot(s, err);
    if (!n)
        return NULL;
    dt_coll_release(s->z->coll, n->memory);
    n->capacity = 0;
    n->memory = dt_coll_alloc(s->z->coll, need * s->z->params.elem, DT_OWN, err);
    if (!n->memory) {
        dt_err_wrap(err, "room for a unit of %zu elements", need);
        return NULL;
    }
    n->capacity = need;
    return n;
}

static struct slot *start(struct dt_slots *s, size_t unit, struct dt_err *err)
{
    struct dt_zero *z = s->z;
    struct slot *n = find_memory(s, s->sizes[unit], err);
    if (!n)
        return NULL;
    size_t shard = z->layout.unit[unit].shard;
    void *mine = dt_row_at(z, &z->params, unit, z->rank);
    if (z->params.memory == DT_ROW_HOME) {
        mine = (char *)n->memory + z->rank * shard * z->params.elem;
        dt_offload_lift(z->offload, unit, mine);
    }
    struct dt_coll_call call = {
        .kind = DT_ALL_GATHER, .send = mine, .recv = n->memory, .count = shard, .type = z->elem};
    if (dt_zero_start(z, &call, &n->handle, unit, err) < 0)
        return NULL;
    n->unit = unit;
    n->held = 0;
    n->on_its_way = true;
    n->stays = z->o.persist_below != 0 && z->layout.unit[unit].size <= z->o.persist_below;
    s->live += s->sizes[unit];
    s->most_live = s->live > s->most_live ? s->live : s->most_live;
    s->gathers++;
    s->ahead++;
    return n;
}

static struct slot *make_whole(struct dt_slots *s, size_t unit, struct dt_err *err)
{
    struct slot *n = slot_of(s, unit);
    if (n)
        return n;
    while (!fits(s, s->sizes[unit]) && (n = least_needed(s)))
        if (empty(s, n, err) < 0)
            return NULL;
    return start(s, unit, err);
}

/* Gathers what comes next, as far as prefetch reaches and max_live allows. */
static int look_ahead(struct dt_slots *s, struct dt_err *err)
{
    size_t reach = 0, unit;
    for (size_t i = 0; dt_trace_ahead(s->now, i, &unit); i++) {
        reach += s->sizes[unit];
        if (reach > s->z->o.prefetch)
            return 0;
        if (slot_of(s, unit))
            continue;
        if (s->ahead >= AHEAD_MAX || !fits(s, s->sizes[unit]))
            return 0;
        if (!start(s, unit, err))
            return -1;
    }
    return 0;
}

const void *dt_slots_gather(struct dt_slots *s, size_t unit, struct dt_err *err)
{
    if (dt_trace_note(s->now, unit, err) < 0)
        return NULL;
    struct slot *n = make_whole(s, unit, err);
    if (!n)
        return NULL;
    n->held++;
    if (look_ahead(s, err) < 0 || arrive(s, n, err) < 0)
        return NULL;
    return n->memory;
}

void dt_slots_release(struct dt_slots *s, size_t unit)
{
    struct slot *n = slot_of(s, unit);
    if (!n || n->held == 0 || --n->held > 0 || n->stays)
        return;
    size_t distance = dt_trace_distance(s->now, unit, s->sizes), most = s->z->o.max_reuse_distance;
    bool soon = distance != SIZE_MAX && (most == 0 || distance <= most);
    if (!soon || !fits(s, 0))
        empty(s, n, NULL); /* it has arrived, so this cannot fail */
}

int dt_slots_settle(struct dt_slots *s, struct dt_err *err)
{
    for (size_t i = 0; s && i < s->count; i++)
        if (arrive(s, s->slot[i], err) < 0)
            return -1;
    return 0;
}

int dt_slots_renew(struct dt_slots *s, struct dt_err *err)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->slot[i]->unit != NOBODY && empty(s, s->slot[i], err) < 0)
            return -1;
    for (size_t u = 0; u < s->z->layout.units; u++) {
        if (s->z->o.persist_below == 0 || s->z->layout.unit[u].size > s->z->o.persist_below)
            continue;
        struct slot *n = start(s, u, err);
        if (!n || arrive(s, n, err) < 0)
            return -1;
    }
    return 0;
}

void dt_slots_destroy(struct dt_slots *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        arrive(s, s->slot[i], NULL);
        dt_coll_release(s->z->coll, s->slot[i]->memory);
        free(s->slot[i]);
    }
    for (size_t i = 0; i < 2; i++)
        dt_trace_finish(&s->trace[i]);
    free(s->slot);
    free(s->sizes);
    free(s);
}

size_t dt_slots_bytes(const struct dt_slots *s)
{
    size_t bytes = 0;
    for (size_t i = 0; s && i < s->count; i++)
        bytes += s->slot[i]->capacity * s->z->params.elem;
    return bytes;
}

size_t dt_slots_live(const struct dt_slots *s)
{
    return s->live;
}

size_t dt_slots_gathers(const struct dt_slots *s)
{
    return s->gathers;
}

size_t dt_slots_most_live(const struct dt_slots *s)
{
    return s->most_live;
}
