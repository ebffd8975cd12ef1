/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of a job inside one of its agents, behind a store on the endpoint's port. Whoever
 * hosts it leaves last: who is not told yet how the job ended is waited for. */
#ifndef DT_AGENT_BACKEND_ELASTIC_HOST_H
#define DT_AGENT_BACKEND_ELASTIC_HOST_H

#include "agent/plan.h"
#include "base/err.h"
#include "rendezvous/protocol/proof.h"

#include <stdbool.h>
#include <uv.h>

struct dt_rdzv_host;

/* TOKEN: NULL: none is asked for. NULL and *err: the port cannot be had; and, where this MUST be,
 * who has it. */
struct dt_rdzv_host *dt_rdzv_host_open(uv_loop_t *loop, const struct dt_plan *plan,
                                       const struct dt_token *token, bool must, struct dt_err *err);

/* Answers HTTP where the plan says so, if it does. -1: it cannot be, and H is to be closed. */
int dt_rdzv_host_show(struct dt_rdzv_host *h, const struct dt_plan *plan, struct dt_err *err);

/* Ends the job for all who are there, and says WHY. */
void dt_rdzv_host_end(struct dt_rdzv_host *h, const char *why);

/* Frees H when all others are told how the job ended, or have had time enough, or in a HURRY; then
 * calls ON_CLOSED (may be NULL). A second call may only be in one. */
void dt_rdzv_host_close(struct dt_rdzv_host *h, bool hurry, void (*on_closed)(void *arg),
                        void *arg);

#endif
