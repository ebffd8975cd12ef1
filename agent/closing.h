/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an elastic job as the rendezvous tells it, kept until the workers here are gone: what
 * a person reads of it, and what it makes of the exit status. */
#ifndef DT_AGENT_CLOSING_H
#define DT_AGENT_CLOSING_H

#include "agent/plan.h"

#include <stdbool.h>

/* Zeroed memory: it has not come. */
struct dt_closing {
    bool come;
    enum dt_close_kind kind;
    char text[1024]; /* what the log says of it */
};

/* Notes it and says it in the log. The first one counts: false, and nothing is said, for others. */
bool dt_closing_note(struct dt_closing *c, enum dt_close_kind kind, const char *why);

/* A person ended the job: it failed of nothing. */
bool dt_closing_is_wish(const struct dt_closing *c);

/* OWN: the exit status of the failure that was reported here; 0: none was. Pure. */
int dt_closing_status(enum dt_close_kind kind, enum dt_plan_exit policy, int own);

#endif
