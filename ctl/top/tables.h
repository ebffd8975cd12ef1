/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of runs and of nodes: which columns there are, and what stands in them. Pure. */
#ifndef DT_CTL_TOP_TABLES_H
#define DT_CTL_TOP_TABLES_H

#include "ctl/top/grid.h"
#include "ctl/top/judge.h"

/* Each fills G, which is to be finished. */
void dt_top_grid_of_runs(struct dt_grid *g, const struct dt_top_run *runs, size_t len);
void dt_top_grid_of_nodes(struct dt_grid *g, const struct dt_top_node *nodes, size_t len);

#endif
