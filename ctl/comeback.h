/* SPDX-License-Identifier: Apache-2.0 */
/* A run that somebody waits for, at a rendezvous that may be started anew: that one does not know
 * the run before its nodes are back. Pure: the time is an argument. */
#ifndef DT_CTL_COMEBACK_H
#define DT_CTL_COMEBACK_H

#include "base/clock.h"

#include <stdbool.h>

struct dt_ctl_comeback {
    bool known;   /* the run was there */
    dt_ms missed; /* since then the rendezvous says that it is not; 0: it does not say so */
};

/* The run is there. */
void dt_ctl_comeback_seen(struct dt_ctl_comeback *c);

/* The rendezvous does not answer: nodes have their time from the moment when it does again. */
void dt_ctl_comeback_away(struct dt_ctl_comeback *c);

/* The rendezvous answers that there is no such run. Whether its nodes may yet be back, for which
 * they have so long at MOST; never of a run that was not there. */
bool dt_ctl_comeback_may(struct dt_ctl_comeback *c, dt_ms most, dt_ms now);

#endif
