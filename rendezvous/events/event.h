/* SPDX-License-Identifier: Apache-2.0 */
/* One thing that happened at a rendezvous, for people and for programs. The log says the same in
 * the same words. Pure. */
#ifndef DT_RENDEZVOUS_EVENTS_EVENT_H
#define DT_RENDEZVOUS_EVENTS_EVENT_H

#include "base/buf.h"

#include <stdint.h>

/* A kind's name and weight go to people's alerts: a name never changes, and no number is kept
 * anywhere. Rows of event.c. */
enum dt_event_kind {
    DT_EVENT_SERVER_STARTED,
    DT_EVENT_SERVER_STOPPED,
    DT_EVENT_SERVER_STALLED, /* it did nothing for a while, nor took what nodes said */
    DT_EVENT_CLIENT_REFUSED, /* before it could say who it is: another token, or version */

    DT_EVENT_RUN_BEGAN,
    DT_EVENT_RUN_LEARNT, /* of its nodes, by a server that did not know of the run */
    DT_EVENT_RUN_MIXED,  /* its nodes run different commands */
    DT_EVENT_RUN_DESERTED,
    DT_EVENT_RUN_ENDED_WELL,
    DT_EVENT_RUN_ENDED_BADLY,
    DT_EVENT_RUN_STOPPED, /* a person ended it */
    DT_EVENT_ROUND_BEGAN,
    DT_EVENT_ROUND_ENDED,
    DT_EVENT_ROUND_DELAYED,
    DT_EVENT_WORKER_FAILED, /* the likeliest cause of a round's failure */
    DT_EVENT_RESTARTS_RENEWED,
    DT_EVENT_BELOW_MIN,        /* too few nodes are left for another round */
    DT_EVENT_SPARES_SHORT,     /* fewer stand by than the run asks for ... */
    DT_EVENT_SPARES_EXHAUSTED, /* ... and none does */
    DT_EVENT_SPARES_THERE,     /* as many as it asks for, after that */
    DT_EVENT_NODES_SILENT,     /* most of them at once: perhaps our own network */
    DT_EVENT_HANG,
    DT_EVENT_HANG_OVER,
    DT_EVENT_STRAGGLER,
    DT_EVENT_STRAGGLER_OVER,
    DT_EVENT_LOSS_NAN, /* or infinite */
    DT_EVENT_LOSS_SPIKE,
    DT_EVENT_LOSS_OVER,   /* it is neither any more */
    DT_EVENT_NO_PROGRESS, /* no step for long, though workers run */
    DT_EVENT_NO_PROGRESS_OVER,
    DT_EVENT_DISK_LOW,      /* a node's is almost full ... */
    DT_EVENT_DISK_LOW_OVER, /* ... and none is any more */
    DT_EVENT_UPLOAD_BEHIND,
    DT_EVENT_UPLOAD_BEHIND_OVER,
    DT_EVENT_PAUSED,
    DT_EVENT_RESUMED,
    DT_EVENT_SAVE_ASKED,
    DT_EVENT_RESTARTED,
    DT_EVENT_STOP_ASKED,

    DT_EVENT_NODE_JOINED,
    DT_EVENT_NODE_BACK, /* with its workers, at a server that was restarted */
    DT_EVENT_NODE_REFUSED,
    DT_EVENT_NODE_LEFT,
    DT_EVENT_NODE_LOST,
    DT_EVENT_NODE_DRAINED,
    DT_EVENT_NODE_UNDRAINED,
    DT_EVENT_NODE_QUARANTINED,
    DT_EVENT_NODE_FORGIVEN,
    DT_EVENT_NODE_REPLACED,     /* by a spare, as it failed again and again */
    DT_EVENT_NODE_TAKEN_ANYWAY, /* though it is kept out, as no other is there */
    DT_EVENT_PREFLIGHT_FAILED,  /* what was found on its host breaks any job ... */
    DT_EVENT_PREFLIGHT_WARNED,  /* ... or can make one fail, or slow */
    DT_EVENT_KINDS,
};

/* What a person has to do about it: nothing; know that we coped; act. */
enum dt_event_weight { DT_EVENT_INFO, DT_EVENT_WARNING, DT_EVENT_ERROR };

struct dt_event {
    uint64_t number; /* 1, 2, ... of its server; 0: it has none yet */
    int64_t at_us;   /* since 1970, UTC */
    enum dt_event_kind kind;
    int round, rank;        /* -1: it is of none */
    const char *run, *node; /* NULL or "": it is of none */
    const char *words;      /* a sentence */
};

const char *dt_event_kind_name(enum dt_event_kind k); /* "node_lost" */
enum dt_event_weight dt_event_weight(enum dt_event_kind k);
const char *dt_event_weight_name(enum dt_event_weight w); /* "info", "warning", "error" */

/* For a journal; OUT is sticky. */
void dt_event_save(const struct dt_event *e, struct dt_buf *out);
/* False: IN holds no event, or one of a kind that this version does not know. Strings stay IN's. */
bool dt_event_restore(struct dt_event *e, struct dt_bytes in);

/* Appends one object without white space or the end of a line. What the event is not of is left
 * out:
 * {"number":7,"time":"2026-11-23T07:00:00.123456Z","kind":"node_lost","weight":"warning",
 *  "run":"llama","round":3,"node":"node7","rank":12,"words":"node7 went offline (...)"} */
void dt_event_put_json(struct dt_buf *out, const struct dt_event *e);

#endif
