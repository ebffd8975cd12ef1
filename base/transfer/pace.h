/* SPDX-License-Identifier: Apache-2.0 */
/* A limit of bandwidth for all who send by it. Pure: the time is an argument. */
#ifndef DT_BASE_TRANSFER_PACE_H
#define DT_BASE_TRANSFER_PACE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes are handed out for so long at once; a sender that comes late may catch up on as much. */
#define DT_PACE_STEP_NS ((int64_t)50000000)

/* Zeroed: nothing was sent yet. */
struct dt_pace {
    int64_t paid_until; /* ns: when the time of all that was handed out is over */
};

/* How many of WANT bytes may go now, at RATE bytes a second (not 0); 0: none before .paid_until. */
static inline size_t dt_pace_take(struct dt_pace *p, uint64_t rate, size_t want, int64_t now)
{
    if (now < p->paid_until)
        return 0;
    uint64_t step = rate / (1000000000 / DT_PACE_STEP_NS);
    size_t n = want < step ? want : step ? (size_t)step : 1;
    if (p->paid_until < now - DT_PACE_STEP_NS)
        p->paid_until = now - DT_PACE_STEP_NS;
    p->paid_until += (int64_t)((double)n * 1e9 / (double)rate);
    return n;
}

#endif
