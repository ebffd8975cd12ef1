/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for people and for grep: one `name: value` a line, in an order that stays. */
#ifndef DT_LAUNCHER_PRINT_PLAN_H
#define DT_LAUNCHER_PRINT_PLAN_H

#include "agent/plan.h"
#include "base/buf.h"

/* WARNINGS: NULL-ended, or NULL. */
void dt_plan_print(const struct dt_plan *plan, char *const *warnings, struct dt_buf *out);

#endif
