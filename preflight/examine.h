/* SPDX-License-Identifier: Apache-2.0 */
/* Runs probes side by side, each in a process of its own: a file system or a driver that does not
 * answer costs its probe, and nobody else anything. */
#ifndef DT_PREFLIGHT_EXAMINE_H
#define DT_PREFLIGHT_EXAMINE_H

#include "base/clock.h"
#include "base/err.h"
#include "preflight/probe.h"

#define DT_EXAMINE_TIME (5 * DT_SECOND) /* a probe has */

/* Runs those of PROBES that come no later than WHEN and adds what they find to OUT, in their order.
 * A probe that is not over after LIMIT, or after the time of its own if that is longer, is killed,
 * and has failed, which is a warning where it had less than DT_EXAMINE_TIME; one that the kernel
 * does not let die is left behind. Call it while the process has one thread. -1: there is no
 * memory. */
int dt_examine(const struct dt_checkup *c, const struct dt_probe *probes, size_t count,
               enum dt_probe_when when, dt_ms limit, struct dt_sheet *out, struct dt_err *err);

#endif
