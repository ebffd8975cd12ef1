/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory that an agent makes for each of its workers and keeps for as long as it lives, so
 * that what a worker puts there outlives the worker. They are empty at first; what they hold is
 * between workers, and no agent looks inside: worker_runtime/vault/image.h.
 *
 * The environment has their descriptors' numbers. A worker that is given none has no vault. */
#ifndef DT_RENDEZVOUS_PROTOCOL_VAULT_FDS_H
#define DT_RENDEZVOUS_PROTOCOL_VAULT_FDS_H

#define DT_VAULT_OWN_ENV "DTRUN_VAULT_FD"       /* this worker's steps */
#define DT_VAULT_PEER_ENV "DTRUN_VAULT_PEER_FD" /* copies of another worker's */

#endif
