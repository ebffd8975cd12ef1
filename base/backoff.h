/* SPDX-License-Identifier: Apache-2.0 */
/* How long to wait before trying again: longer each time up to a limit, and by chance half as long
 * up to half as long again, so that thousands who lost the same server do not come back in step.
 * Pure. */
#ifndef DT_BASE_BACKOFF_H
#define DT_BASE_BACKOFF_H

#include "base/clock.h"

#include <stdint.h>

struct dt_backoff {
    dt_ms first, most;
    dt_ms next;    /* 0: start at FIRST */
    uint64_t seed; /* of the chance; differs from process to process */
};

static inline void dt_backoff_reset(struct dt_backoff *b)
{
    b->next = 0;
}

/* The pause before the next attempt, at least 1 ms. */
dt_ms dt_backoff_next(struct dt_backoff *b);

#endif
