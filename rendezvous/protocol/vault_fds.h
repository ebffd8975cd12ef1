/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory that an agent makes for each of its workers and keeps for as long as it lives, so
 * that what a worker puts there outlives the worker. They are empty at first; what they hold is
 * between workers (worker_runtime/vault/image.h), and an agent looks at nothing but the note.
 *
 * The environment has their descriptors' numbers. A worker that is given none has no vault.
 *
 * The note stands behind all else in a worker's own file: how to make a checkpoint of what the
 * files of a node hold, for when no worker is left that would. It is 32 bits of length in the
 * machine's order, 0 where there is nothing to save, and strings that each end with a zero byte: a
 * folder, a program, and its arguments from argv[0] on. The agent starts that program in that
 * folder. It inherits the files, two for each worker, and DT_VAULT_FILES_ENV has their numbers with
 * commas between them: a worker's own, its copies, the next worker's own, ...; TORCHELASTIC_RUN_ID
 * and DTRUN_ROUND are those of the last round. What it prints is for people. */
#ifndef DT_RENDEZVOUS_PROTOCOL_VAULT_FDS_H
#define DT_RENDEZVOUS_PROTOCOL_VAULT_FDS_H

#include <stdint.h>

#define DT_VAULT_OWN_ENV "DTRUN_VAULT_FD"       /* this worker's steps */
#define DT_VAULT_PEER_ENV "DTRUN_VAULT_PEER_FD" /* copies of another worker's */
#define DT_VAULT_FILES_ENV "DTRUN_VAULT_FILES"

#define DT_VAULT_NOTE_AT ((uint64_t)1 << 41)
#define DT_VAULT_NOTE_MAX 65536

#endif
