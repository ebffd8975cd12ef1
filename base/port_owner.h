/* SPDX-License-Identifier: Apache-2.0 */
/* Who has a TCP port: the kernel's table of sockets says which socket, the descriptors of processes
 * say whose. For the sentence about a port that is taken; slow, and only as good as what this user
 * may see. */
#ifndef DT_BASE_PORT_OWNER_H
#define DT_BASE_PORT_OWNER_H

#include "base/addr.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct dt_port_owner {
    pid_t pid; /* 0: somebody, but we may not see who */
    char program[64];
};

/* Who keeps us from listening on ADDR. False: no socket stands there (any more). */
bool dt_port_owner_find(const struct dt_addr *addr, struct dt_port_owner *out);

/* "127.0.0.1:29500 is in use by pid 4242 (python3)", or "... by another program" where more cannot
 * be known. Returns OUT. */
const char *dt_port_owner_text(const struct dt_addr *addr, char *out, size_t size);

/* The pure part: looks through the lines of /proc/net/tcp or, V6, /proc/net/tcp6 for a socket in
 * the way of one at ADDR; one that listens is preferred. Returns its inode, or 0. */
unsigned long dt_port_owner_inode(const char *table, bool v6, const struct dt_addr *addr);

#endif
