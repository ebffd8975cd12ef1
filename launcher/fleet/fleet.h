/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a job on several hosts from this terminal: starts an agent on each, shows what they print,
 * passes signals on, and ends all of them when it ends itself. */
#ifndef DT_LAUNCHER_FLEET_FLEET_H
#define DT_LAUNCHER_FLEET_FLEET_H

#include "launcher/fleet/plan.h"

/* Until nothing is left of it. Returns the exit status. */
int dt_fleet_run(const struct dt_fleet_plan *plan);

#endif
