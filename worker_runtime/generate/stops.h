/* SPDX-License-Identifier: Apache-2.0 */
/* Words that end a text. They may come in parts, so what could be the beginning of one waits until
 * more has come. Pure. */
#ifndef DT_WORKER_RUNTIME_GENERATE_STOPS_H
#define DT_WORKER_RUNTIME_GENERATE_STOPS_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>

struct dt_stops {
    const char *const *at;
    size_t count; /* none of them is empty */
};

/* How many bytes of TEXT, from its beginning on, are before any stop that has come or may be
 * coming. *FOUND: one stands there, whole. LAST: nothing follows TEXT, so none is coming. */
size_t dt_stops_before(const struct dt_stops *s, struct dt_bytes text, bool last, bool *found);

#endif
