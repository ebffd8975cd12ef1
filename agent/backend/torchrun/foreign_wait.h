/* SPDX-License-Identifier: Apache-2.0 */
/* A node that waits for a round at a rendezvous which a torchrun serves: what the log says
 * meanwhile, and the error when the wait was in vain. */
#ifndef DT_AGENT_BACKEND_TORCHRUN_FOREIGN_WAIT_H
#define DT_AGENT_BACKEND_TORCHRUN_FOREIGN_WAIT_H

#include "agent/backend/torchrun/dynamic_store.h"
#include "rendezvous/client/client.h"

/* Zeroed and given its first block; the client, the strings and SELF are the owner's. */
struct dt_foreign_wait {
    uv_loop_t *loop;
    struct dt_store_client *client;
    const char *run_id, *store; /* store: its address */
    const struct dt_dynamic_self *self;

    dt_ms since, next_note;
    bool ended;
};

void dt_foreign_wait_begin(struct dt_foreign_wait *w);
/* Nothing is said any more. What it asked the client may still be answered. */
void dt_foreign_wait_end(struct dt_foreign_wait *w);

/* Says in the log for whom it waits, as SHARED has it, if that was not said for a while. */
void dt_foreign_wait_note(struct dt_foreign_wait *w, const struct dt_dynamic_store *shared);

/* Why ACT, one of CLOSED, TIMEOUT and FULL, ends it. */
void dt_foreign_wait_refused(const struct dt_foreign_wait *w, enum dt_dynamic_act act,
                             struct dt_err *err);

#endif
