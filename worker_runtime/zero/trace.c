/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/zero/trace.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void dt_trace_finish(struct dt_trace *t)
{
    free(t->before.unit);
    free(t->now.unit);
    memset(t, 0, sizeof *t);
}

void dt_trace_begin(struct dt_trace *t)
{
    if (t->now.count > 0) {
        struct dt_trace_list old = t->before;
        t->before = t->now;
        t->now = old;
    }
    t->now.count = 0;
    t->as_before = t->before.count > 0;
}

int dt_trace_note(struct dt_trace *t, size_t unit, struct dt_err *err)
{
    struct dt_trace_list *n = &t->now;
    if (n->count == n->room) {
        size_t room = n->room ? 2 * n->room : 64;
        size_t *more = realloc(n->unit, room * sizeof *more);
        if (!more)
            return dt_err_set(err, DT_E_MEMORY, "no memory for the order of %zu units", room);
        n->unit = more;
        n->room = room;
    }
    n->unit[n->count++] = unit;
    if (n->count > t->before.count || t->before.unit[n->count - 1] != unit)
        t->as_before = false;
    return 0;
}

bool dt_trace_ahead(const struct dt_trace *t, size_t i, size_t *unit)
{
    if (!t->as_before || i >= t->before.count - t->now.count)
        return false;
    *unit = t->before.unit[t->now.count + i];
    return true;
}

size_t dt_trace_distance(const struct dt_trace *t, size_t unit, const size_t *sizes)
{
    size_t distance = 0, next;
    for (size_t i = 0; dt_trace_ahead(t, i, &next); i++) {
        if (next == unit)
            return distance;
        distance += sizes[next];
    }
    return SIZE_MAX;
}
