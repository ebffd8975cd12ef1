/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hang/keys.h"

#include "base/str.h"
#include "rendezvous/protocol/sync_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(DT_KEY_WAIT_TEXT_MAX <= DT_STANCE_OBJECT_MAX, "keys fit into a stance");

void dt_keys_finish(struct dt_keys *k)
{
    free(k->waits);
    *k = (struct dt_keys){0};
}

static bool leads_to(const struct dt_waiting *w, const char *port)
{
    const char *colon = strrchr(w->what, ':');
    return w->kind == DT_WAITING_SOCKET && *w->here && colon && strcmp(colon, port) == 0;
}

const struct dt_waiting *dt_keys_waiting(const struct dt_look *look, int port)
{
    char text[16];
    snprintf(text, sizeof text, ":%d", port);
    for (size_t i = 0; port > 0 && i < look->len; i++) {
        const struct dt_look_process *p = &look->at[i].process;
        for (size_t k = 0; k < p->len; k++)
            if (p->tasks[k].tid == p->pid && leads_to(&p->tasks[k].waiting, text))
                return &p->tasks[k].waiting;
    }
    return NULL;
}

void dt_keys_put(const struct dt_key_waits *waits, const struct dt_waiting *w, struct dt_stance *s,
                 struct dt_buf *stacks)
{
    char time[32];
    const struct dt_key_wait *found = dt_key_waits_find(waits, w->here);
    if (!found)
        return;
    bool by_itself = s->doing == DT_DOING_SOCKET && strcmp(s->object, w->what) == 0;
    if (by_itself) {
        s->doing = DT_DOING_STORE;
        *s->object = '\0';
    }
    if (s->doing == DT_DOING_STORE || s->doing == DT_DOING_COLLECTIVE)
        snprintf(s->keys, sizeof s->keys, "%s", found->keys);
    dt_buf_printf(stacks, "the job's store: waits for %s since %s\n", found->keys,
                  dt_str_from_duration(found->waited, time, sizeof time));
}

/* A server that does not know the key, as PyTorch's or an older one of ours, says so at once. */
static bool ask(struct dt_sync_client *c, struct dt_buf *value)
{
    struct dt_bytes key = dt_bytes_of(DT_KEY_WAITS);
    bool there = false;
    return dt_sync_client_check(c, &key, 1, &there, NULL) == 0 && there &&
           dt_sync_client_get(c, key, value, NULL) == 0;
}

static struct dt_key_waits *ask_at(const char *store)
{
    struct dt_buf value = {0};
    struct dt_key_waits *waits = calloc(1, sizeof *waits);
    struct dt_sync_client *c = waits ? dt_sync_client_open(store, DT_KEYS_PATIENCE, NULL) : NULL;
    bool there = c && ask(c, &value) &&
                 dt_key_waits_get(waits, (struct dt_bytes){value.at, value.len}, NULL) == 0;
    dt_sync_client_close(c);
    dt_buf_finish(&value);
    if (there)
        return waits;
    free(waits);
    return NULL;
}

void dt_keys_tell(struct dt_keys *k, const struct dt_look *look, struct dt_stance *s,
                  struct dt_buf *stacks)
{
    const struct dt_waiting *w = dt_keys_waiting(look, k->port);
    if (w && !k->asked) {
        k->asked = true;
        k->waits = ask_at(w->what);
    }
    if (w && k->waits)
        dt_keys_put(k->waits, w, s, stacks);
}
