/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of what is known, for a screen of some size. Pure. */
#ifndef DT_CTL_TOP_VIEW_H
#define DT_CTL_TOP_VIEW_H

#include "ctl/top/model.h"
#include "ctl/top/picture.h"

/* Draws on P, which is blank. */
void dt_top_draw(const struct dt_top_model *m, struct dt_picture *p);

/* How many rows a picture has that leaves nothing out but old events. */
int dt_top_rows(const struct dt_top_model *m);

#endif
