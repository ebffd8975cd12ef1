/* SPDX-License-Identifier: Apache-2.0 */
/* The rendezvous of torchrun's agents, as one of them takes part in it. There is no server that
 * decides: all share one state in a store, each changes its copy by the rules below and writes it
 * back if nobody was faster, else begins again with what the other wrote. Times in the state are
 * of each node's own clock.
 *
 * Pure: the state, this node and the times in; the state changed, and what is to be done with it,
 * out. What an agent does after every reading or writing is one call of dt_dynamic_sanitize() and
 * one of what it is about. */
#ifndef DT_AGENT_BACKEND_TORCHRUN_DYNAMIC_H
#define DT_AGENT_BACKEND_TORCHRUN_DYNAMIC_H

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"

#include <stdbool.h>

#define DT_DYNAMIC_NODES_MAX 4096
#define DT_DYNAMIC_ADDR_MAX 256
#define DT_DYNAMIC_LOOK DT_SECOND /* how often an agent that waits for something reads */

/* As torchrun knows an agent. Ordered by address, pid, number. */
struct dt_dynamic_node {
    char addr[DT_DYNAMIC_ADDR_MAX];
    int64_t pid, local_id;
};

/* A node that the state speaks of, in whatever list. */
struct dt_dynamic_member {
    struct dt_dynamic_node node;
    bool participates; /* in this round, ... */
    int rank;          /* ... as this one, once it is complete */
    bool waits;        /* for the next round */
    bool redundant;    /* would wait, but the round is full */
    bool beats;        /* and last did ... */
    int64_t heartbeat; /* ... then, in microseconds since 1970 */
};

/* How a version of PyTorch writes the state. Told by the first state that has a node in it. */
struct dt_dynamic_dialect {
    bool told;
    bool fqdn;       /* a node's address is called "fqdn", as in 1.13, and not "addr" */
    bool naive;      /* times are without a time zone; in UTC all the same */
    bool redundancy; /* there is a list of redundant nodes */
};

/* Zeroed memory is one that nobody has joined. */
struct dt_dynamic_state {
    struct dt_dynamic_dialect dialect;
    int64_t round;
    bool complete, closed;
    int64_t deadline; /* when a round that has enough nodes begins; microseconds, 0: none */
    struct dt_dynamic_member *members;
    size_t count, room;
};

void dt_dynamic_finish(struct dt_dynamic_state *s);
int dt_dynamic_copy(struct dt_dynamic_state *to, const struct dt_dynamic_state *from,
                    struct dt_err *err);

/* NULL: the state does not speak of it. */
struct dt_dynamic_member *dt_dynamic_find(const struct dt_dynamic_state *s,
                                          const struct dt_dynamic_node *node);
/* The same, put there if it is not. NULL: no memory, or too many. */
struct dt_dynamic_member *dt_dynamic_add(struct dt_dynamic_state *s,
                                         const struct dt_dynamic_node *node);
size_t dt_dynamic_participants(const struct dt_dynamic_state *s);
size_t dt_dynamic_waiting(const struct dt_dynamic_state *s);
/* The first of those who began the round THEN that is none of its participants NOW; NULL: all are.
 */
const struct dt_dynamic_member *dt_dynamic_missing(const struct dt_dynamic_state *then,
                                                   const struct dt_dynamic_state *now);

/* -- what one agent does ---------------------------------------------------------------------- */

/* This agent. The deadline is set before it joins anew. */
struct dt_dynamic_self {
    struct dt_dynamic_node node;
    size_t min_nodes, max_nodes;
    dt_ms last_call;    /* to wait for more nodes than are needed */
    dt_ms join_timeout; /* for a round to begin */
    dt_ms deadline;
};

enum dt_dynamic_act {
    DT_DYNAMIC_WRITE,    /* the state was changed: write it, and ask again */
    DT_DYNAMIC_SLEEP,    /* read it again in a while, and ask again */
    DT_DYNAMIC_DONE,     /* this is reached */
    DT_DYNAMIC_CLOSED,   /* no round will begin any more */
    DT_DYNAMIC_RELEASED, /* the same, for one that was not needed */
    DT_DYNAMIC_TIMEOUT,  /* it took too long */
    DT_DYNAMIC_FULL,     /* no memory, or too many nodes */
};

/* Forgets nodes that have not been heard of for a while. It gets into the store with the next thing
 * that is written. */
void dt_dynamic_sanitize(struct dt_dynamic_state *s, const struct dt_dynamic_self *self,
                         int64_t wall);

/* Out of the present round, if in it. The last one out ends the round. */
enum dt_dynamic_act dt_dynamic_exit(struct dt_dynamic_state *s, const struct dt_dynamic_self *self);
/* Into a round, until it begins. Out of the present one first. */
enum dt_dynamic_act dt_dynamic_join(struct dt_dynamic_state *s, struct dt_dynamic_self *self,
                                    dt_ms now, int64_t wall);
/* Alive: done when there is nothing to say yet. */
enum dt_dynamic_act dt_dynamic_beat(struct dt_dynamic_state *s, const struct dt_dynamic_self *self,
                                    int64_t wall);
/* The job is over, for all. */
enum dt_dynamic_act dt_dynamic_close(struct dt_dynamic_state *s);
/* Gone, wherever in the state it was; the others go on. */
enum dt_dynamic_act dt_dynamic_leave(struct dt_dynamic_state *s,
                                     const struct dt_dynamic_self *self);

/* -- as it stands in the store: a pickle in base64 -------------------------------------------- */

#define DT_DYNAMIC_NOTHING "Y2FuaW1hZGFt" /* what stands there before the first state */

/* What TEXT does not tell of the dialect stays as it was. -1: S is as it was. */
int dt_dynamic_read(struct dt_dynamic_state *s, struct dt_bytes text, struct dt_err *err);
/* OUT is sticky. */
void dt_dynamic_write(const struct dt_dynamic_state *s, struct dt_buf *out);

#endif
