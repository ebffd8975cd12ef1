/* SPDX-License-Identifier: Apache-2.0 */
/* Stories in which one thing happens to a job that runs, and a moment before or after it the server
 * is killed that has no folder for its state. */
#ifndef DT_TESTS_SIM_AMNESIA_H
#define DT_TESTS_SIM_AMNESIA_H

#include "base/clock.h"

struct sim;

enum sim_amnesia_cause {
    SIM_AMNESIA_NONE, /* not such a story */
    SIM_AMNESIA_LOSS,
    SIM_AMNESIA_JOIN,
    SIM_AMNESIA_LEAVE,
    SIM_AMNESIA_DRAIN,
    SIM_AMNESIA_FAILURE,
    SIM_AMNESIA_CAUSES,
};
const char *sim_amnesia_name(enum sim_amnesia_cause c);

struct sim_amnesia {
    enum sim_amnesia_cause cause;
    dt_ms after; /* it, the server is killed; below 0: before it */
};

/* Three nodes, of which one restart is asked for; the rest of it is the seed's. */
void sim_amnesia_begin(struct sim *s, const struct sim_amnesia *how);

/* What the last world of it must have been charged. */
int sim_amnesia_restarts(const struct sim_amnesia *how);

#endif
