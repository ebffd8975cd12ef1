/* SPDX-License-Identifier: Apache-2.0 */
/* The life of dtrun-rendezvous: start, signals, reload, the chain of its end. This folder is the
 * program alone: its options, and systemd. The store and the runs that it serves are beside. */
#ifndef DT_RENDEZVOUS_DAEMON_DAEMON_H
#define DT_RENDEZVOUS_DAEMON_DAEMON_H

#include "rendezvous/daemon/options.h"

/* Serves until SIGTERM or SIGINT. Takes O over, and reads ARGV again on SIGHUP. 0: it ended as it
 * was told to. */
int dt_daemon_run(struct dt_rendezvous_options *o, int argc, char *const *argv, struct dt_err *err);

#endif
