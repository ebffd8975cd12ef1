/* SPDX-License-Identifier: Apache-2.0 */
/* How old the last step is, and whether it is so old that what was told of its speed is not true
 * any more. Samples of the furthest step in, times out. Pure. */
#ifndef DT_AGENT_WATCH_PACE_H
#define DT_AGENT_WATCH_PACE_H

#include "base/clock.h"

#include <stdbool.h>

#define DT_PACE_TIMES 15 /* of steps, of which the median is taken */

struct dt_pace {
    int64_t step; /* -1: none yet */
    dt_ms since;  /* when it was new */
    dt_ms times[DT_PACE_TIMES];
    int count; /* of times ever noted */
};

void dt_pace_init(struct dt_pace *p);

/* The furthest step is STEP, -1: unknown. One that went back is of another try. */
void dt_pace_note(struct dt_pace *p, int64_t step, dt_ms now);

/* How long ago the last step was; -1: none was told of. */
dt_ms dt_pace_age(const struct dt_pace *p, dt_ms now);

/* A step is overdue: older than 2 s, and than five usual ones take. */
bool dt_pace_is_overdue(const struct dt_pace *p, dt_ms now);

#endif
