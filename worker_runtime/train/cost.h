/* SPDX-License-Identifier: Apache-2.0 */
/* What a step costs that ranks share in one way or another: a model of it, by which ways are
 * compared. FLOPs and bytes are counted; how fast they go follows from what makers of machines
 * tell, and from how near to that other programs have come. Pure. */
#ifndef DT_WORKER_RUNTIME_TRAIN_COST_H
#define DT_WORKER_RUNTIME_TRAIN_COST_H

#include "worker_runtime/mesh/mesh.h"
#include "worker_runtime/model/shape.h"
#include "worker_runtime/train/machine.h"

/* One way to share the work of a step. */
struct dt_plan {
    struct dt_mesh_shape mesh;
    int stage;      /* of ZeRO */
    bool recompute; /* all blocks on the way back */
    bool sequence;  /* who shares tensors shares rows, too: its time is not modelled */
    int64_t micro, accumulation;
};

/* What it is the work of. */
struct dt_step_work {
    const struct dt_shape *shape;
    const struct dt_shape *part; /* what a plan's tensor dimension makes of it */
    size_t positions, elem;      /* of a sample; bytes of a number */
    double adapters;             /* parameters of theirs, the only ones trained; 0: no adapters */
    double frozen;               /* bytes of the model that adapters are for; else 0 */
    bool float_sums;             /* gradients of several micro-batches are added up in float */
};

struct dt_cost {
    double seconds; /* of a step */
    double idle;    /* share of them in which a rank waits for other stages of the pipeline */
    double sent;    /* bytes that a rank sends in it */
    double mfu;     /* of what its machine could do */
};

/* Bytes that a rank sends in a step, along each dimension. */
struct dt_traffic {
    double bytes[DT_MESH_DIMS];
};

/* As "tensor 8, pipeline 2, data 4, stage 1, activation_checkpointing"; cut to SIZE. */
const char *dt_plan_say(const struct dt_plan *p, char *out, size_t size);
struct dt_traffic dt_plan_traffic(const struct dt_step_work *work, const struct dt_plan *p,
                                  const struct dt_machine *m);
struct dt_cost dt_plan_cost(const struct dt_step_work *work, const struct dt_plan *p,
                            const struct dt_machine *m);

#endif
