/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's vault: the last steps of this rank, so that a job that loses a worker goes on behind
 * the last step it has done, and not behind its last checkpoint.
 *
 *     image.[ch]   the format, and one file in it: own steps, or a neighbour's
 *     choose.[ch]  which step all can come back to, and who gives which shard
 *     move.[ch]    shards to where they belong in this world
 *     pace.[ch]    how often a step is kept
 *     vault.[ch]   the images of a worker, its own and copies of others', together
 *
 * After a step each rank copies its shards, and what all share, into the slot that does not hold
 * the last step known to be whole on all ranks. The next step's own all-reduce tells who has
 * sealed: when all have, that step is safe, and the other slot may be taken. So a world that dies
 * at any moment leaves one step whole. */
#ifndef DT_WORKER_RUNTIME_VAULT_VAULT_H
#define DT_WORKER_RUNTIME_VAULT_VAULT_H

#include "worker_runtime/vault/choose.h"
#include "worker_runtime/vault/image.h"
#include "worker_runtime/zero/state.h"

struct dt_vault;

struct dt_vault_options {
    struct dt_vault_whose whose; /* its job: dt_vault_job() */
    int rank, world, host;
    int64_t epoch; /* of this world */
    /* Numbers in each array of an image, where ranks have shards of unequal sizes: those of the
     * largest, as images of one step are alike. 0: what this rank's shards have. */
    size_t shard;
    bool meshes; /* worlds of this job may have other meshes: what those have left is no news */
    /* The files, for whoever looks at those of workers that are gone; 0: those that the environment
     * names. */
    int own, peer;
};

/* Takes the files. NULL: there are none, or *err says that there is no memory. */
struct dt_vault *dt_vault_open(const struct dt_vault_options *o, struct dt_err *err);
void dt_vault_close(struct dt_vault *v); /* what it holds stays; NULL is fine */

/* Whether this worker's file has a step of a world before that of EPOCH, of whatever mesh: as an
 * agent makes the file, that world was one of the same job. */
bool dt_vault_has_earlier(int64_t epoch);

/* What an image must be of to be of use: the run, its model, what its numbers mean beside that
 * (MEANING, any text), and the size of the state that ranks share. */
uint64_t dt_vault_job(const char *run_id, const char *meaning, const struct dt_unit *units,
                      size_t count, size_t state_size);

/* -- coming back ------------------------------------------------------------------------------ */

/* All images that are whole, read to the last byte; V may be NULL. SAID gets a line for each that
 * is damaged, or of another job or mesh. */
void dt_vault_list(struct dt_vault *v, struct dt_vault_held held[DT_VAULT_HELD],
                   struct dt_buf *said);
/* A slot that was listed; it stays as it is until the first dt_vault_keep(). */
const struct dt_vault_slot *dt_vault_slot(const struct dt_vault *v, enum dt_vault_source source,
                                          int slot);
/* This world goes on from that step: it is not overwritten until there is one that is safe. */
void dt_vault_begin_from(struct dt_vault *v, int64_t epoch, int64_t step);

/* -- keeping ---------------------------------------------------------------------------------- */

/* What an image takes: numbers in a shard, and bytes of what ranks share. */
size_t dt_vault_bytes(size_t shard, size_t state);
struct dt_vault_need {
    size_t shard, state;
    int images;   /* of a rank: its own, and copies of others' */
    int local;    /* ranks of this host */
    int64_t left; /* bytes that the host has left; -1: nobody knows */
};
/* -1 and *err: the vaults of this host take more memory than is left, beside what they have taken
 * already, of which V is an example. */
int dt_vault_check_room(const struct dt_vault *v, const struct dt_vault_need *n,
                        struct dt_err *err);

/* Bytes of its images that are mapped, and so count as this process's memory too. V may be NULL. */
size_t dt_vault_mapped(const struct dt_vault *v);

/* What images of this world have in common, with SHARD floats in each array; the rank is ours. */
struct dt_vault_facts dt_vault_facts_here(const struct dt_vault *v, uint64_t shard);
/* Copies Z's shards and STATE, of STEP, and seals them: when it is back, this process may die. -1
 * and *err: there is no memory. Not collective. */
int dt_vault_keep(struct dt_vault *v, struct dt_zero *z, int64_t step, struct dt_bytes state,
                  struct dt_err *err);
/* All ranks have STEP of this world: from here on that is what is not overwritten. */
void dt_vault_safe(struct dt_vault *v, int64_t step);
/* For an agent whose workers are gone: rendezvous/protocol/vault_fds.h. An empty NOTE takes back an
 * earlier one. */
void dt_vault_leave_note(struct dt_vault *v, struct dt_bytes note);
/* What of the step kept last, or of the one that this world began from, has been told. */
void dt_vault_told(struct dt_vault *v, enum dt_vault_told what);

/* The file of this worker's own steps, and which slot of it was sealed last; -1: none in this
 * world. For who sends it to a neighbour: the slot stays as it is until two further
 * dt_vault_keep(). */
struct dt_vault_image *dt_vault_own(struct dt_vault *v, int *slot);
/* Image number COPY for another rank's steps; NULL: there is none. Who asks has it until this world
 * is over, and nobody else uses it. What those that nobody asks for hold of earlier worlds goes
 * when a step of this world is safe. */
struct dt_vault_image *dt_vault_peer(struct dt_vault *v, int copy);

#endif
