/* SPDX-License-Identifier: Apache-2.0 */
/* Who carries which file of a checkpoint. Ranks write the files together, so no file is a rank's
 * own: the largest goes to whoever has least to carry, and neighbours on the list are on different
 * hosts, whose networks then work side by side. The same on all ranks. Pure. */
#ifndef DT_WORKER_RUNTIME_CKPT_UPLOAD_SHARE_H
#define DT_WORKER_RUNTIME_CKPT_UPLOAD_SHARE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dt_share_ranks {
    int rank, world;
    int hosts; /* ranks are dealt to hosts in stretches of equal length; else it is 1 */
};

/* MINE[i]: whether RANK carries file I, of COUNT that have so many BYTES. */
int dt_share_split(const struct dt_share_ranks *r, const uint64_t *bytes, size_t count, bool *mine,
                   struct dt_err *err);

#endif
