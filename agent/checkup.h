/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan wants of this host, for the probes. */
#ifndef DT_AGENT_CHECKUP_H
#define DT_AGENT_CHECKUP_H

#include "agent/plan.h"
#include "preflight/probe.h"

/* Points into PLAN. */
struct dt_checkup dt_checkup_of(const struct dt_plan *plan);

#endif
