/* SPDX-License-Identifier: Apache-2.0 */
/* Agents of PyTorch before 2.4 agree in an older way: each says its role under another key, reads
 * what all others say and works the ranks out by itself, and so at the exit barrier. Where node 0
 * is ours and has the store at hand, it translates between them and the younger ones; without
 * elders that costs a look at a key of each node now and then while they are waited for. Pure: acts
 * on a dt_store when it is called. */
#ifndef DT_AGENT_BACKEND_FIXED_ELDERS_H
#define DT_AGENT_BACKEND_FIXED_ELDERS_H

#include "rendezvous/store/store.h"

#include <stdbool.h>

/* How they spell their keys, behind the client's "/" and the prefix. */
#define DT_ELDERS_SAID "torchelastic/role_info%d"
#define DT_ELDERS_SAID_END "torchelastic/role_info%d.FIN"
#define DT_ELDERS_MET "torchelastic/agent/terminal_state%d"
#define DT_ELDERS_MET_END "torchelastic/agent/terminal_state%d.FIN"

struct dt_elders;

/* PREFIX is copied. NULL: no memory. */
struct dt_elders *dt_elders_create(const char *prefix, int nodes);
void dt_elders_destroy(struct dt_elders *e);

/* To be called again and again while nodes are waited for: what elders said is said for the younger
 * ones too. Answers how many elders there are. */
int dt_elders_hear(struct dt_elders *e, struct dt_store *store);
/* When all have said it: tells the elders what the younger ones said, and where all workers meet.
 */
void dt_elders_tell(struct dt_elders *e, struct dt_store *store, const char *master_addr,
                    int master_port);

/* The same pair for the barrier: elders that came are counted in; and when it has opened, the
 * elders find everybody there. */
void dt_elders_count(struct dt_elders *e, struct dt_store *store);
void dt_elders_release(struct dt_elders *e, struct dt_store *store);

#endif
