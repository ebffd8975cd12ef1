/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers each stage of a pipeline has: by what they cost, not by their number, as a head
 * may be worth several blocks. Pure: all ranks find the same. */
#ifndef DT_WORKER_RUNTIME_PIPELINE_SPLIT_H
#define DT_WORKER_RUNTIME_PIPELINE_SPLIT_H

#include "worker_runtime/model/shape.h"
#include "worker_runtime/pipeline/order.h"

/* What a unit of a model, of dt_shape_units(), takes. */
struct dt_pipe_unit {
    double forward, input, weight; /* floating-point operations of a sample, by dt_pipe_kind */
    double params;                 /* numbers; a head has its matrix, shared or not */
    double kept;                   /* numbers that a sample leaves for its backward */
};

/* Of samples of so many POSITIONS; RECOMPUTE: blocks go forward again before they go back. The
 * head goes back as soon as it has gone forward, so its forward is all of it. Free the result; NULL
 * and *err: no memory. */
struct dt_pipe_unit *dt_pipe_units(const struct dt_shape *s, size_t positions, bool recompute,
                                   struct dt_err *err);

/* Section S, a stage where these have one chunk each, has blocks FIRST[S] to below FIRST[S + 1],
 * one at least; the first one has the embedding too, and the last the head. FIRST has room for all
 * sections and one more. The slowest section is as fast as can be, and where several ways are alike
 * in this, what the largest has to hold with micro-batches of so many SAMPLES is least. With
 * several chunks borders are moved from there as long as that makes stages more even. LAYERS are
 * at most DT_LAYERS_MOST. Refuses a model of fewer blocks than sections. */
int dt_pipe_split(const struct dt_pipe_plan *p, const struct dt_pipe_unit *units, size_t layers,
                  size_t samples, size_t *first, struct dt_err *err);

#endif
