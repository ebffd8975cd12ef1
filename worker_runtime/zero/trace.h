/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a model uses its units: recorded in one micro-step, expected in the next. A
 * model that then does otherwise is not wrong; nothing is foretold for the rest of that micro-step.
 * Pure. */
#ifndef DT_WORKER_RUNTIME_ZERO_TRACE_H
#define DT_WORKER_RUNTIME_ZERO_TRACE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

struct dt_trace_list {
    size_t *unit;
    size_t count, room;
};

struct dt_trace { /* zeroed: nothing known yet */
    struct dt_trace_list before, now;
    bool as_before;
};

void dt_trace_finish(struct dt_trace *t);
void dt_trace_begin(struct dt_trace *t);                                /* a micro-step */
int dt_trace_note(struct dt_trace *t, size_t unit, struct dt_err *err); /* UNIT is used now */
/* The unit to be used behind I others from now on; false when that is not known. */
bool dt_trace_ahead(const struct dt_trace *t, size_t i, size_t *unit);
/* Elements of SIZES to be used before UNIT is used again; SIZE_MAX: not in this micro-step, as far
 * as is known. */
size_t dt_trace_distance(const struct dt_trace *t, size_t unit, const size_t *sizes);

#endif
