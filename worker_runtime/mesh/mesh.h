/* SPDX-License-Identifier: Apache-2.0 */
/* How the ranks of a job share its work: along each dimension of a mesh they share another thing.
 * Ranks are numbered along the last dimension first, so neighbours in it are on one host.
 *
 * Whoever shares work with other ranks asks the axis of its dimension who and how many they are;
 * what the whole job has to agree on goes over the world. */
#ifndef DT_WORKER_RUNTIME_MESH_MESH_H
#define DT_WORKER_RUNTIME_MESH_MESH_H

#include <dtrun/coll.h>

enum dt_mesh_dim {
    DT_MESH_PP, /* pipeline: the blocks */
    DT_MESH_DP, /* data: the samples of a step */
    DT_MESH_CP, /* context: the positions of a sample */
    DT_MESH_EP, /* the experts of a block */
    DT_MESH_TP, /* the tensors of a block */
    DT_MESH_DIMS
};

struct dt_mesh_shape {
    int size[DT_MESH_DIMS]; /* 1 and up */
};

struct dt_mesh_place {
    int index[DT_MESH_DIMS];
};

/* Pure. RANK is from 0 to below the product of all sizes. */
struct dt_mesh_place dt_mesh_place(const struct dt_mesh_shape *s, int rank);
int dt_mesh_rank(const struct dt_mesh_shape *s, const struct dt_mesh_place *p);

/* A rank and those that differ from it in one dimension alone. */
struct dt_mesh_axis {
    int size, index;
    /* In the order of their indices. NULL: one of several ranks, alone; but for data, whose group
     * is there in any case. */
    struct dt_coll *group;
};

struct dt_mesh {
    struct dt_mesh_axis axis[DT_MESH_DIMS];
    /* Along several dimensions together; their groups are there in any case. */
    struct dt_mesh_axis replicas; /* data and context: the ranks that have the same parameters,
                                     whose gradients are summed up, and which share the optimizer */
    struct dt_mesh_axis samples;  /* data and experts: those that have other samples of a step */
    struct dt_mesh_axis learners; /* all three: those that learn from the step's tokens with the
                                     blocks, and the parts of tensors, that are here */
    struct dt_coll *own[3];       /* of their groups those that are no axis' and not the world */
    struct dt_coll *world;        /* the caller's */
};

/* Collective over WORLD, which outlives M and is the group of each dimension that has all ranks. A
 * shape of more or fewer ranks than WORLD has is refused. M is to be closed where this failed, too.
 */
int dt_mesh_open(struct dt_mesh *m, const struct dt_mesh_shape *s, struct dt_coll *world,
                 struct dt_err *err);
void dt_mesh_close(struct dt_mesh *m);

#endif
