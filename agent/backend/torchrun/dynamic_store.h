/* SPDX-License-Identifier: Apache-2.0 */
/* Where the state of a rendezvous is kept: under one key of a c10d store. A write takes effect only
 * if nobody wrote since the state was read. */
#ifndef DT_AGENT_BACKEND_TORCHRUN_DYNAMIC_STORE_H
#define DT_AGENT_BACKEND_TORCHRUN_DYNAMIC_STORE_H

#include "agent/backend/torchrun/dynamic.h"
#include "rendezvous/client/client.h"

/* Zeroed and given its first block; the client and the string are the owner's. One thing is under
 * way at a time. ON_SYNCED comes from the loop, once for each that was begun. */
struct dt_dynamic_store {
    struct dt_store_client *client;
    const char *run_id;
    dt_ms timeout;
    /* The state is what the store has, whether it was written or somebody was faster. */
    void (*on_synced)(struct dt_dynamic_store *d, const struct dt_err *err);

    struct dt_dynamic_state state; /* the owner's to change before a write */
    bool begun;                    /* somebody has written one. Nothing is to be written before */
    bool opened, syncing;
    struct dt_buf key, token, text; /* token: the state as it was read, text: to be written */
};

void dt_dynamic_store_finish(struct dt_dynamic_store *d);

int dt_dynamic_store_read(struct dt_dynamic_store *d, struct dt_err *err);
int dt_dynamic_store_write(struct dt_dynamic_store *d, struct dt_err *err);

#endif
