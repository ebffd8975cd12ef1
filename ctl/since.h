/* SPDX-License-Identifier: Apache-2.0 */
/* From when on, as a person says it: a number of an event, a moment, or how long ago. Pure. */
#ifndef DT_CTL_SINCE_H
#define DT_CTL_SINCE_H

#include "base/clock.h"
#include "base/err.h"

#include <stdint.h>

/* Zeroed memory: from the beginning. */
struct dt_ctl_since {
    int64_t number; /* of the first event that is wanted; 0: any */
    int64_t at_us;  /* since 1970; 0: any */
    dt_ms ago;      /* before whoever asks does so; 0: any */
};

/* "120": that event and those behind it. "10m", "2h": so long ago. "2026-11-23",
 * "2026-11-23T07:00", "2026-11-23 07:00:00": by the local clock, with a Z behind it UTC. */
int dt_ctl_since_read(const char *text, struct dt_ctl_since *out, struct dt_err *err);

#endif
