/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a rendezvous server: finds the one that a frame is for, steps it, carries out what it
 * decides, and keeps the journal. Inside the server only.
 *
 * What is decided must be on disk before anybody hears of it, and a disk is slow beside ten
 * thousand nodes that join at once. So a run that has something to record is marked, and written
 * when the disk is free: once, however much came meanwhile. A number counts what was marked; what a
 * run says waits for the number that was reached then. When the disk takes nothing more, or takes
 * longer than two seconds, agents are told nevertheless: training that goes on is worth more than a
 * journal. */
#ifndef DT_RENDEZVOUS_RDZV_RUNS_H
#define DT_RENDEZVOUS_RDZV_RUNS_H

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "rendezvous/journal.h"
#include "rendezvous/rdzv/rdzv.h"
#include "rendezvous/rdzv_conn.h"

struct dt_rdzv_run {
    struct dt_map_node in_map;
    char id[DT_RUN_ID_MAX];
    struct dt_rdzv *rdzv;
    struct dt_node in_all;
    struct dt_node in_unsaved;
    struct dt_map conns; /* of its agents, by incarnation */
    uint64_t after;      /* what it says waits until so much is durable */
};

/* The owner sets the first block before dt_rdzv_runs_open(). */
struct dt_rdzv_runs {
    uv_loop_t *loop;
    size_t most_runs, most_nodes;
    bool hosted; /* by an agent */
    struct dt_rdzv_server_counters *counters;
    /* C has no run any more. */
    void (*on_stranger)(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c);
    void (*on_durable)(struct dt_rdzv_runs *runs); /* nothing is under way on the disk */

    struct dt_map by_id;
    struct dt_list all;
    struct dt_exclude exclude;
    struct dt_rdzv_actions actions;
    dt_ms next;  /* when a tick is wanted; may be too early, never too late */
    bool frozen; /* we are leaving: that connections end means nothing any more */

    struct dt_journal *journal; /* NULL: there is none, and all is durable at once */
    struct dt_list unsaved;     /* marked runs */
    struct dt_list holding;     /* connections with frames that wait */
    struct dt_buf record;
    uint64_t marked, asked, durable;
    dt_ms asked_at; /* when the disk was asked for the last time */
    bool syncing;
    struct dt_log_limit complaints; /* about the journal */
    struct dt_log_limit lines;      /* about runs */
};

/* STATE_DIR may be NULL. What its journal holds is there again. */
int dt_rdzv_runs_open(struct dt_rdzv_runs *runs, const char *state_dir, struct dt_err *err);
/* No connection is left. The journal is closed, all is freed, and ON_CLOSED called. */
void dt_rdzv_runs_close(struct dt_rdzv_runs *runs, void (*on_closed)(void *arg), void *arg);

/* What an agent says. -1 and *err: nobody may say that there. */
int dt_rdzv_runs_frame(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m, struct dt_err *err);
/* C is gone. */
void dt_rdzv_runs_lost(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c);
/* Drains a node, or undoes it, in all runs, and answers C. */
void dt_rdzv_runs_drain(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                        const struct dt_message *m);
/* The time is runs->next, or later. */
void dt_rdzv_runs_tick(struct dt_rdzv_runs *runs);
/* All of them end. */
void dt_rdzv_runs_end(struct dt_rdzv_runs *runs, const char *why);

/* For rdzv_drain.c. Records what is known of the node NAME, which has changed. */
void dt_rdzv_runs_record_node(struct dt_rdzv_runs *runs, const char *name);
/* Tells all runs that this node, "" for all that there are, is kept out or no longer is. */
void dt_rdzv_runs_tell_of_node(struct dt_rdzv_runs *runs, const char *node);

#endif
