/* SPDX-License-Identifier: Apache-2.0 */
/* How the training of one run went: step, loss and rate over time, in a bounded number of points.
 * A point stands for a stretch of time, with the lowest and the highest loss in it, so that no peak
 * is lost. When a run lasts longer than there are points for, stretches double, and two points of
 * before become one. Pure. */
#ifndef DT_RENDEZVOUS_WEB_CURVE_H
#define DT_RENDEZVOUS_WEB_CURVE_H

#include "base/buf.h"

#include <stdbool.h>

#define DT_CURVE_MOST 240 /* points: of eight hours, one for each two minutes or so */
#define DT_CURVE_EVERY_S 2

struct dt_curve_sample {
    int64_t at_s;         /* since 1970; one that goes back counts as the last */
    int64_t step;         /* -1: unknown */
    const char *loss;     /* as in telemetry.h */
    int64_t tokens_per_s; /* 0: none */
};

struct dt_curve_point {
    int64_t at_s, step;     /* of the last sample */
    double loss, low, high; /* the last, the lowest and the highest; NaN: there is none */
    bool broken;            /* a loss in it was told, and no number */
    double tokens;          /* the sum ... */
    int64_t rated;          /* ... of so many samples that had any */
};

/* Zeroed memory is an empty one. */
struct dt_curve {
    int64_t every_s; /* a stretch; 0: DT_CURVE_EVERY_S */
    size_t len;
    struct dt_curve_point at[DT_CURVE_MOST];
};

void dt_curve_add(struct dt_curve *c, const struct dt_curve_sample *s);

/* Appends {"every_s":2,"points":[[at_s,step,loss,low,high,tokens_per_s],...]}, where what is
 * unknown is null, and the loss of a point that had one which is no number "nan". C may be NULL: it
 * has no points. OUT is sticky. */
void dt_curve_put(const struct dt_curve *c, struct dt_buf *out);

#endif
