/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a group on other hosts: a wire, connections made when first used, and news: who
 * leaves says so to all it is connected with, and who fails says who is to blame. */
#ifndef DT_WORKER_RUNTIME_COLL_HOSTS_NET_H
#define DT_WORKER_RUNTIME_COLL_HOSTS_NET_H

#include "worker_runtime/coll/hosts/board.h"
#include "worker_runtime/coll/wire/wire.h"

struct dt_net;

enum dt_net_tag { DT_NET_NEWS, DT_NET_COLL, DT_NET_MAIL }; /* MAIL: sends and receives of users */

/* Tells the others where this rank is to be reached; ROSTER, BOARD and M outlive it. */
struct dt_net *dt_net_open(const struct dt_coll_group *g, const struct dt_roster *roster,
                           struct dt_board *board, struct dt_meeting *m, struct dt_err *err);
/* Takes leave, with BLAME when something failed, else NULL. What was under way is let go. */
void dt_net_close(struct dt_net *n, const struct dt_hosts_blame *blame);

int dt_net_send(struct dt_net *n, int rank, enum dt_net_tag tag, const void *bytes, size_t len,
                struct dt_wire_request **out, struct dt_err *err);
int dt_net_recv(struct dt_net *n, int rank, enum dt_net_tag tag, void *bytes, size_t len,
                struct dt_wire_request **out, struct dt_err *err);
int dt_net_test(struct dt_net *n, struct dt_wire_request *r, struct dt_err *err); /* see wire.h */

/* Moves what is under way. True: the group is lost, and *BLAME says by whom. */
bool dt_net_look(struct dt_net *n, struct dt_hosts_blame *blame);
/* Sleeps until something happens on the wire or a rank of this host ends, at most MS. */
void dt_net_doze(struct dt_net *n, int ms);

#endif
