/* SPDX-License-Identifier: Apache-2.0 */
/* What people are alerted of: a row each. Pure. */
#ifndef DT_RENDEZVOUS_ALERTS_RULE_H
#define DT_RENDEZVOUS_ALERTS_RULE_H

#include "base/clock.h"
#include "rendezvous/events/event.h"

/* What two events have to share to be of one alert. */
enum dt_alert_scope { DT_ALERT_OF_SERVER, DT_ALERT_OF_RUN, DT_ALERT_OF_NODE };

#define DT_ALERT_TIMES_MOST 3

struct dt_alert_rule {
    const char *name; /* goes to people's receivers: it never changes */
    enum dt_alert_scope scope;
    enum dt_event_weight weight;
    enum dt_event_kind raised_by;
    dt_ms lasting; /* it is told of when it has lasted for so long; 0: at once */
    int times;     /* so many of those events, at most DT_ALERT_TIMES_MOST ... */
    dt_ms within;  /* ... in so long; 0: the first one is enough */
    /* Which kinds end it, a bit each; 0: nothing does, as it tells of a moment. */
    uint64_t ended_by;
    const char *advice; /* what to do about it */
};

extern const struct dt_alert_rule dt_alert_rules[];
extern const size_t dt_alert_rules_len;

#endif
