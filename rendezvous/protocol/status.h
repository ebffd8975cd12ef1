/* SPDX-License-Identifier: Apache-2.0 */
/* What the page of a STATUS answer is made of: see docs/protocol.md. Rows for fields.h, for who
 * makes a page and for who reads one. */
#ifndef DT_RENDEZVOUS_PROTOCOL_STATUS_H
#define DT_RENDEZVOUS_PROTOCOL_STATUS_H

#include "rendezvous/protocol/spec.h"
#include "rendezvous/protocol/telemetry.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_STATUS_PAGE_NODES 256
#define DT_HTTP_PLACES_MAX 256 /* of the addresses that answer HTTP, with their NUL */

struct dt_status_server {
    const char *host; /* "daemon" or "agent" */
    const char *version;
    /* For who examines it, so not over HTTP; 0 and "" from an older one. */
    int64_t now_us;   /* its clock, since 1970 */
    const char *http; /* where it answers HTTP: "127.0.0.1:29480 [::1]:29480"; "": nowhere */
    /* What there is of what it bounds, and the bounds. */
    int64_t runs, most_runs;
    int64_t nodes, most_nodes;
    int64_t connections, most_connections;
    int64_t store_bytes, most_store_bytes;
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
    bool paused;          /* gathering: until a person lets it go on */
    const char *ended;    /* closed: a kind of end: "succeeded", "stopped", ...; "": it is not */
    int64_t begun_s;      /* the job, since 1970; 0: unknown */
    const char *begun_on; /* the name of the first node; "" */
    bool own_token;       /* it was begun with one */
    /* What its nodes tell of the round that runs. */
    int64_t step;         /* the highest that was heard of; 0: none, or unknown */
    int64_t steps;        /* there will be; 0: unknown */
    const char *loss;     /* "2.3456", "nan", "inf"; "": unknown */
    int64_t tokens_per_s; /* of the whole world; 0: unknown, or not any more */
    int mfu;              /* model FLOPs of what the GPUs could do, in thousandths; 0: unknown */
    /* What the last steps were spent on, in thousandths that make 1000 together; all 0: unknown. */
    int compute, comm, data, idle; /* idle: all else, such as waits and checkpoints */
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
    int64_t step_ms;      /* that its slowest worker's last steps took each; 0: unknown */
    /* GPUs that its workers may use, all together. */
    int gpus;                               /* 0: there are none, or nothing is known of them */
    int gpu_busy;                           /* percent; -1: they do not tell */
    int64_t gpu_mem_mib, gpu_mem_total_mib; /* in use, and in all; total 0: they do not tell */
    /* The fullest of the disks that it writes to. */
    const char *disk; /* a folder there; "": unknown, as the numbers are */
    int64_t disk_free_mib, disk_total_mib;
    int64_t upload_behind_s; /* so long the oldest checkpoint has waited to be uploaded; 0: none */
    /* Of each worker, by local rank, the milliseconds of its own part of a step, or of a step where
     * no part is told: "812,809,1240"; "": unknown, or the page is not of one run. */
    const char *worker_ms;
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
