/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong on one rank ends the whole job; this way each rank hears what it was. */
#ifndef DT_WORKER_RUNTIME_COLL_AGREE_H
#define DT_WORKER_RUNTIME_COLL_AGREE_H

#include "base/err.h"

#include <dtrun/coll.h>

/* RC: 0, or -1 with *ERR when this rank has failed. Returns 0 on all ranks of G when no rank has
 * failed, else -1 on all. The lowest rank that failed keeps its error, and so does another one
 * whose error reads otherwise. All others get that of the lowest with the code DT_E_ELSEWHERE, so
 * that the job says one thing once. Collective over G, whose other calls the ranks must have made
 * alike so far; a rank whose group is broken returns at once. */
int dt_agree(struct dt_coll *g, int rc, struct dt_err *err);
/* Whether ERR says that the group is broken, so that no call in it can be made any more. */
bool dt_agree_is_lost(const struct dt_err *err);

#endif
