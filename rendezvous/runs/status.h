/* SPDX-License-Identifier: Apache-2.0 */
/* A page of the STATUS answer: what the runs of a server look like now, as in docs/protocol.md. */
#ifndef DT_RENDEZVOUS_RUNS_STATUS_H
#define DT_RENDEZVOUS_RUNS_STATUS_H

#include "rendezvous/runs/runs.h"

/* Appends the page that begins with node FROM of RUN, or of all runs where that is "". HOST as in
 * the server's hello. OUT is sticky. */
void dt_rdzv_status_page(const struct dt_rdzv_runs *runs, const char *host, const char *run,
                         int from, struct dt_buf *out);

/* Appends the page with the rounds of RUN that are over, and no nodes. */
void dt_rdzv_status_history(const struct dt_rdzv_runs *runs, const char *host, const char *run,
                            struct dt_buf *out);

#endif
