/* SPDX-License-Identifier: Apache-2.0 */
/* A host with an agent on it: the real session, an owner around it that starts, stops and loses
 * workers as the real agent does, and the workers, which are nothing but times. */
#ifndef DT_TESTS_SIM_NODE_H
#define DT_TESTS_SIM_NODE_H

#include "agent/backend/elastic/session/session.h"
#include "tests/lib/sim/net.h"

struct sim_event;

enum sim_workers {
    SIM_NO_WORKERS,
    SIM_STARTING,
    SIM_TRAINING,
    SIM_ENDING,    /* were told to end */
    SIM_SUCCEEDED, /* are gone, all well */
};

struct sim_node {
    struct sim *sim;
    uint32_t index;
    char name[24];
    char host[24], boot[40], domain[24], addr[32], role[16]; /* as it says */
    int workers, order;
    bool stop_when_away;
    bool local; /* on the server's host: between the two there is no network that may fail */

    bool host_up, agent_up;
    uint32_t life; /* of the agent: which start of it */
    uint32_t boots;
    dt_ms paused_until;     /* the agent; its workers run on */
    dt_ms blocked_until[2]; /* the network, each way */
    dt_ms skew;             /* its clock is ahead by so much */
    dt_ms ill_until;        /* what faults do to it; DT_FOREVER: until it is connected again */

    struct dt_session session;
    uint32_t conn;
    bool greeted;
    int dials; /* in vain */
    dt_ms tick_at;

    enum sim_workers state;
    uint32_t crew; /* which of its workers: events of former ones are void */
    int round;     /* theirs */
    bool may_save; /* they are being stopped, and what they save with the others counts */
    bool leaving;  /* was asked to go ... */
    dt_ms left_at; /* ... then, and nothing was wrong with it ... */
    uint32_t left; /* ... over this connection; SIM_NO_CONN: something was */

    bool closed; /* was told that the job is over ... */
    enum dt_close_kind closed_as;
    bool ended; /* ... and has ended */

    uint64_t member; /* the server counts it as that; 0: not */
    dt_ms member_since;

    /* The last world that was sent to it. */
    uint64_t world_as;
    uint32_t world_memory;
    int world_round, world_seat;
    int succeeded_round; /* its workers did, in that one; -1: none */

    /* Of its workers, for a look. */
    struct dt_rank_range ranks;
    struct dt_stance_group stances;
    int still_round; /* the server heard that they stand still in that one; -1: they move */
    uint32_t told;   /* of which hang it was told, and 1 more: see sim_judge */
};

/* Fills NODE, whose host is up and whose agent is not started. */
void sim_node_init(struct sim *s, uint32_t index);
void sim_node_start(struct sim *s, struct sim_node *n);
void sim_node_receive(struct sim *s, struct sim_node *n, uint32_t conn, enum sim_parcel what,
                      const struct sim_letter *letter);

/* What happens to it. */
void sim_node_kill(struct sim *s, struct sim_node *n);      /* kill -9 of the agent */
void sim_node_lose_host(struct sim *s, struct sim_node *n); /* silently */
void sim_node_boot(struct sim *s, struct sim_node *n);
void sim_node_pause(struct sim *s, struct sim_node *n, dt_ms until);
void sim_node_jump(struct sim *s, struct sim_node *n, dt_ms by);
void sim_node_fail(struct sim *s, struct sim_node *n, enum dt_evidence evidence, int cause);
void sim_node_leave(struct sim *s, struct sim_node *n);
void sim_node_hang(struct sim *s, struct sim_node *n, dt_ms until); /* its workers stand still */
/* Its connection goes silently. */
void sim_node_lose_connection(struct sim *s, struct sim_node *n);
/* Nothing gets through that way for a while. */
void sim_node_block(struct sim *s, struct sim_node *n, enum sim_way way, dt_ms until);

bool sim_node_has_workers(const struct sim_node *n); /* alive ones */
/* What they have made may become valid, as their progress pages say. */
bool sim_node_may_commit(const struct sim_node *n);
const char *sim_workers_name(enum sim_workers w);

#endif
