/* SPDX-License-Identifier: Apache-2.0 */
/* A stream socket for who may block, but never past a deadline. Signals that interrupt a call
 * change nothing.
 *
 * Calls give 0, or -1 with a bare cause for the caller to wrap: DT_E_TIMEOUT, DT_E_DISCONNECTED or
 * DT_E_MEMORY. Deadlines are times of dt_clock_monotonic(). */
#ifndef DT_RENDEZVOUS_PROTOCOL_SYNC_SOCKET_H
#define DT_RENDEZVOUS_PROTOCOL_SYNC_SOCKET_H

#include "base/addr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>

struct dt_sync_socket {
    int fd; /* -1: not connected */
};

int dt_sync_socket_connect(struct dt_sync_socket *s, const struct dt_addr *to, dt_ms deadline,
                           struct dt_err *err);
void dt_sync_socket_disconnect(struct dt_sync_socket *s);

int dt_sync_socket_send(const struct dt_sync_socket *s, struct dt_bytes bytes, dt_ms deadline,
                        struct dt_err *err);

/* Appends to INTO what has come, after waiting for it. */
int dt_sync_socket_receive(const struct dt_sync_socket *s, struct dt_buf *into, dt_ms deadline,
                           struct dt_err *err);

/* Does not wait. *INPUT: there are bytes, or the connection's end, to be received. */
int dt_sync_socket_peek(const struct dt_sync_socket *s, bool *input, struct dt_err *err);

/* Sleeps until then. */
void dt_sync_socket_pause(dt_ms until);

#endif
