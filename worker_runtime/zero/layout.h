/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank owns which element. Parameters stand in their units one behind the other; a unit is
 * padded at its end so that it divides by the ranks into shards of a multiple of DT_SHARD_ALIGN
 * elements. *Payload* space is the same row without any padding: what files hold, and the same for
 * every world. Pure. */
#ifndef DT_WORKER_RUNTIME_ZERO_LAYOUT_H
#define DT_WORKER_RUNTIME_ZERO_LAYOUT_H

#include <dtrun/zero.h>

#define DT_SHARD_ALIGN 16

struct dt_layout_unit {
    size_t payload_at; /* of its first element in payload space */
    size_t size;       /* elements without padding */
    size_t padded;     /* world * shard */
    size_t shard;      /* elements of one rank's part, padding included */
    size_t padded_at;  /* of its first element when all padded units stand in a row */
    size_t shard_at;   /* of this unit's shard when all shards of one rank stand in a row */
};

struct dt_layout {
    size_t units, world;
    struct dt_layout_unit *unit;
    size_t payload, padded, shard; /* of all units */
};

int dt_layout_init(struct dt_layout *l, const size_t *unit_sizes, size_t units, size_t world,
                   struct dt_err *err);
void dt_layout_finish(struct dt_layout *l);

/* One stretch of payload space and where RANK keeps it. */
struct dt_stretch {
    size_t payload_at, count;
    size_t shard_at; /* among all shards of the rank in a row */
    size_t unit;
};

/* What RANK owns, in order, one stretch per unit at most: calls with *I from 0 until it gives
 * false. */
bool dt_layout_owned(const struct dt_layout *l, size_t rank, size_t *i, struct dt_stretch *out);

#endif
