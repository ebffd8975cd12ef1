/* SPDX-License-Identifier: Apache-2.0 */
/* What the page of a STATUS answer is made of: see docs/protocol.md. Rows for fields.h, for who
 * makes a page and for who reads one. */
#ifndef DT_RENDEZVOUS_PROTOCOL_STATUS_H
#define DT_RENDEZVOUS_PROTOCOL_STATUS_H

#include "rendezvous/protocol/spec.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_STATUS_PAGE_NODES 256

struct dt_status_server {
    const char *host; /* "daemon" or "agent" */
    const char *version;
};

struct dt_status_run {
    const char *id, *state; /* "gathering", "running", "closed" */
    int round;
    int world;               /* how many workers this round has, or the last had */
    int nodes;               /* with a seat; while gathering, ready for one */
    struct dt_run_spec spec; /* of which the rows name what is shown */
    int restarts;
    int losses; /* nodes lost, ever */
    int64_t since_s;
    const char *master;   /* "ADDR:PORT" of the round, or "" */
    const char *why;      /* whom it waits for, why it stands still, how it closed; "" */
    int64_t begun_s;      /* the job, since 1970; 0: unknown */
    const char *begun_on; /* the name of the first node; "" */
    bool own_token;       /* it was begun with one */
};

struct dt_status_node {
    const char *name, *run;
    const char *state; /* "online", "suspect" */
    const char *doing; /* "waiting", "running", "stopping", "done", "parked" */
    int seat;          /* -1: none */
    int workers;
    int64_t beat_age_s;   /* since it was last heard of */
    int round;            /* the last it had a world in; -1: none */
    int64_t step;         /* -1: unknown */
    int64_t step_age_s;   /* since that step was new, at least 1; 0: unknown */
    int64_t tokens_per_s; /* 0: unknown, or not any more */
};

struct dt_status_excluded {
    const char *name, *why;
    int64_t until_s; /* how much longer; 0: not in quarantine */
    int strikes;
    bool drained;        /* by a person, until undrained */
    int64_t probation_s; /* how much longer one strike is enough; 0: none */
};

/* A round that is over; the page has these only where they are asked for. */
struct dt_status_past {
    int round;
    int64_t ended_s; /* since 1970; 0: unknown */
    int64_t lasted_ms;
    int64_t lost_ms;               /* nothing ran for so long behind it; -1: nothing has since */
    int64_t first_step, last_step; /* -1: unknown */
    const char *cause, *decided;
};

extern const struct dt_field dt_status_server_fields[];
extern const struct dt_field dt_status_run_fields[];
extern const struct dt_field dt_status_node_fields[];
extern const struct dt_field dt_status_excluded_fields[];
extern const struct dt_field dt_status_past_fields[];

#endif
