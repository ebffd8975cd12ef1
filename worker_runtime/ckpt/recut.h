/* SPDX-License-Identifier: Apache-2.0 */
/* Between shards of a model whose tensors a mesh cuts, and shards of whole tensors over all ranks,
 * which is what files hold: elements go straight from who has them to who writes them, and back.
 * So a file is the same whatever the mesh, and none of it is read or written in small pieces.
 *
 * Each rank has its part of every tensor of its stage, and of that, its data group's shard. */
#ifndef DT_WORKER_RUNTIME_CKPT_RECUT_H
#define DT_WORKER_RUNTIME_CKPT_RECUT_H

#include "worker_runtime/ckpt/checkpoint.h"
#include "worker_runtime/mesh/mesh.h"

struct dt_recut {
    /* What a rank of each stage has, tensor by tensor, as M->tensors are; all ranks of a stage have
     * parts of the same sizes, some with padding at their end, and none of other stages' tensors.
     * Where ranks share experts, for each stage what each of those has who share them. */
    struct dt_tensor *const *parts;
    struct dt_mesh_shape mesh; /* context is 1: it is among the data */
    struct dt_coll *world;
};

/* What an exchange takes beside the shards, of a model M that has a recut and is in so many UNITS.
 * Not collective: ranks agree that all have it before they begin. NULL and *err: there is no
 * memory. */
struct dt_recut_room;
struct dt_recut_room *dt_recut_room_open(const struct dt_ckpt_model *m, size_t units,
                                         struct dt_err *err);
void dt_recut_room_close(struct dt_recut_room *x); /* NULL is fine */

/* HERE: this rank's shards of its parts, laid out over the ranks that share data; FILES: those of
 * whole tensors over the world. Collective over that, and -1 says that it is broken. */
int dt_recut_to_files(struct dt_recut_room *x, const struct dt_zero_state *here,
                      const struct dt_zero_state *files, struct dt_err *err);
int dt_recut_from_files(struct dt_recut_room *x, const struct dt_zero_state *files,
                        const struct dt_zero_state *here, struct dt_err *err);

/* Of the ranks of all stages, whose parts are in so many UNITS, the largest number of elements that
 * all shards of one have together. */
int dt_recut_shard(const struct dt_ckpt_model *m, size_t units, size_t *most, struct dt_err *err);

/* Part INDEX of PARTS of M's tensor T. Pure. */
void dt_recut_part(const struct dt_ckpt_model *m, const struct dt_tensor *t, size_t parts,
                   size_t index, struct dt_tensor_part *out);

/* Where element AT of this rank's part of a tensor is in the tensor, and how many of *COUNT stand
 * behind each other there as here: those that *COUNT is then. DT_PADDING: nowhere, they are 0. M
 * may have no recut. Pure. */
size_t dt_recut_place(const struct dt_ckpt_model *m, size_t tensor, size_t at, size_t *count);

#endif
