/* SPDX-License-Identifier: Apache-2.0 */
/* A million points to what a page can show: of each column the first, the lowest, the highest and
 * the last one, in their order, so that a line looks as it did and no peak is lost. Pure. */
#ifndef DT_CTL_REPORT_THIN_H
#define DT_CTL_REPORT_THIN_H

#include <stddef.h>

struct dt_point {
    double x, y; /* y NaN: the line is broken there */
};

#define DT_THIN_ROOM(columns) (5 * ((size_t)(columns) + 1)) /* points of OUT */

/* COUNT points with x rising from 0 to 1. Returns how many of OUT there are; those that are not
 * finite are breaks. */
size_t dt_thin(const struct dt_point *in, size_t count, int columns, struct dt_point *out);

#endif
