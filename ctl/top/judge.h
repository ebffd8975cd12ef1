/* SPDX-License-Identifier: Apache-2.0 */
/* What a person would say of a run and of a node, out of their rows. Pure. */
#ifndef DT_CTL_TOP_JUDGE_H
#define DT_CTL_TOP_JUDGE_H

#include "ctl/pages.h"
#include "ctl/top/picture.h"

#include <stddef.h>

struct dt_top_run {
    const struct dt_status_run *row;
    const char *state; /* of dt_ctl_run_state() */
    unsigned look;
    int trouble; /* the more, the sooner a person should look at it */
    /* Its own: of the node rows. */
    const struct dt_status_node *nodes;
    size_t nodes_len;
};

struct dt_top_node {
    const struct dt_status_node *row;
    const char *state; /* "running", "suspect", "spare", ... */
    unsigned look;
    int trouble;
    int first_rank; /* -1: it has none */
};

struct dt_top_run dt_top_judge_run(const struct dt_ctl_pages *p, const struct dt_status_run *row);

/* Fills NODES, which has room for all of RUN's, in the order of the rows. Ranks follow from seats.
 */
void dt_top_judge_nodes(const struct dt_top_run *run, struct dt_top_node *nodes);

#endif
