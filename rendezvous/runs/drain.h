/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that a person keeps out, or lets back, in all runs of a rendezvous server. Inside the
 * server only. */
#ifndef DT_RENDEZVOUS_RUNS_DRAIN_H
#define DT_RENDEZVOUS_RUNS_DRAIN_H

#include "rendezvous/runs/runs.h"

/* Does what WHO asks for by the DRAIN message M, and tells all runs. TEXT says what was done, or
 * why not: false. */
bool dt_rdzv_drain(struct dt_rdzv_runs *runs, const struct dt_asker *who,
                   const struct dt_message *m, char *text, size_t size);

#endif
