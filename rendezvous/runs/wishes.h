/* SPDX-License-Identifier: Apache-2.0 */
/* What a person wants of one run: hold it up, end it, begin another round, save. Inside the server
 * only. */
#ifndef DT_RENDEZVOUS_RUNS_WISHES_H
#define DT_RENDEZVOUS_RUNS_WISHES_H

#include "rendezvous/runs/runs.h"

/* Does what the wish M asks for, if whoever is at the other end of C may, and answers C. */
void dt_rdzv_wish(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c, const struct dt_message *m);

#endif
