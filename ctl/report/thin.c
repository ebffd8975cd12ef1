/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/thin.h"

#include <math.h>
#include <stdbool.h>

/* The points of one column, by their place in the input. */
struct column {
    size_t first, low, high, last;
    bool any, broken; /* it has a point; a break */
};

/* Never in front of LEAST, so that there are no more columns than room for them. */
static int column_of(double x, int columns, int least)
{
    double place = x * columns;
    int at = !(place > 0) ? 0 : place >= columns ? columns - 1 : (int)place;
    return at > least ? at : least;
}

static void note(struct column *c, const struct dt_point *in, size_t i)
{
    if (!isfinite(in[i].y)) {
        c->broken = true;
        return;
    }
    if (!c->any)
        c->first = c->low = c->high = i;
    if (in[i].y < in[c->low].y)
        c->low = i;
    if (in[i].y > in[c->high].y)
        c->high = i;
    c->last = i;
    c->any = true;
}

/* At most five: a break stands behind the points of its column. */
static size_t put(const struct column *c, const struct dt_point *in, struct dt_point *out)
{
    size_t n = 0;
    if (c->any) {
        size_t inner[] = {c->first, c->low < c->high ? c->low : c->high,
                          c->low < c->high ? c->high : c->low, c->last};
        for (size_t i = 0; i < 4; i++)
            if (i == 0 || inner[i] != inner[i - 1])
                out[n++] = in[inner[i]];
    }
    if (c->broken)
        out[n++] = (struct dt_point){c->any ? in[c->last].x : 0, NAN};
    return n;
}

size_t dt_thin(const struct dt_point *in, size_t count, int columns, struct dt_point *out)
{
    size_t n = 0;
    int at = 0;
    for (size_t i = 0; i < count;) {
        struct column c = {0};
        at = column_of(in[i].x, columns, at);
        for (; i < count && column_of(in[i].x, columns, at) == at; i++)
            note(&c, in, i);
        n += put(&c, in, out + n);
    }
    return n;
}
