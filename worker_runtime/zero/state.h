/* SPDX-License-Identifier: Apache-2.0 */
/* A dt_zero's shards, for who saves and loads them. */
#ifndef DT_WORKER_RUNTIME_ZERO_STATE_H
#define DT_WORKER_RUNTIME_ZERO_STATE_H

#include "worker_runtime/zero/layout.h"

struct dt_zero_state {
    const struct dt_layout *layout;
    size_t rank;
    /* Host memory, layout->shard elements each: this rank's shards in a row. At stage 0, where
     * every rank has all, those that it would own. */
    float *master, *exp_avg, *exp_avg_sq;
    int64_t *steps;
};

/* Begins to copy into OUT's arrays, which the caller allocated: a snapshot between steps. It is
 * whole once dt_zero_device()'s snap_wait() is back; steps may go on meanwhile. */
int dt_zero_save(struct dt_zero *z, struct dt_zero_state *out, struct dt_err *err);
/* The other way, and the parameters everywhere follow. Collective. */
int dt_zero_load(struct dt_zero *z, const struct dt_zero_state *in, struct dt_err *err);
const struct dt_layout *dt_zero_layout(const struct dt_zero *z);
size_t dt_zero_rank(const struct dt_zero *z);
struct dt_device *dt_zero_device(const struct dt_zero *z);
struct dt_coll *dt_zero_group(const struct dt_zero *z);
const struct dt_zero_options *dt_zero_options_of(const struct dt_zero *z);
/* Parameter number PARAM of a unit, as it was told, and the unit's name; NULL: it has not as many.
 */
const char *dt_zero_param(const struct dt_zero *z, size_t unit, size_t param, struct dt_param *out);

#endif
