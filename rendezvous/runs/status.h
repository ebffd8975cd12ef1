/* SPDX-License-Identifier: Apache-2.0 */
/* A page of the STATUS answer: what the runs of a server look like now, as in docs/protocol.md. */
#ifndef DT_RENDEZVOUS_RUNS_STATUS_H
#define DT_RENDEZVOUS_RUNS_STATUS_H

#include "rendezvous/protocol/status.h"
#include "rendezvous/runs/runs.h"

/* Appends the page that begins with node FROM of RUN, or of all runs where that is "". SERVER: its
 * row. OUT is sticky. */
void dt_rdzv_status_page(const struct dt_rdzv_runs *runs, const struct dt_status_server *server,
                         const char *run, int from, struct dt_buf *out);

/* Appends the page with the rounds of RUN that are over, and no nodes. */
void dt_rdzv_status_history(const struct dt_rdzv_runs *runs, const struct dt_status_server *server,
                            const char *run, struct dt_buf *out);

/* The row of M, a member of R, whose strings it borrows. */
struct dt_status_node dt_rdzv_status_node(const struct dt_rdzv *r, const struct dt_member *m,
                                          dt_ms now);

/* The same rows as one object for HTTP, in slices, so that ten thousand nodes hold nobody up.
 * Begins zeroed but for RUN and STARTED_US. What comes and goes between two slices may be in it, or
 * not. */
struct dt_rdzv_status_walk {
    char run[DT_RUN_ID_MAX]; /* this one, and its rounds that are over; "": all, without these */
    int64_t started_us;      /* the server, by the wall clock */
    bool begun;
    size_t nodes; /* put so far */
};

/* Appends the next slice to OUT, which is sticky. False: it was the last. The object is left open:
 * the caller may add members, each behind a comma, and ends it. */
bool dt_rdzv_status_next(const struct dt_rdzv_runs *runs, const char *host,
                         struct dt_rdzv_status_walk *walk, struct dt_buf *out);

/* Whether somebody ever joined a run of that name. */
bool dt_rdzv_status_knows(const struct dt_rdzv_runs *runs, const char *run);

#endif
