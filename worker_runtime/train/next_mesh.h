/* SPDX-License-Identifier: Apache-2.0 */
/* Another mesh for a world that the configured one does not fit: a node was lost, and the ranks
 * that are left are no multiple of what share a model.
 *
 * Only a world that follows another one of its job takes one, since in the first it is a mistake
 * that a person should hear of. That a world before this one began is known where a process of this
 * world was in it, where a vault of it has a step of an earlier round, or where train.save_dir has
 * a checkpoint of this job; one of these is enough.
 *
 * What is taken is the fastest of dt_suggest_as_written() for the hosts of this world: the stage of
 * ZeRO and the recomputing of blocks stay the configuration's; the degrees and the micro-batch, and
 * with them 1F1B, keys that are gathered, and rows shared where they can be, are the suggestion's.
 * Where hosts have unequally many ranks, nothing is shared that ranks of one host share: each rank
 * counts as a host of its own. A step has as many samples as before. Every world looks at the
 * configured mesh first, so when the nodes are back it is taken again. */
#ifndef DT_WORKER_RUNTIME_TRAIN_NEXT_MESH_H
#define DT_WORKER_RUNTIME_TRAIN_NEXT_MESH_H

#include "worker_runtime/train/suggest.h"

struct dt_trainer;

/* -- deciding: pure --------------------------------------------------------------------------- */

/* 0: the RANKS of a world, LOCAL of them on this host, can be shared as P says. */
int dt_next_mesh_fits(const struct dt_config_parallel *p, int ranks, int local, struct dt_err *err);

/* What the ranks of a world know together, as each of them says it of itself: of .batch and
 * .most_local the greatest of all counts, of the others the least. */
struct dt_next_world {
    int ranks;
    int least_local, most_local; /* ranks of a host */
    int threads;                 /* of a rank on processors */
    size_t memory;               /* of a host without GPUs, a rank's share */
    int64_t batch;               /* samples of a step in the world before; 0: not known */
};

/* Its hosts. GPU: of each rank; NULL: they compute on processors. One that nobody knows counts as
 * fast as an A100: a job that goes on more slowly than it might is better than one that ends. */
void dt_next_mesh_machine(const struct dt_next_world *w, const struct dt_gpu_memory *gpu,
                          struct dt_machine *out);
/* The mesh of the ranks of M in the place of C's. BATCH: as above; what C says counts more. */
int dt_next_mesh_choose(const struct dt_config *c, const struct dt_machine *m, int64_t batch,
                        struct dt_plan *out, struct dt_err *err);
/* C with that mesh; OUT owns nothing. -1 and *err: it is none that C could have named. */
int dt_next_mesh_put(const struct dt_config *c, const struct dt_plan *p, int64_t batch,
                     struct dt_config *out, struct dt_err *err);
/* "this world has 2 ranks, which cannot share tensors by 2 and layers by 2: tensor 2 from here on"
 */
void dt_next_mesh_say(const struct dt_config *c, const struct dt_plan *p, struct dt_buf *out);

/* -- doing ------------------------------------------------------------------------------------ */

/* T's configuration becomes one with another mesh, which rank 0 chooses. WHY: that the configured
 * one does not fit, as all ranks know, and of failures to take another one the sentence.
 * Collective. */
int dt_next_mesh_take(struct dt_trainer *t, struct dt_err *why);

#endif
