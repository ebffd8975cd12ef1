/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of the kernel's tables of TCP sockets, /proc/net/tcp and tcp6. Pure. */
#ifndef DT_BASE_TCP_TABLE_H
#define DT_BASE_TCP_TABLE_H

#include "base/addr.h"

#include <stdbool.h>
#include <stdint.h>

/* The address and port of one end, with IPv4 as the last word of a mapped IPv6. */
struct dt_tcp_end {
    uint32_t words[4]; /* in network order, as in memory */
    unsigned port;
};

struct dt_tcp_row {
    struct dt_tcp_end local, remote;
    bool listens;
    unsigned user;
    unsigned long inode; /* 0: no process has it any more */
};

#define DT_TCP_TABLE_MAX ((size_t)64 << 20) /* bytes: some 400,000 sockets */

/* False: LINE, of tcp6 if V6, is none of a socket. */
bool dt_tcp_row_parse(const char *line, bool v6, struct dt_tcp_row *row);

struct dt_addr dt_tcp_end_addr(const struct dt_tcp_end *end);
/* False: ADDR is no address of TCP. */
bool dt_tcp_end_of_addr(const struct dt_addr *addr, struct dt_tcp_end *out);
bool dt_tcp_end_is_same(const struct dt_tcp_end *a, const struct dt_tcp_end *b);

#endif
