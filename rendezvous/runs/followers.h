/* SPDX-License-Identifier: Apache-2.0 */
/* People who ask what happened, page by page, and those of them who wait for what happens next. A
 * page is made when it is asked for, so one who reads slowly costs no more than a page, and learns
 * how many events were dropped before they could be read. Inside the server only. */
#ifndef DT_RENDEZVOUS_RUNS_FOLLOWERS_H
#define DT_RENDEZVOUS_RUNS_FOLLOWERS_H

#include "rendezvous/runs/runs.h"

/* C asks by M. It is answered now, or (M follows, and nothing is there) with the next event. A
 * question takes the place of the one that waits. */
void dt_rdzv_followers_take(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                            const struct dt_message *m);

/* E was added to the chronicle. */
void dt_rdzv_followers_tell(struct dt_rdzv_runs *runs, const struct dt_event *e);

/* C has waited for as long as a connection may be silent: it gets an empty page, and asks again if
 * it is still there. False: it does not wait. */
bool dt_rdzv_followers_excuse(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c);

/* C is about to be freed. */
void dt_rdzv_followers_leave(struct dt_rdzv_conn *c);

#endif
