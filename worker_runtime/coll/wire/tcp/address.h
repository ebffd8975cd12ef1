/* SPDX-License-Identifier: Apache-2.0 */
/* Where a rank is to be reached over TCP, and what a stranger does not know: as its peers get it by
 * way of the job's store. */
#ifndef DT_WORKER_RUNTIME_COLL_WIRE_TCP_ADDRESS_H
#define DT_WORKER_RUNTIME_COLL_WIRE_TCP_ADDRESS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define DT_TCP_SECRET 16
#define DT_TCP_CARD 64 /* bytes of a card when it travels */
#define DT_TCP_TEXT 64

struct dt_tcp_secrets { /* fresh random bytes of each wire, so also of each group and epoch */
    uint8_t knock[DT_TCP_SECRET];  /* who connects says this first, */
    uint8_t answer[DT_TCP_SECRET]; /* and is told this before it sends anything else */
};

struct dt_tcp_card {
    struct sockaddr_storage at;
    socklen_t len;
    struct dt_tcp_secrets secrets;
};

/* The one address, port 0, that other hosts shall use. DTRUN_COLL_ADDR in the environment names it:
 * an interface ("eth1"), an address, or a name of this host. Without it, it is the one from which
 * this host talks to MASTER_ADDR, else the one from which it talks to the world, else that of any
 * interface that is up, else of loopback. IPv4 or IPv6, whichever MASTER_ADDR has. */
int dt_tcp_address_choose(struct sockaddr_storage *out, socklen_t *len, struct dt_err *err);

/* "10.0.0.7 port 4711", "fd00::7 port 4711" */
void dt_tcp_address_print(const struct sockaddr_storage *at, char out[DT_TCP_TEXT]);

void dt_tcp_card_write(const struct dt_tcp_card *c, uint8_t out[DT_TCP_CARD]);
int dt_tcp_card_read(struct dt_tcp_card *c, const void *bytes, size_t len, struct dt_err *err);

#endif
