/* SPDX-License-Identifier: Apache-2.0 */
/* What the journal has of the runs of a rendezvous server, and what waits until the disk has it.
 * Inside the server only.
 *
 * What is decided must be on disk before anybody hears of it, and a disk is slow beside ten
 * thousand nodes that join at once. So a run that has something to record is marked, and written
 * when the disk is free: once, however much came meanwhile. A number counts what was marked; what a
 * run says waits for the number that was reached then. When the disk takes nothing more, or takes
 * longer than two seconds, agents are told nevertheless: training that goes on is worth more than a
 * journal. Without a journal all is on disk at once. */
#ifndef DT_RENDEZVOUS_RUNS_RECORDS_H
#define DT_RENDEZVOUS_RUNS_RECORDS_H

#include "rendezvous/runs/runs.h"

/* Their keys in the journal, in front of an id or a name. */
#define DT_RECORD_OF_RUN "run/"
#define DT_RECORD_OF_NODE "node/"
#define DT_RECORD_OF_EVENT "event/" /* and its number */

/* RUN is to be recorded: what it says from here on waits for that. */
void dt_rdzv_records_mark(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run);
/* What is known of the node NAME has changed. False: the journal did not take it, as the log says.
 */
bool dt_rdzv_records_node(struct dt_rdzv_runs *runs, const char *name);
/* RUN is to have no record any more. */
void dt_rdzv_records_forget(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run);

/* E was added to the chronicle. Nothing waits for it: it survives a kill of this server, and a loss
 * of power once the disk is asked for something else. What the chronicle keeps no more goes. */
void dt_rdzv_records_event(struct dt_rdzv_runs *runs, const struct dt_event *e);

/* Hands what is marked to the disk, unless that is busy: then it is done when it no longer is. */
void dt_rdzv_records_sync(struct dt_rdzv_runs *runs);
/* Hands it to the journal only; it is on disk after the next flush, or the last. */
void dt_rdzv_records_save(struct dt_rdzv_runs *runs);
/* A disk that hangs must not make us a server that says nothing: looks whether it does. */
void dt_rdzv_records_mind_disk(struct dt_rdzv_runs *runs);

/* Sends M to C once the disk has all that was marked up to AFTER. */
void dt_rdzv_records_send(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                          const struct dt_message *m, uint64_t after);

#endif
