/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the model, and those of the view, share. */
#ifndef DT_CTL_TOP_INSIDE_H
#define DT_CTL_TOP_INSIDE_H

#include "ctl/top/model.h"
#include "ctl/top/picture.h"

#define DT_TOP_HEADER_ROWS 2
#define DT_TOP_FOOTER_ROWS 1

/* After the rows, a filter or an order changed; of the chosen run alone, where that is another. */
void dt_top_arrange(struct dt_top_model *m);
void dt_top_arrange_nodes(struct dt_top_model *m);

/* Chooses what stands AT in the list of the runs (DT_TOP_RUNS) or nodes (DT_TOP_RUN), or the last
 * of them. */
void dt_top_choose(struct dt_top_model *m, enum dt_top_view list, size_t at);

/* Changes to VIEW. */
void dt_top_show(struct dt_top_model *m, enum dt_top_view view);

/* Header and footer. */
void dt_top_draw_frame(const struct dt_top_model *m, struct dt_picture *p);

#endif
