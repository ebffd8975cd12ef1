/* SPDX-License-Identifier: Apache-2.0 */
/* What NCCL told of a worker's calls, put into the worker's stance: which call of which group it is
 * in, so that ranks that wait in one collective are told from those that are one call further.
 * Pure.
 */
#ifndef DT_AGENT_HANG_CALLS_H
#define DT_AGENT_HANG_CALLS_H

#include "base/buf.h"
#include "rendezvous/protocol/comms.h"
#include "rendezvous/protocol/stance.h"

/* Adds to S, which a look at the worker made. One that is in a collective gets its group, sequence
 * and shape, where the last call can be that collective. One that waits or computes elsewhere is in
 * a collective if the GPU has not ended it, which NCCL tells where a person asked for it; else S
 * says which it has called last, unless that is over. */
void dt_calls_tell(const struct dt_comms_told *comms, struct dt_stance *s);

/* Lines for people, one for each communicator. */
void dt_calls_put_text(const struct dt_comms_told *comms, struct dt_buf *out);

#endif
