/* SPDX-License-Identifier: Apache-2.0 */
/* The process that follows folders and uploads what is complete in them, so that the agent's loop
 * never waits for a disk or a network. */
#ifndef DT_AGENT_UPLOAD_HELPER_H
#define DT_AGENT_UPLOAD_HELPER_H

#include "agent/plan.h"

/* Serves SOCK (wire.h) and does not return. To be called in a child that was forked when its parent
 * had one thread. */
void dt_upload_helper(const struct dt_plan *plan, int sock) __attribute__((noreturn));

#endif
