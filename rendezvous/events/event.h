/* SPDX-License-Identifier: Apache-2.0 */
/* One thing that happened at a rendezvous, for people and for programs. The log says the same in
 * the same words. Pure. */
#ifndef DT_RENDEZVOUS_EVENTS_EVENT_H
#define DT_RENDEZVOUS_EVENTS_EVENT_H

#include "base/buf.h"

#include <stdint.h>

/* A kind's name goes to people's alerts: it never changes, and a new kind goes to the end of its
 * group, as nothing keeps the numbers. */
enum dt_event_kind {
    /* Of the server. */
    DT_EVENT_SERVER_STARTED,
    DT_EVENT_SERVER_STOPPED,
    /* Of a run. */
    DT_EVENT_RUN_BEGAN,
    DT_EVENT_RUN_ENDED_WELL,
    DT_EVENT_RUN_ENDED_BADLY,
    DT_EVENT_ROUND_BEGAN,
    DT_EVENT_ROUND_ENDED,
    DT_EVENT_WORKER_FAILED,    /* the likeliest cause of a round's failure */
    DT_EVENT_BELOW_MIN,        /* too few nodes are left for another round */
    DT_EVENT_SPARES_EXHAUSTED, /* fewer spares stand by than the run asks for */
    DT_EVENT_HANG,
    DT_EVENT_HANG_OVER,
    DT_EVENT_STRAGGLER,
    DT_EVENT_STRAGGLER_OVER,
    DT_EVENT_PAUSED,
    DT_EVENT_RESUMED,
    DT_EVENT_SAVE_ASKED,
    /* Of a node. */
    DT_EVENT_NODE_JOINED,
    DT_EVENT_NODE_REFUSED,
    DT_EVENT_NODE_LEFT,
    DT_EVENT_NODE_LOST,
    DT_EVENT_NODE_DRAINED,
    DT_EVENT_NODE_UNDRAINED,
    DT_EVENT_NODE_QUARANTINED,
    DT_EVENT_KINDS,
};

/* What a person has to do about it: nothing; know that we coped; act. */
enum dt_event_weight { DT_EVENT_INFO, DT_EVENT_WARNING, DT_EVENT_ERROR, DT_EVENT_WEIGHTS };

struct dt_event {
    uint64_t number; /* 1, 2, ... of its server; 0: it has none yet */
    int64_t at_us;   /* since 1970, UTC */
    enum dt_event_kind kind;
    enum dt_event_weight weight;
    int round, rank;        /* -1: it is of none */
    const char *run, *node; /* NULL or "": it is of none */
    const char *words;      /* a sentence */
};

const char *dt_event_kind_name(enum dt_event_kind k);     /* "node_lost" */
const char *dt_event_weight_name(enum dt_event_weight w); /* "info", "warning", "error" */

/* Appends one object without white space or the end of a line. What the event is not of is left
 * out:
 * {"number":7,"time":"2026-11-23T07:00:00.123456Z","kind":"node_lost","weight":"warning",
 *  "run":"llama","round":3,"node":"node7","rank":12,"words":"node7 went offline (...)"} */
void dt_event_put_json(struct dt_buf *out, const struct dt_event *e);

#endif
