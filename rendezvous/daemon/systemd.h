/* SPDX-License-Identifier: Apache-2.0 */
/* What a daemon and systemd say to each other: sockets handed over, readiness, status, watchdog.
 * The protocol is a few environment variables and a datagram; spoken here, it costs no library.
 * Without systemd all of it does nothing. */
#ifndef DT_RENDEZVOUS_DAEMON_SYSTEMD_H
#define DT_RENDEZVOUS_DAEMON_SYSTEMD_H

#include "base/clock.h"
#include "base/err.h"

/* How many listening sockets were handed to this very process; they are the descriptors from *FIRST
 * on, made close-on-exec. Forgets the variables, so that a second call and our children find none.
 */
int dt_systemd_take_sockets(int *first);

/* Sends "READY=1", "STATUS=...", "STOPPING=1", several lines at will. 0 also when nobody listens
 * for it. */
int dt_systemd_notify(struct dt_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* How often WATCHDOG=1 is to be sent: half of what systemd allows. 0: no watchdog. */
dt_ms dt_systemd_watchdog(void);

#endif
