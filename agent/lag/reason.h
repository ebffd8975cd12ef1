/* SPDX-License-Identifier: Apache-2.0 */
/* Why a worker is slow, as far as its own node sees: by rows of a table, of what was counted of all
 * workers here in one window. Pure.
 *
 * Memory bandwidth, caches and GPUs are out of sight. */
#ifndef DT_AGENT_LAG_REASON_H
#define DT_AGENT_LAG_REASON_H

#include "agent/lag/facts.h"
#include "agent/lag/gauge.h"

#define DT_LAG_WHERE_MAX 96

/* Of one worker; what is a time is told in parts of DT_OWN_WHOLE. A mean of some windows, of which
 * the last weighs most: who is slow for long has to be so for a reason that lasts. Zeroed memory is
 * one of no window. */
struct dt_lag_signs {
    int stopped;   /* by signals */
    int throttled; /* by its control group */
    int stolen;    /* from its processors */
    int waited;    /* for a processor */
    int disk;
    int data;   /* its page says so */
    int asleep; /* outside of collectives */
    int heat;   /* times */
    int slow;   /* its clock is slower than the median worker's by such a part */
    int faults; /* a second */
};

/* One more window, of which PART is, and of what the kernel counted at about its two ends. */
void dt_lag_signs_note(struct dt_lag_signs *s, const struct dt_gauge_part *part,
                       const struct dt_lag_facts *before, const struct dt_lag_facts *after);
/* Fills in SLOW of all: AFTER has their clocks. */
void dt_lag_signs_compare_clocks(struct dt_lag_signs *all, int count,
                                 const struct dt_lag_facts *after);

/* Whether WHY, or that it sleeps, is worth a closer look: at who runs there, at where it sleeps. */
bool dt_lag_is_crowded(const struct dt_lag_signs *s);

/* "other programs run on its processors: ...", or "": nothing explains it. What tells I from the
 * median of the workers here explains it; what all share does only where all here are slow, for
 * which ALONE (no other node is known) leaves no room. RIVAL: "burn (pid 812)", or "". WHERE: at
 * which line it sleeps, or "". */
const char *dt_lag_reason(const struct dt_lag_signs *all, int count, int i, bool alone,
                          const char *rival, const char *where, char out[DT_OWN_REASON_MAX]);

#endif
