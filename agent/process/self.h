/* SPDX-License-Identifier: Apache-2.0 */
/* This process itself: what an agent changes of it, and what it was before, for the workers. */
#ifndef DT_AGENT_PROCESS_SELF_H
#define DT_AGENT_PROCESS_SELF_H

#include "agent/process/spawn.h"
#include "base/err.h"

#include <stdbool.h>

/* Notes what workers inherit, and then makes this process fit for the agent: as many files as it
 * may open, no death of a closed pipe, every orphan below it is its child. */
void dt_self_prepare(struct dt_spawn_inherited *was);

/* Whether it may open enough files: before libuv finds out in the middle of something that it
 * cannot undo. */
int dt_self_check_files(const struct dt_spawn_inherited *was, struct dt_err *err);

/* Whether so few files may be open that those of WORKERS are for what they print, without which
 * they cannot start. */
bool dt_self_is_short_of_files(int workers);

/* No signal is heard any more: one that comes between the last handler and the exit must not change
 * the exit status. */
void dt_self_block_signals(void);

#endif
