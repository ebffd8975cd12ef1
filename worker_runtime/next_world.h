/* SPDX-License-Identifier: Apache-2.0 */
/* A worker between two worlds: it has left the one, says so on its page, and waits until the agent
 * writes the next one there. rendezvous/protocol/page.h has the words. */
#ifndef DT_WORKER_RUNTIME_NEXT_WORLD_H
#define DT_WORKER_RUNTIME_NEXT_WORLD_H

#include "rendezvous/protocol/page.h"

#include <dtrun/page.h>

/* Comes back with a world whose round is not over. -1 and *err: the agent does not end the round
 * that was left, so nobody but this worker has lost a peer; or no world came in ten minutes. */
int dt_next_world_wait(struct dt_page_writer *w, struct dt_page_world *next, struct dt_err *err);

#endif
