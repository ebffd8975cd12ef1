/* SPDX-License-Identifier: Apache-2.0 */
/* One node's part in what the nodes of a static job find out together about workers that stand
 * still; panel.h has the keys. A few requests for each time, and none while workers move. */
#ifndef DT_AGENT_BACKEND_FIXED_PANELIST_H
#define DT_AGENT_BACKEND_FIXED_PANELIST_H

#include "agent/backend/backend.h"
#include "rendezvous/client/client.h"

/* Zeroed and given its first block, which the owner keeps as long as the client is not closed. */
struct dt_panelist {
    struct dt_store_client *client;
    const char *prefix;
    int node;
    const struct dt_backend_events *events;
    void *arg;

    bool together, asks; /* all nodes take part; it is asked whether they do */
    bool done;           /* the workers here have left: RANKS of them */
    struct dt_rank_range ranks;
    int number;   /* of this time that they stand still; 0: they move */
    int awaited;  /* ... by which a look, or what came of it, is waited for; 0: none is */
    int64_t look; /* the last that was asked for */
    dt_ms still;
    bool sure;
    uint64_t seed;
    struct dt_buf key, value;
};

void dt_panelist_finish(struct dt_panelist *p);

/* Says that this node takes part: before it says anything else. */
void dt_panelist_greet(struct dt_panelist *p);

/* The workers here are going to start. Asks for up to PATIENCE whether all nodes take part. */
void dt_panelist_begin(struct dt_panelist *p, struct dt_rank_range ranks, dt_ms patience);

/* The workers here are over: WELL, so that others may wait for them in vain. */
void dt_panelist_end(struct dt_panelist *p, bool well);

/* As those of a backend. */
bool dt_panelist_still(struct dt_panelist *p, dt_ms still, bool sure);
void dt_panelist_looked(struct dt_panelist *p, int64_t look, const struct dt_stances *stances);

#endif
