/* SPDX-License-Identifier: Apache-2.0 */
/* A blocking client of the c10d store (dtrun's or PyTorch's, modern generation) for worker
 * programs: no event loop, no threads, no libuv.
 *
 * Keys and values are any bytes and go out as they are given; note that PyTorch's own clients put a
 * "/" in front of every key. Calls give 0, or -1 with *err (which may be NULL):
 *
 *     DT_E_TIMEOUT       the time is over. After a wait, barrier, get or multi_get that waited for
 *                        a key the client stays usable; after any other call the server owes an
 *                        answer, and the client is dead
 *     DT_E_DISCONNECTED  the server is gone; dead
 *     DT_E_PROTOCOL      the server talks nonsense; dead
 *     DT_E_LIMIT         the server sends more than a client takes; dead
 *     DT_E_MEMORY        dead if it happened inside an exchange
 *
 * A dead client says so at once whatever it is asked, and does not reconnect: what it asked for may
 * or may not have happened. A set has no answer and succeeds when the kernel has it; what the
 * server refuses shows as a disconnect in a later call.
 *
 * One thread at a time. */
#ifndef DT_RENDEZVOUS_PROTOCOL_SYNC_CLIENT_H
#define DT_RENDEZVOUS_PROTOCOL_SYNC_CLIENT_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_sync_client;

/* Connects to ADDR ("HOST:PORT", "[IPV6]:PORT", "unix:/PATH") and greets, again and again until
 * TIMEOUT is over: the server may start later, and so may its name. Looking a name up can take
 * longer. TIMEOUT is also that of later calls until dt_sync_client_set_timeout(). NULL and *err on
 * failure. */
struct dt_sync_client *dt_sync_client_open(const char *addr, dt_ms timeout, struct dt_err *err);

void dt_sync_client_close(struct dt_sync_client *c); /* and frees it; NULL is fine */

/* For each call that has no timeout of its own. A get has it for the wait for its key. */
void dt_sync_client_set_timeout(struct dt_sync_client *c, dt_ms timeout);

int dt_sync_client_set(struct dt_sync_client *c, struct dt_bytes key, struct dt_bytes value,
                       struct dt_err *err);

/* Waits until the key is there. VALUE's content is replaced, here and below. */
int dt_sync_client_get(struct dt_sync_client *c, struct dt_bytes key, struct dt_buf *value,
                       struct dt_err *err);

/* DESIRED replaces EXPECTED; an absent key equals an empty EXPECTED. STANDS: what is there
 * afterwards, or EXPECTED when the key is absent and was expected not to be. */
int dt_sync_client_compare_set(struct dt_sync_client *c, struct dt_bytes key,
                               struct dt_bytes expected, struct dt_bytes desired,
                               struct dt_buf *stands, struct dt_err *err);

int dt_sync_client_check(struct dt_sync_client *c, const struct dt_bytes *keys, size_t count,
                         bool *all_there, struct dt_err *err);

/* Waits until all keys are there. One that is over its time is taken back before the call returns,
 * for which the server has some seconds more; a key that comes in that moment counts as come. */
int dt_sync_client_wait(struct dt_sync_client *c, const struct dt_bytes *keys, size_t count,
                        dt_ms timeout, struct dt_err *err);

/* Waits until all keys are there. VALUES holds as many values in that order; walk them with
 * dt_c10d_next_blob(). */
int dt_sync_client_multi_get(struct dt_sync_client *c, const struct dt_bytes *keys, size_t count,
                             struct dt_buf *values, struct dt_err *err);

/* Counts in and waits until WORLD_SIZE have. Who gives up stays counted; a key serves for one
 * barrier. Newer than PyTorch 2.6: an older server ends the connection. */
int dt_sync_client_barrier(struct dt_sync_client *c, struct dt_bytes key, int64_t world_size,
                           dt_ms timeout, struct dt_err *err);

#endif
