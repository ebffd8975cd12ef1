/* SPDX-License-Identifier: Apache-2.0 */
/* From one layout to another: which stretches a rank reads, and where they go. All layouts of a
 * model have the same payload space, so this is only another cut of the same row. Pure. */
#ifndef DT_WORKER_RUNTIME_ZERO_RESHARD_H
#define DT_WORKER_RUNTIME_ZERO_RESHARD_H

#include "worker_runtime/zero/layout.h"

/* What RANK of a layout owns, cut where something else begins: zero it but for the first two, and
 * call a function below until it gives false. */
struct dt_reshard {
    const struct dt_layout *layout;
    size_t rank;
    /* the rest is the cursor's */
    size_t next, done;
    struct dt_stretch stretch;
};

/* Cut by tensors, as files have them: in the order of payload space, without gaps. */
struct dt_reshard_tensor {
    size_t unit, offset, count; /* elements */
};
struct dt_reshard_part {
    size_t tensor, first, count; /* of the tensor's elements */
    size_t payload_at;           /* of the first of them: its place in a file of all tensors */
    size_t shard_at;             /* among all shards of the rank in a row */
};
bool dt_reshard_by_tensor(struct dt_reshard *r, const struct dt_reshard_tensor *tensors,
                          size_t count, struct dt_reshard_part *out);

/* Cut by who owned it in OLD, a layout of the same elements for another world (or other units). */
struct dt_reshard_move {
    size_t from_rank, from_at; /* among all of that rank's shards in a row */
    size_t to_at, count;
};
bool dt_reshard_by_owner(struct dt_reshard *r, const struct dt_layout *old,
                         struct dt_reshard_move *out);

#endif
