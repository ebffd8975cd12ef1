/* SPDX-License-Identifier: Apache-2.0 */
/* What a person wants of one run, by a message on the connection C, which is answered. Inside the
 * server only. */
#ifndef DT_RENDEZVOUS_RUNS_WISHES_H
#define DT_RENDEZVOUS_RUNS_WISHES_H

#include "rendezvous/runs/runs.h"

/* Holds a run up, or lets it go on. */
void dt_rdzv_wish_pause(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                        const struct dt_message *m);
/* Asks workers of a run to save. */
void dt_rdzv_wish_save(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m);

#endif
