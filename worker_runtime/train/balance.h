/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic accumulation: how many micro-batches each rank does of a step's fixed number. Pure, and
 * the same on all ranks, who all see the same table of times. The sum never changes and no rank
 * falls below one. */
#ifndef DT_WORKER_RUNTIME_TRAIN_BALANCE_H
#define DT_WORKER_RUNTIME_TRAIN_BALANCE_H

#include "worker_runtime/config/config.h"

struct dt_balance;

/* RANKS ranks share TOTAL micro-batches, as evenly as can be at first (the first ranks one more).
 */
struct dt_balance *dt_balance_create(enum dt_balance_policy policy, int ranks, int total,
                                     struct dt_err *err);
void dt_balance_destroy(struct dt_balance *b);
const int *dt_balance_deal(const struct dt_balance *b); /* by rank */
/* Takes a deal from a checkpoint, or from rank 0. */
int dt_balance_set(struct dt_balance *b, const int *deal, int ranks, struct dt_err *err);

/* After a step: each rank's computing time (waiting in collectives left out), and the step's. True:
 * the deal has changed. TIMES moves one micro-step from the slowest to the fastest where that makes
 * the slowest faster; UTILISATION takes one from who was under 65 % three steps in a row and gives
 * it to who is above 92 %. */
bool dt_balance_step(struct dt_balance *b, const double *compute_s, double step_s);

#endif
