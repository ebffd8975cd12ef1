/* SPDX-License-Identifier: Apache-2.0 */
/* This node in the state that a torchrun's agents share: it has an aim, and the state is read, and
 * written where that is needed, until the aim is reached. What the agent does meanwhile is its
 * owner's. */
#ifndef DT_AGENT_BACKEND_TORCHRUN_FOREIGN_MEMBER_H
#define DT_AGENT_BACKEND_TORCHRUN_FOREIGN_MEMBER_H

#include "agent/backend/torchrun/dynamic_store.h"
#include "agent/backend/torchrun/foreign_wait.h"
#include "agent/plan.h"

enum dt_foreign_aim {
    DT_FOREIGN_RESTING,
    DT_FOREIGN_EXITING,  /* from the last round, to ... */
    DT_FOREIGN_ENTERING, /* ... the next */
    DT_FOREIGN_WATCHING, /* the round this node is in */
    DT_FOREIGN_LEAVING,  /* for good; the job goes on */
    DT_FOREIGN_CLOSING,  /* it does not */
    DT_FOREIGN_AIMS,
};

/* All told from the loop. */
struct dt_foreign_member_events {
    void (*on_round)(void *arg);    /* one has begun with this node in it: now it is watched */
    void (*on_seen)(void *arg);     /* what is watched was read again */
    void (*on_out)(void *arg);      /* this node has left, or the job is closed */
    void (*on_released)(void *arg); /* no round will begin, and this node was not needed */
    /* It rests: the state cannot be read or written, or has no place for it. */
    void (*on_failed)(void *arg, const struct dt_err *err);
};

struct dt_foreign_member {
    uv_loop_t *loop;
    const char *store; /* its address, for people */
    const struct dt_foreign_member_events *events;
    void *arg;
    struct dt_dynamic_store shared; /* the state, as it was read last */
    struct dt_dynamic_self self;
    enum dt_foreign_aim aim;
    uv_timer_t next;             /* look at the state */
    struct dt_foreign_wait wait; /* for a round */
    bool last_try;               /* the owner's: a connection that is lost will not be back */
    bool away;                   /* nothing was read since dt_foreign_member_lost() */
    bool ended;
};

/* PLAN, STORE and EVENTS outlive it. It has no handles before dt_foreign_member_start(), and no aim
 * before it is given one. */
void dt_foreign_member_init(struct dt_foreign_member *m, uv_loop_t *loop,
                            const struct dt_plan *plan, const char *store,
                            const struct dt_foreign_member_events *events, void *arg);
void dt_foreign_member_start(struct dt_foreign_member *m, struct dt_store_client *client);
/* No event comes any more. The owner closes NEXT and the client, and then finishes it. */
void dt_foreign_member_end(struct dt_foreign_member *m);
void dt_foreign_member_finish(struct dt_foreign_member *m);

/* Into a round that is still to begin, within TIME; out of the last first. */
void dt_foreign_member_join(struct dt_foreign_member *m, dt_ms time);
/* Out for good. Where nobody has begun the job yet there is nothing to leave. */
void dt_foreign_member_leave(struct dt_foreign_member *m);
void dt_foreign_member_close_job(struct dt_foreign_member *m);
void dt_foreign_member_rest(struct dt_foreign_member *m);

/* The connection is gone. Returns whether that is news since the state was last read. */
bool dt_foreign_member_lost(struct dt_foreign_member *m);

#endif
