/* SPDX-License-Identifier: Apache-2.0 */
/* Which runs and nodes are shown, and in which order. Pure. */
#ifndef DT_CTL_TOP_ORDER_H
#define DT_CTL_TOP_ORDER_H

#include "ctl/top/judge.h"

#include <stdbool.h>
#include <stddef.h>

/* How many orders there are of each, and how one is called; order 0 is there at the beginning. */
size_t dt_top_run_orders(void);
size_t dt_top_node_orders(void);
const char *dt_top_run_order(size_t order);
const char *dt_top_node_order(size_t order);

/* Where two are equal, their names decide; those are never reversed. */
void dt_top_sort_runs(struct dt_top_run *runs, size_t len, size_t order, bool reversed);
void dt_top_sort_nodes(struct dt_top_node *nodes, size_t len, size_t order, bool reversed);

/* FILTER: a part of its name, its state, or of whose it is; "": all do. Case does not count. */
bool dt_top_run_fits(const struct dt_top_run *run, const char *filter);
bool dt_top_node_fits(const struct dt_top_node *node, const char *filter);

#endif
