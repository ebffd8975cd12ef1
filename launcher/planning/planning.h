/* SPDX-License-Identifier: Apache-2.0 */
/* From what a person wrote to a plan that can be carried out, with every mistake answered by one
 * sentence: which option, what it says, why that cannot be, what to try. Decides only; what it must
 * know about the machine is in the facts, and the file system is looked at but not changed. */
#ifndef DT_LAUNCHER_PLANNING_CONFIG_H
#define DT_LAUNCHER_PLANNING_CONFIG_H

#include "agent/plan.h"
#include "launcher/facts.h"
#include "launcher/options.h"

/* Fills PLAN, zeroed memory, to be ended with dt_plan_finish() also after a failure. *WARNINGS gets
 * sentences a person should see; end it with dt_words_free(). Mistakes that torchrun finds after
 * parsing are DT_E_RUNTIME, as it ends with 1 for them. */
int dt_plan_make(const struct dt_launch_options *options, const struct dt_facts *facts,
                 struct dt_plan *plan, char ***warnings, struct dt_err *err);

#endif
