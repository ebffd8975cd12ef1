/* SPDX-License-Identifier: Apache-2.0 */
/* What workers that are gone have kept in memory (vaults.h), made a checkpoint by the program that
 * their note names: rendezvous/protocol/vault_fds.h. What it prints goes to the log.
 *
 * The loop's thread; on_over comes from the loop. */
#ifndef DT_AGENT_RESCUE_H
#define DT_AGENT_RESCUE_H

#include "agent/plan.h"
#include "agent/vaults.h"

#include <uv.h>

struct dt_rescue;

/* Of workers whose last round was ROUND. NULL: there is no note, or the program cannot be started,
 * which was said. When it has ended ON_OVER is called, and it is gone. */
struct dt_rescue *dt_rescue_start(uv_loop_t *loop, const struct dt_plan *plan,
                                  const struct dt_vaults *v, int round, void (*on_over)(void *arg),
                                  void *arg);
/* It has no more time than that, and the first limit stands; 0: it is killed now, and writes
 * nothing any more. */
void dt_rescue_limit(struct dt_rescue *r, dt_ms patience);

#endif
