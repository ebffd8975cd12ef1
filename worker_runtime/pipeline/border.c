/* SPDX-License-Identifier: Apache-2.0 */
/* One group serves both ways, since whoever waits in it moves all that is under way there. Towards
 * a neighbour only one way goes, but of two stages: there messages of both ways stand in one queue,
 * and order.h says that they are taken in the order in which they were given. */
#include "worker_runtime/pipeline/border.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { WAYS = 2, AHEAD = 2 };

/* What goes one way. Rooms are used in turn: one is free when what was in it has been taken. */
struct way {
    char *room[AHEAD];
    struct dt_coll_handle given[AHEAD], expected[AHEAD];
    bool under_way[AHEAD];
    size_t next;
    size_t expects, taken; /* messages so far */
};

struct dt_border {
    struct dt_coll *group;
    enum dt_dtype type;
    size_t most;
    void *memory; /* NULL: what is given is sent from where it is */
    struct way way[WAYS];
    uint64_t ns;
};

/* The neighbour to which a way goes, or from which it comes. */
static int neighbour(const struct dt_border *b, enum dt_way way, bool comes)
{
    int size = dt_coll_size(b->group);
    return (dt_coll_rank(b->group) + size + ((way == DT_ONWARD) == comes ? -1 : 1)) % size;
}

/* One queue has two rooms: as many letters may be under way on a host while nobody looks after
 * them (coll/host/message.c). */
static struct way *rooms_of(struct dt_border *b, enum dt_way way)
{
    return &b->way[dt_coll_size(b->group) == 2 ? DT_ONWARD : way];
}

struct dt_border *dt_border_open(struct dt_coll *g, size_t most, enum dt_dtype type, bool there,
                                 struct dt_err *err)
{
    size_t bytes = most * dt_dtype_size(type);
    /* From memory of the group the neighbour reads what it takes without a copy in between. First,
     * as all stages make this call. */
    void *memory = there ? NULL : dt_coll_alloc(g, WAYS * AHEAD * bytes, DT_OWN, err);
    if (!memory && !there) {
        dt_err_wrap(err, "what stages hand each other");
        return NULL;
    }
    struct dt_border *b = calloc(1, sizeof *b);
    if (!b) {
        dt_coll_release(g, memory);
        dt_err_set(err, DT_E_MEMORY, "no memory for what stages hand each other");
        return NULL;
    }
    *b = (struct dt_border){.group = g, .type = type, .most = most, .memory = memory};
    for (size_t i = 0; memory && i < WAYS * AHEAD; i++)
        b->way[i / AHEAD].room[i % AHEAD] = (char *)b->memory + i * bytes;
    return b;
}

static bool is_under_way(const struct dt_border *b)
{
    bool any = false;
    for (const struct way *w = b->way; w < b->way + WAYS; w++)
        for (size_t room = 0; room < AHEAD; room++)
            any = any || w->under_way[room] || w->expects > w->taken;
    return any;
}

void dt_border_close(struct dt_border *b)
{
    if (!b)
        return;
    if (is_under_way(b))
        dt_coll_abort(b->group, "a stage has ended in the midst of a step");
    else
        dt_coll_release(b->group, b->memory);
    free(b);
}

int dt_border_expect(struct dt_border *b, enum dt_way way, void *to, size_t count,
                     struct dt_err *err)
{
    struct way *w = &b->way[way];
    struct dt_coll_call call = {.kind = DT_RECV,
                                .recv = to,
                                .count = count,
                                .type = b->type,
                                .peer = neighbour(b, way, true)};
    assert(w->expects - w->taken < AHEAD && count <= b->most);
    if (dt_coll_start(b->group, &call, &w->expected[w->expects % AHEAD], err) < 0)
        return -1;
    w->expects++;
    return 0;
}

int dt_border_take(struct dt_border *b, enum dt_way way, struct dt_err *err)
{
    struct way *w = &b->way[way];
    int64_t from = dt_clock_monotonic_ns();
    assert(w->expects > w->taken);
    int rc = dt_coll_wait(b->group, &w->expected[w->taken++ % AHEAD], err);
    b->ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    return rc;
}

static int clear_room(struct dt_border *b, struct way *w, size_t room, struct dt_err *err)
{
    int64_t from = dt_clock_monotonic_ns();
    if (!w->under_way[room])
        return 0;
    w->under_way[room] = false;
    int rc = dt_coll_wait(b->group, &w->given[room], err);
    b->ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    return rc;
}

int dt_border_give(struct dt_border *b, enum dt_way way, const void *from, size_t count,
                   struct dt_err *err)
{
    struct way *w = rooms_of(b, way);
    size_t room = w->next;
    assert(count <= b->most);
    if (clear_room(b, w, room, err) < 0)
        return -1;
    if (b->memory && count > 0)
        memcpy(w->room[room], from, count * dt_dtype_size(b->type));
    struct dt_coll_call call = {.kind = DT_SEND,
                                .send = b->memory ? w->room[room] : from,
                                .count = count,
                                .type = b->type,
                                .peer = neighbour(b, way, false)};
    if (dt_coll_start(b->group, &call, &w->given[room], err) < 0)
        return -1;
    w->under_way[room] = true;
    w->next = (room + 1) % AHEAD;
    return 0;
}

/* A device's group begins all that was started when one of it is waited for. */
int dt_border_send(struct dt_border *b, struct dt_err *err)
{
    return b->memory ? 0 : dt_border_finish(b, err);
}

int dt_border_finish(struct dt_border *b, struct dt_err *err)
{
    for (int way = 0; way < WAYS; way++)
        for (size_t room = 0; room < AHEAD; room++)
            if (clear_room(b, &b->way[way], room, err) < 0)
                return -1;
    return 0;
}

/* On one host neighbours take what was given out of memory that they see. */
int dt_border_halt(struct dt_border *b, struct dt_err *err)
{
    return dt_coll_shares_all(b->group) ? 0 : dt_border_finish(b, err);
}

uint64_t dt_border_ns(const struct dt_border *b)
{
    return b->ns;
}
