/* SPDX-License-Identifier: Apache-2.0 */
/* What happens at a rendezvous server, said in one place: in the log and, as an event, in the
 * chronicle, in the same words. Inside the server only.
 *
 * Of ten thousand nodes that are lost at once, or one that comes and goes without end, not each is
 * worth a line or an event: a stranger could fill the disk with them. */
#ifndef DT_RENDEZVOUS_RUNS_TELL_H
#define DT_RENDEZVOUS_RUNS_TELL_H

#include "rendezvous/runs/runs.h"

/* E happened just now: its number and time are given here. SILENT: the log has it in other words
 * already. */
void dt_rdzv_tell(struct dt_rdzv_runs *runs, const struct dt_event *e, bool silent);
/* The same of the server, or of a node that is in no run; NODE may be NULL. */
void dt_rdzv_tell_of_server(struct dt_rdzv_runs *runs, enum dt_event_kind kind, const char *node,
                            const char *words);

/* A line about RUN for the log alone. */
void dt_rdzv_say(struct dt_rdzv_runs *runs, const char *run, enum dt_event_weight weight,
                 const char *words);

#endif
