/* SPDX-License-Identifier: Apache-2.0 */
/* What workers do, for a terminal. Pure. */
#ifndef DT_RENDEZVOUS_PROTOCOL_STANCE_TEXT_H
#define DT_RENDEZVOUS_PROTOCOL_STANCE_TEXT_H

#include "base/buf.h"
#include "rendezvous/protocol/stance.h"

/* A line for each group: "ranks 0 and 2 to 63: all_reduce train.py:11", "rank 1: load_batch
 * train.py:5 (sleeps)". */
void dt_stances_put_text(const struct dt_stances *s, struct dt_buf *out);

#endif
