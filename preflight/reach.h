/* SPDX-License-Identifier: Apache-2.0 */
/* Whether hosts really reach each other, on a port like those that NCCL and Gloo take: one listens,
 * others connect, ask for its time and send bytes, small and large. */
#ifndef DT_PREFLIGHT_REACH_H
#define DT_PREFLIGHT_REACH_H

#include "base/clock.h"
#include "base/err.h"
#include "preflight/compare.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DT_REACH_MOST ((uint64_t)64 << 20) /* bytes that one message may have */

struct dt_reach_server {
    pid_t pid; /* of the process that answers; 0: none */
    int port;
};

/* A process answers on any free port of all addresses until it is stopped, or the caller is gone.
 */
int dt_reach_serve(struct dt_reach_server *s, struct dt_err *err);
void dt_reach_stop(struct dt_reach_server *s); /* fine on zeroed memory */

/* Connects to PORT of HOST, measures the clock and the trip into NODE, and sends a message that is
 * larger than a packet. -1 and *err within LIMIT for each of these steps: which one failed. */
int dt_reach(const char *host, int port, dt_ms limit, struct dt_compared *node, struct dt_err *err);

/* Bytes a second of a message of SIZE bytes, the best of a few, since a host that is busy for a
 * moment is no slow link; 0: none arrived within LIMIT. */
double dt_reach_rate(const char *host, int port, uint64_t size, dt_ms limit);

/* The address by which this host reaches HOST, as text. False: there is none, or HOST is this host
 * at loopback. */
bool dt_reach_own_address(const char *host, char *out, size_t size);

#endif
