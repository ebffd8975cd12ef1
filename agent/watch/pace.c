/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watch/pace.h"

#include <stdlib.h>
#include <string.h>

#define OVERDUE_LEAST (2 * DT_SECOND)
#define OVERDUE_STEPS 5

void dt_pace_init(struct dt_pace *p)
{
    *p = (struct dt_pace){.step = -1};
}

void dt_pace_note(struct dt_pace *p, int64_t step, dt_ms now)
{
    if (step == p->step)
        return;
    if (p->step < 0 || step < p->step)
        dt_pace_init(p);
    else
        p->times[p->count++ % DT_PACE_TIMES] = (now - p->since) / (step - p->step);
    p->step = step;
    p->since = now;
}

dt_ms dt_pace_age(const struct dt_pace *p, dt_ms now)
{
    return p->step < 0 ? -1 : now - p->since;
}

static int by_length(const void *a, const void *b)
{
    const dt_ms *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* 0: not known yet. */
static dt_ms usual(const struct dt_pace *p)
{
    dt_ms times[DT_PACE_TIMES];
    int n = p->count < DT_PACE_TIMES ? p->count : DT_PACE_TIMES;
    if (n == 0)
        return 0;
    memcpy(times, p->times, sizeof times);
    qsort(times, (size_t)n, sizeof *times, by_length);
    return times[n / 2];
}

bool dt_pace_is_overdue(const struct dt_pace *p, dt_ms now)
{
    dt_ms age = dt_pace_age(p, now);
    return age > OVERDUE_LEAST && age > OVERDUE_STEPS * usual(p);
}
