/* SPDX-License-Identifier: Apache-2.0 */
/* For which keys of the job's store the workers of this node wait. A worker shows only that it
 * waits for the store; the store's server knows for what, and by the worker's end of the connection
 * whose wait it is. It is asked once in a look, and only if a worker waits for it. */
#ifndef DT_AGENT_HANG_KEYS_H
#define DT_AGENT_HANG_KEYS_H

#include "agent/look/look.h"
#include "base/buf.h"
#include "rendezvous/protocol/key_waits.h"
#include "rendezvous/protocol/stance.h"

/* Set PORT and zero the rest. */
struct dt_keys {
    int port; /* of the job's store, which an agent serves; 0: none does */
    bool asked;
    struct dt_key_waits *waits; /* NULL: nobody answered */
};
void dt_keys_finish(struct dt_keys *k);

/* Adds to S, which LOOK made, the keys for which that worker waits, and to STACKS a line on them.
 * Blocks for DT_KEYS_PATIENCE at most. */
#define DT_KEYS_PATIENCE 300
void dt_keys_tell(struct dt_keys *k, const struct dt_look *look, struct dt_stance *s,
                  struct dt_buf *stacks);

/* -- its parts that do not ask; pure -- */

/* The wait of a main thread for a peer at PORT; NULL: there is none. */
const struct dt_waiting *dt_keys_waiting(const struct dt_look *look, int port);

/* W, by which S was made, is for a key, if WAITS has it. */
void dt_keys_put(const struct dt_key_waits *waits, const struct dt_waiting *w, struct dt_stance *s,
                 struct dt_buf *stacks);

#endif
