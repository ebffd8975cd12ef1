/* SPDX-License-Identifier: Apache-2.0 */
/* The files in memory in which this node's workers keep their last steps: two for each local rank,
 * for its own steps and for copies of another worker's. They are there as long as the agent, so
 * what workers of one attempt leave those of the next one find. See
 * rendezvous/protocol/vault_fds.h.
 *
 * An empty one takes no memory, so there is one for every worker, whatever program it runs. */
#ifndef DT_AGENT_VAULTS_H
#define DT_AGENT_VAULTS_H

struct dt_vaults;

/* For COUNT workers. NULL: there are none, and it was said why, here or of progress pages; what
 * follows accepts that. */
struct dt_vaults *dt_vaults_create(int count);
void dt_vaults_destroy(struct dt_vaults *v);

int dt_vaults_count(const struct dt_vaults *v); /* workers */
/* The descriptors that this worker alone is to keep; they close at exec unless they are told not
 * to. 0: none. */
int dt_vaults_own(const struct dt_vaults *v, int local_rank);
int dt_vaults_peer(const struct dt_vaults *v, int local_rank);

#endif
