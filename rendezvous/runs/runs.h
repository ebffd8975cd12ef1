/* SPDX-License-Identifier: Apache-2.0 */
/* The runs of a rendezvous server: finds the one that a frame is for, steps it, and carries out
 * what it decides. What of it must be on disk first is records.h. Inside the server only. */
#ifndef DT_RENDEZVOUS_RUNS_RUNS_H
#define DT_RENDEZVOUS_RUNS_RUNS_H

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "rendezvous/events/chronicle.h"
#include "rendezvous/journal/journal.h"
#include "rendezvous/rdzv/rdzv.h"
#include "rendezvous/runs/conn.h"

struct dt_rdzv_run {
    struct dt_map_node in_map;
    char id[DT_RUN_ID_MAX];
    struct dt_rdzv *rdzv;
    struct dt_node in_all;
    struct dt_node in_unsaved;
    struct dt_map conns;    /* of its agents, by incarnation */
    struct dt_list lookers; /* connections of people who wait for a look at its workers */
    struct dt_list tails;   /* people who read what its workers print */
    uint64_t after;         /* what it says waits until so much is durable */
};

/* The owner sets the first block before dt_rdzv_runs_open(). */
struct dt_rdzv_runs {
    uv_loop_t *loop;
    size_t most_runs, most_nodes;
    bool hosted;              /* by an agent */
    bool share_default_id;    /* see server.h */
    const char *operator_key; /* see authority.h */
    struct dt_rdzv_server_counters *counters;
    /* C has no run any more. */
    void (*on_stranger)(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c);
    void (*on_durable)(struct dt_rdzv_runs *runs); /* nothing is under way on the disk */

    struct dt_map by_id;
    struct dt_list all;
    struct dt_exclude exclude;
    struct dt_chronicle chronicle;
    struct dt_list followers; /* who waits for the next event */
    int64_t last_tail;        /* the number of the last person who reads; 0: none did */
    struct dt_rdzv_actions actions;
    dt_ms next;  /* when a tick is wanted; may be too early, never too late */
    bool frozen; /* we are leaving: that connections end means nothing any more */

    struct dt_journal *journal; /* NULL: there is none, and all is durable at once */
    struct dt_list unsaved;     /* marked runs */
    struct dt_list holding;     /* connections with frames that wait */
    struct dt_buf record;
    uint64_t marked, asked, durable;
    uint64_t oldest_event; /* that the journal has; 0: it has none */
    dt_ms asked_at;        /* when the disk was asked for the last time */
    bool syncing;
    struct dt_log_limit complaints; /* about the journal */
    struct dt_log_limit lines;      /* about runs: see tell.h */
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
/* Looks at all workers of a run for C, and answers it then. */
void dt_rdzv_runs_look(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m);
/* Lets C read what workers of a run print. */
void dt_rdzv_runs_logs(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m);
/* What they printed, as the agent C tells it. -1 and *err as above. */
int dt_rdzv_runs_tailed(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                        const struct dt_message *m, struct dt_err *err);
/* The time is runs->next, or later. */
void dt_rdzv_runs_tick(struct dt_rdzv_runs *runs);
/* All of them end. */
void dt_rdzv_runs_end(struct dt_rdzv_runs *runs, const char *why);

/* For wishes.c. NULL: there is no such run. */
struct dt_rdzv_run *dt_rdzv_runs_find(const struct dt_rdzv_runs *runs, const char *id);
/* Steps RUN and carries out what it decides; RUN may be gone then. */
void dt_rdzv_runs_step(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                       const struct dt_rdzv_event *event);

/* For records.c: there is something to do at WHEN. */
void dt_rdzv_runs_look_again(struct dt_rdzv_runs *runs, dt_ms when);
/* For drain.c. Tells all runs that this node, "" for all that there are, is kept out or no
 * longer is. */
void dt_rdzv_runs_tell_of_node(struct dt_rdzv_runs *runs, const char *node);

#endif
