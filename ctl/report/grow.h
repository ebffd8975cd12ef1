/* SPDX-License-Identifier: Apache-2.0 */
/* Room for one more in an array of a report. */
#ifndef DT_CTL_REPORT_GROW_H
#define DT_CTL_REPORT_GROW_H

#include "base/err.h"

#include <stdlib.h>

/* AT holds COUNT elements of SIZE bytes, and has grown by this function alone: room is made by
 * doubling, where COUNT is a power of two. The array with room for one more, or NULL, and AT is
 * still there. */
static inline void *dt_report_grow(void *at, size_t count, size_t size, struct dt_err *err)
{
    if (count & (count - 1))
        return at;
    void *more = reallocarray(at, count ? count * 2 : 1, size);
    if (!more)
        dt_err_set(err, DT_E_MEMORY, "no memory for what is to be reported");
    return more;
}

#endif
