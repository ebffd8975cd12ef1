/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/fixed/elders.h"

#include "agent/backend/fixed/exchange.h"

#include <stdio.h>
#include <stdlib.h>

#define key(x, ...) dt_exchange_key(&(x)->key, (x)->prefix, __VA_ARGS__)

struct elder {
    bool is; /* this node is one */
    bool counted;
};

struct dt_elders {
    char *prefix;
    int nodes, count;
    struct dt_buf key, value;
    struct elder of[]; /* by node */
};

struct dt_elders *dt_elders_create(const char *prefix, int nodes)
{
    struct dt_elders *e = calloc(1, sizeof *e + (size_t)nodes * sizeof e->of[0]);
    if (e && !(e->prefix = strdup(prefix))) {
        free(e);
        return NULL;
    }
    if (e)
        e->nodes = nodes;
    return e;
}

void dt_elders_destroy(struct dt_elders *e)
{
    if (!e)
        return;
    dt_buf_finish(&e->key);
    dt_buf_finish(&e->value);
    free(e->prefix);
    free(e);
}

/* A copy of what stands at KEY, for it may move when something else is set. */
static bool take(struct dt_elders *e, struct dt_store *store, struct dt_bytes at)
{
    struct dt_bytes value;
    if (!dt_store_get(store, at, &value))
        return false;
    dt_buf_clear(&e->value);
    dt_buf_put(&e->value, value.at, value.len);
    return !e->value.bad;
}

/* A full store refuses; its own clients are told so louder than we could. */
static void put(struct dt_elders *e, struct dt_store *store, struct dt_bytes at)
{
    dt_store_set(store, at, (struct dt_bytes){e->value.at, e->value.len}, NULL);
}

static void put_text(struct dt_elders *e, struct dt_store *store, struct dt_bytes at,
                     const char *text)
{
    dt_buf_clear(&e->value);
    dt_buf_put_str(&e->value, text);
    put(e, store, at);
}

/* -- ranks ------------------------------------------------------------------------------------ */

int dt_elders_hear(struct dt_elders *e, struct dt_store *store)
{
    for (int i = 0; i < e->nodes; i++) {
        if (e->of[i].is || dt_store_has(store, key(e, "torchelastic/role_info/%d", i)) ||
            !take(e, store, key(e, DT_ELDERS_SAID, i)))
            continue;
        e->of[i].is = true;
        e->count++;
        put(e, store, key(e, "torchelastic/role_info/%d", i));
    }
    return e->count;
}

void dt_elders_tell(struct dt_elders *e, struct dt_store *store, const char *master_addr,
                    int master_port)
{
    char port[16];
    if (e->count == 0)
        return;
    for (int i = 0; i < e->nodes; i++)
        if (!e->of[i].is && take(e, store, key(e, "torchelastic/role_info/%d", i)))
            put(e, store, key(e, DT_ELDERS_SAID, i));
    snprintf(port, sizeof port, "%d", master_port);
    put_text(e, store, key(e, "MASTER_ADDR"), master_addr);
    put_text(e, store, key(e, "MASTER_PORT"), port);
}

/* -- the barrier ------------------------------------------------------------------------------ */

static void count_in(struct dt_elders *e, struct dt_store *store)
{
    int64_t came;
    if (dt_store_add(store, key(e, "torchelastic/agent/terminal_state/num_members"), 1, &came,
                     NULL) == 0 &&
        came == e->nodes)
        put_text(e, store, key(e, "torchelastic/agent/terminal_state/last_member"),
                 "<val_ignored>");
}

void dt_elders_count(struct dt_elders *e, struct dt_store *store)
{
    for (int i = 0; e->count > 0 && i < e->nodes; i++)
        if (e->of[i].is && !e->of[i].counted && dt_store_has(store, key(e, DT_ELDERS_MET, i))) {
            e->of[i].counted = true;
            count_in(e, store);
        }
}

void dt_elders_release(struct dt_elders *e, struct dt_store *store)
{
    char text[16];
    for (int i = 0; e->count > 0 && i < e->nodes; i++)
        if (!e->of[i].is) {
            snprintf(text, sizeof text, "%d", i);
            put_text(e, store, key(e, DT_ELDERS_MET, i), text);
        }
}
