/* SPDX-License-Identifier: Apache-2.0 */
/* From the picture that a terminal shows to the next: the bytes for the rows that changed. Pure. */
#ifndef DT_CTL_TOP_SCREEN_H
#define DT_CTL_TOP_SCREEN_H

#include "ctl/top/picture.h"

/* Appends them. SHOWN of another size, or of none: all is drawn, on a screen that is cleared. */
void dt_screen_put(const struct dt_picture *shown, const struct dt_picture *next, bool colours,
                   struct dt_buf *out);

#endif
