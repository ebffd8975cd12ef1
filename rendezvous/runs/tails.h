/* SPDX-License-Identifier: Apache-2.0 */
/* People who read what the workers of a run print. Their question goes to the nodes that it is
 * about, and what each node tells goes to the person as it came: nothing is kept here. A node tells
 * a page, and the next one when the person has answered that; so who reads slowly costs no more
 * than a page of each node, and makes nobody wait: agents leave out what they no longer have.
 * Inside the server only. */
#ifndef DT_RENDEZVOUS_RUNS_TAILS_H
#define DT_RENDEZVOUS_RUNS_TAILS_H

#include "rendezvous/runs/runs.h"

#define DT_TAILS_OF_RUN 8
#define DT_TAILS_OF_SERVER 64
#define DT_TAIL_NODES_MOST 256 /* that one question goes to */

/* C asks by M for what workers of RUN print, which may be NULL: there is none. It takes the place
 * of the question that C asked before. */
void dt_rdzv_tails_take(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run, struct dt_rdzv_conn *c,
                        const struct dt_message *m);
/* C has read what M names. */
void dt_rdzv_tails_go_on(struct dt_rdzv_conn *c, const struct dt_message *m, dt_ms now);
/* The node of C, which is in RUN, tells by M what its workers print. */
void dt_rdzv_tails_hear(struct dt_rdzv_run *run, struct dt_rdzv_conn *c, const struct dt_message *m,
                        dt_ms now);

/* After each step of RUN that may have changed who is in it: asks nodes that are new, and tells
 * people who are gone. */
void dt_rdzv_tails_settle(struct dt_rdzv_run *run, dt_ms now);
/* When that is wanted although nothing happens; DT_FOREVER: never. */
dt_ms dt_rdzv_tails_next(const struct dt_rdzv_run *run);

/* C has waited for as long as a connection may be silent: it is asked whether it is there. False:
 * it reads nothing, or was asked already. */
bool dt_rdzv_tails_excuse(struct dt_rdzv_conn *c);

/* C is about to be freed. */
void dt_rdzv_tails_leave(struct dt_rdzv_conn *c);
/* RUN is about to be no more. */
void dt_rdzv_tails_end(struct dt_rdzv_run *run);

#endif
