/* SPDX-License-Identifier: Apache-2.0 */
/*           all nodes say so                 there is a reason
 *   NONE ---------------------> LOOKING --------------------------> FOUND
 *     ^                            | there is none                     | one moves
 *     +----------------------------+-----------------------------------+ */
#include "agent/backend/fixed/panel.h"

#include "agent/backend/fixed/exchange.h"
#include "base/log.h"
#include "rendezvous/hang/doubt.h"
#include "rendezvous/hang/finding.h"

#include <stdlib.h>

#define key(p, ...) dt_exchange_key(&(p)->key, (p)->prefix, __VA_ARGS__)

#define RUN "job"                  /* of messages: the keys say which */
#define PATIENCE DT_SECOND         /* with those who were asked */
#define LOOK_AGAIN (5 * DT_SECOND) /* after a look that explained nothing */

enum state { NONE, LOOKING, FOUND, STATES };

static const bool may_follow[STATES][STATES] = {
    [NONE] = {[LOOKING] = true},
    [LOOKING] = {[FOUND] = true, [NONE] = true},
    [FOUND] = {[NONE] = true},
};

/* What a node has said. */
struct mark {
    int number; /* 0: nothing, so its workers move */
    dt_ms still, since;
    bool sure, looked;
};

struct dt_panel {
    char *prefix;
    int nodes, size;
    enum state state;
    bool together;
    int mover;      /* the node that was last seen to move: looked at first */
    long long look; /* the last one's number */
    dt_ms asked, not_before;
    struct dt_stances stances;
    struct dt_buf key, value;
    struct mark marks[]; /* by node */
};

static void become(struct dt_panel *p, enum state state)
{
    if (!may_follow[p->state][state])
        dt_bug("a panel is in state %d and cannot be in %d", p->state, state);
    p->state = state; /* the only assignment */
}

struct dt_panel *dt_panel_create(const char *prefix, int nodes)
{
    struct dt_panel *p = calloc(1, sizeof *p + (size_t)nodes * sizeof p->marks[0]);
    if (p && !(p->prefix = strdup(prefix))) {
        free(p);
        return NULL;
    }
    if (p)
        p->nodes = nodes;
    return p;
}

void dt_panel_destroy(struct dt_panel *p)
{
    if (!p)
        return;
    dt_stances_finish(&p->stances);
    dt_buf_finish(&p->key);
    dt_buf_finish(&p->value);
    free(p->prefix);
    free(p);
}

void dt_panel_set_size(struct dt_panel *p, int size)
{
    p->size = size;
}

/* -- the store -------------------------------------------------------------------------------- */

/* A full store refuses; its own clients are told so louder than we could. */
static void put(struct dt_panel *p, struct dt_store *store, struct dt_bytes at,
                const struct dt_message *m)
{
    dt_buf_clear(&p->value);
    dt_message_encode(&p->value, m);
    if (!p->value.bad)
        dt_store_set(store, at, (struct dt_bytes){p->value.at, p->value.len}, NULL);
}

/* The message of that TYPE at a key; to be finished. */
static bool take(struct dt_store *store, struct dt_bytes at, enum dt_message_type type,
                 struct dt_message *m)
{
    struct dt_bytes value;
    return dt_store_get(store, at, &value) && dt_message_read(value, type, m);
}

/* -- do all stand still? ---------------------------------------------------------------------- */

static bool all_know(struct dt_panel *p, struct dt_store *store)
{
    for (int i = 0; i < p->nodes; i++)
        if (!dt_store_has(store, key(p, DT_PANEL_KNOWS, i)))
            return false;
    return true;
}

static void note_still(struct mark *k, const struct dt_message *m, dt_ms now)
{
    bool again = k->number == m->round && k->still == m->still.still;
    *k = (struct mark){.number = m->round,
                       .still = m->still.still,
                       .since = again ? k->since : now,
                       .sure = m->still.sure,
                       .looked = again && k->looked};
}

/* Whether NODE says that its workers stand still. */
static bool stands_still(struct dt_panel *p, struct dt_store *store, int node, dt_ms now)
{
    struct mark *k = &p->marks[node];
    struct dt_message m;
    if (!take(store, key(p, DT_PANEL_STILL, node), DT_MSG_STILL, &m)) {
        *k = (struct mark){0};
        return false;
    }
    note_still(k, &m, now);
    dt_message_finish(&m);
    return k->number > 0 && k->still > 0;
}

static bool all_stand_still(struct dt_panel *p, struct dt_store *store, dt_ms now)
{
    for (int i = 0; i < p->nodes; i++) {
        int node = (p->mover + i) % p->nodes;
        if (stands_still(p, store, node, now))
            continue;
        p->mover = node;
        return false;
    }
    return true;
}

/* For how long all of them have, and whether one of them knows that this is no way to work. */
static dt_ms for_how_long(const struct dt_panel *p, dt_ms now, bool *sure)
{
    dt_ms least = DT_FOREVER;
    *sure = false;
    for (int i = 0; i < p->nodes; i++) {
        dt_ms still = dt_clock_after(p->marks[i].still, now - p->marks[i].since);
        least = still < least ? still : least;
        *sure = *sure || p->marks[i].sure;
    }
    return least;
}

/* -- why? ------------------------------------------------------------------------------------- */

static void begin_look(struct dt_panel *p, struct dt_store *store, dt_ms now)
{
    become(p, LOOKING);
    dt_store_delete(store, key(p, DT_PANEL_FINDING, p->look));
    dt_stances_finish(&p->stances);
    p->look++;
    p->asked = now;
    for (int i = 0; i < p->nodes; i++) {
        struct dt_message m = {.type = DT_MSG_LOOK, .run = RUN, .round = p->marks[i].number};
        m.look.id = p->look;
        p->marks[i].looked = false;
        put(p, store, key(p, DT_PANEL_LOOK, i, p->marks[i].number), &m);
    }
}

/* Whether all have answered. */
static bool take_looks(struct dt_panel *p, struct dt_store *store)
{
    bool all = true;
    for (int i = 0; i < p->nodes; i++) {
        struct dt_message m;
        if (p->marks[i].looked)
            continue;
        p->marks[i].looked = take(store, key(p, DT_PANEL_LOOKED, p->look, i), DT_MSG_LOOKED, &m);
        if (p->marks[i].looked) {
            dt_stances_merge(&p->stances, &m.looked.stances, NULL); /* no memory: unknown */
            dt_message_finish(&m);
        }
        all = all && p->marks[i].looked;
    }
    return all;
}

static void clean_up(struct dt_panel *p, struct dt_store *store)
{
    for (int i = 0; i < p->nodes; i++) {
        dt_store_delete(store, key(p, DT_PANEL_LOOK, i, p->marks[i].number));
        dt_store_delete(store, key(p, DT_PANEL_LOOKED, p->look, i));
    }
}

static void judge(struct dt_panel *p, struct dt_store *store, dt_ms now)
{
    struct dt_message m = {.type = DT_MSG_FINDING, .run = RUN};
    struct dt_hang_finding f;
    bool sure;
    dt_ms still = for_how_long(p, now, &sure);
    dt_hang_judge(&p->stances, p->size, still, &f);
    bool found = f.class != DT_HANG_NONE && (sure || !dt_hang_is_in_doubt(&p->stances));
    if (!found)
        f = (struct dt_hang_finding){
            .class = DT_HANG_NONE, .culprit = -1, .waiting = -1, .sentence = "nothing is known"};
    dt_hang_finding_put(&f, &p->stances, &m.finding);
    clean_up(p, store);
    put(p, store, key(p, DT_PANEL_FINDING, p->look), &m);
    become(p, found ? FOUND : NONE);
    p->not_before = dt_clock_after(now, LOOK_AGAIN);
}

void dt_panel_step(struct dt_panel *p, struct dt_store *store, dt_ms now)
{
    if (!p->together) {
        p->together = all_know(p, store);
        if (p->together)
            dt_store_set(store, key(p, DT_PANEL_TOGETHER), dt_bytes_of("1"), NULL);
    }
    switch (p->state) {
    case NONE:
        if (p->together && p->size > 0 && now >= p->not_before && all_stand_still(p, store, now))
            begin_look(p, store, now);
        break;
    case LOOKING:
        if (take_looks(p, store) || now >= dt_clock_after(p->asked, PATIENCE))
            judge(p, store, now);
        break;
    case FOUND:
        if (!all_stand_still(p, store, now))
            become(p, NONE);
        break;
    case STATES:
        break;
    }
}
