/* SPDX-License-Identifier: Apache-2.0 */
/* What a sheet is printed on. */
#ifndef DT_PREFLIGHT_SCREEN_H
#define DT_PREFLIGHT_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

struct dt_screen {
    bool colour;
    size_t columns; /* SIZE_MAX: a line for each remark, for grep */
};

/* Standard output as it is, and as the user wants it (NO_COLOR). */
struct dt_screen dt_screen_find(void);

#endif
