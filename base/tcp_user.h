/* SPDX-License-Identifier: Apache-2.0 */
/* Which user of this host has the other end of a TCP connection that does not leave it. The kernel
 * writes that beside each socket; as long as a process has the socket it is the user who made it.
 */
#ifndef DT_BASE_TCP_USER_H
#define DT_BASE_TCP_USER_H

#include "base/addr.h"

#include <stdbool.h>
#include <sys/types.h>

enum dt_tcp_user {
    DT_TCP_USER_FOUND,
    DT_TCP_USER_GONE,   /* nobody has that end any more, or it was never here */
    DT_TCP_USER_HIDDEN, /* the kernel's tables cannot be read here */
};

/* Who has the end THEIRS of the connection whose other end is OURS, which must be open. Where the
 * kernel does not answer netlink's sock_diag(7) this reads all of its tables of sockets. */
enum dt_tcp_user dt_tcp_user_find(const struct dt_addr *theirs, const struct dt_addr *ours,
                                  uid_t *user);

/* The pure part: the same in the lines of /proc/net/tcp or, V6, /proc/net/tcp6. */
bool dt_tcp_user_in(const char *table, bool v6, const struct dt_addr *theirs,
                    const struct dt_addr *ours, uid_t *user);

#endif
