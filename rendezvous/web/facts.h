/* SPDX-License-Identifier: Apache-2.0 */
/* What the metrics tell, as plain data: gathered from a server here, made into text by metrics.h.
 * A number below 0 is unknown, and is not told. */
#ifndef DT_RENDEZVOUS_WEB_FACTS_H
#define DT_RENDEZVOUS_WEB_FACTS_H

#include "rendezvous/alerts/alerts.h"
#include "rendezvous/events/event.h"
#include "rendezvous/rdzv/rdzv.h"
#include "rendezvous/runs/server.h"

/* A label has no more values than these: further runs and nodes are left out. */
#define DT_WEB_RUNS_SHOWN 256
#define DT_WEB_NODES_SHOWN 1024
#define DT_WEB_RECEIVERS_SHOWN 32
#define DT_WEB_RULES_MOST 32

/* What there is over HTTP. */
enum dt_web_path {
    DT_WEB_PATH_PAGE,
    DT_WEB_PATH_HEALTHZ,
    DT_WEB_PATH_READYZ,
    DT_WEB_PATH_METRICS,
    DT_WEB_PATH_STATUS,
    DT_WEB_PATH_EVENTS,
    DT_WEB_PATH_OTHER, /* nothing */
    DT_WEB_PATHS,
};
const char *dt_web_path_name(enum dt_web_path path); /* "/metrics"; "other" */
enum dt_web_path dt_web_path_of(const char *text);

/* What the owner of the service counted itself. */
struct dt_web_counts {
    int64_t answers[DT_WEB_PATHS][6]; /* by the first digit of the status */
    int64_t streams;                  /* of /events, open now */
    int64_t events[DT_EVENT_KINDS];
};

struct dt_web_run {
    const char *id; /* the server's, as all strings here; good until its next event */
    enum dt_run_state state;
    int64_t state_s;                          /* how long it has been in that */
    int64_t failed, paused, hangs, straggles; /* 1: it is so */
    int64_t round, restarts, losses, restarts_left;
    int64_t min_nodes, max_nodes;
    int64_t nodes, spares, suspects; /* with a seat; that wait beside them; that missed a beat */
    int64_t workers;                 /* of the round that runs */
    int64_t step, step_age_s, tokens_per_s, steps;
    const char *loss; /* as in telemetry.h; NULL or "": unknown */
    int64_t mfu;      /* in thousandths, as are the next */
    int64_t compute, comm, data, idle;
};

struct dt_web_node {
    const char *run, *name;
    int64_t beat_age_s, workers, step, step_age_s, tokens_per_s, step_ms;
    int64_t gpus, gpu_busy, gpu_memory, gpu_memory_used; /* busy: in thousandths; memory: bytes */
    int64_t disk, disk_free;                             /* bytes */
    int64_t upload_behind_s;
};

/* What came of the alerts for one receiver. */
struct dt_web_receiver {
    const char *name; /* as that of a run */
    int64_t delivered, failed, dropped, waiting;
};

struct dt_web_facts {
    const char *version, *host;
    int64_t started_ms, cpu_ms, resident, files, files_most; /* of the process */
    int64_t runs[DT_RUN_CLOSED + 1];
    int64_t nodes[DT_MEMBER_DOINGS][DT_LINKS];
    int64_t spares, workers, drained, quarantined;
    int64_t unwritten, state_lost; /* of the state directory; unknown without one */
    int64_t runs_left_out, nodes_left_out;
    struct dt_store_server_counters store;
    struct dt_store_counts keys;
    struct dt_rdzv_server_counters control;
    struct dt_web_counts counts;
    struct dt_web_run run[DT_WEB_RUNS_SHOWN];
    size_t run_count;
    struct dt_web_node node[DT_WEB_NODES_SHOWN];
    size_t node_count;
    int64_t alert[DT_WEB_RULES_MOST]; /* raised now, by rule */
    struct dt_web_receiver receiver[DT_WEB_RECEIVERS_SHOWN];
    size_t receiver_count;
};

/* What a server, its store and this process tell at NOW. HOST as in the server's hello; COUNTS and
 * STARTED_US, since 1970, are the caller's. */
void dt_web_facts_gather(struct dt_web_facts *f, const char *host,
                         const struct dt_rdzv_server *server, const struct dt_store_server *store,
                         const struct dt_web_counts *counts, int64_t started_us, dt_ms now);

/* Adds which alerts are raised, by RAISED, and what came of them for the receivers of ALERTS (NULL:
 * there are none); after the others. */
void dt_web_facts_add_alerts(struct dt_web_facts *f, const struct dt_alert_book *raised,
                             const struct dt_alerts *alerts);

#endif
