/* SPDX-License-Identifier: Apache-2.0 */
/* One agent's side of an elastic job: what it says to the rendezvous, and what it makes of what it
 * is told. Pure: frames, the time and the agent's own wishes in; calls out.
 *
 *             world            stop, stale, or the agent's workers failed
 *   JOINING ---------> RUNNING --------------------------> STOPPING
 *      ^                  | all its workers succeeded          | workers are gone: join
 *      |                  v                                    |
 *      |                DONE --- stop ------------------------>|
 *      +-------------------------------------------------------+
 *   any --- close, leave --> ENDED
 *
 * Who leaves while workers are alive is LEAVING until they are gone: the others wait for them.
 * The connection comes and goes beside that. Whatever the server may have missed or forgotten is
 * said again on the next one: JOIN with what the agent has and that its round is over, and a
 * failure until the next world. Frames of a round that is over have no effect. While nobody can be
 * reached the workers run on, or (policy) are stopped. A server that refuses an agent whose workers
 * run is one that cannot be reached: it was started anew, and knows less or may less than the one
 * that made the world. */
#ifndef DT_AGENT_BACKEND_ELASTIC_SESSION_SESSION_H
#define DT_AGENT_BACKEND_ELASTIC_SESSION_SESSION_H

#include "base/clock.h"
#include "rendezvous/protocol/messages.h"

enum dt_session_phase {
    DT_SESSION_IDLE,    /* nothing was asked for yet */
    DT_SESSION_JOINING, /* waits for a world; parked or not */
    DT_SESSION_RUNNING,
    DT_SESSION_STOPPING, /* the owner ends its workers, and joins when they are gone */
    DT_SESSION_DONE,     /* its workers have succeeded; waits for the others */
    DT_SESSION_LEAVING,  /* the owner ends its workers, and goes when they are gone */
    DT_SESSION_ENDED,
};
const char *dt_session_phase_name(enum dt_session_phase p);

struct dt_session;

/* Called from inside the functions below; may call none of them. */
struct dt_session_ops {
    void (*send)(void *arg, const struct dt_message *m);                   /* only while up */
    void (*world)(void *arg, int round, const struct dt_world_message *w); /* start workers */
    /* The round is over. Called again while workers are being stopped, when they may do less than
     * they were told before. */
    void (*stop)(void *arg, enum dt_stop_how how, const char *why);
    void (*closed)(void *arg, enum dt_close_kind kind, const char *why);
    void (*note)(void *arg, const char *text); /* for the person at the terminal */
    /* What the workers do is asked for: dt_session_looked() with ID answers. NATIVE: with the calls
     * of C code. */
    void (*look)(void *arg, int64_t id, bool native);
    void (*keep)(void *arg); /* a person wants the workers to save */
    /* The workers of all nodes stand still, and why. */
    void (*finding)(void *arg, const struct dt_finding_message *f);
    /* What is said of the worker that holds the others up, or did; with each answer to a beat. */
    void (*straggler)(void *arg, const char *sentence, bool holds_up);
    void (*tail)(void *arg, const struct dt_message *m); /* a TAIL or MORE, for tailed() */
    void (*disconnect)(void *arg,
                       const char *why); /* the connection is no good; then comes down() */
    /* The same, as the server refuses this agent, whose workers run on. */
    void (*refused)(void *arg, const char *why);
    uint64_t (*random)(void *arg); /* a new incarnation */
};

struct dt_session_config {
    const char *run;
    struct dt_join join; /* spec and node; the claim is the session's. Strings outlive it */
    bool stop_when_away; /* --on-daemon-loss stop */
    const struct dt_session_ops *ops;
    void *arg;
};

struct dt_session {
    struct dt_session_config config;
    enum dt_session_phase phase;
    bool up;    /* a greeted connection is there ... */
    bool looks; /* ... to a rendezvous that understands STILL and LOOKED */
    uint64_t incarnation;
    int round;       /* of its last world; -1: none */
    int known_round; /* the same, of earlier incarnations too */
    bool parked;
    enum dt_stop_how how;  /* STOPPING and LEAVING: what workers were told ... */
    dt_ms stop_by;         /* ... and when the server waits for them no longer, at the earliest */
    struct dt_claim claim; /* of that world */
    char over[DT_WHY_MAX]; /* the claim's */
    bool result_pending;   /* a failure that no world has followed yet */
    struct dt_result result;
    char result_text[DT_WHY_MAX], result_signature[128], result_place[DT_PLACE_MAX];
    char result_cause[DT_WHY_MAX];
    dt_ms result_at;             /* when it was as old as it says */
    char cause[DT_WHY_MAX];      /* why the last round failed, as the latest world or close says */
    char leave_text[DT_WHY_MAX]; /* LEAVING: why */
    struct dt_beat facts;        /* what beats say ... */
    char own_reason[DT_OWN_REASON_MAX]; /* ... with this string ... */
    struct dt_telemetry_kept telemetry; /* ... and this, */
    bool telemetry_new;                 /* where the server does not know it yet */
    dt_ms still, still_said; /* RUNNING: so long the workers stood still, then; 0: they move */
    bool still_sure;
    dt_ms up_since;   /* this connection, or the last one */
    dt_ms away_since; /* not up, and when it was last heard; DT_FOREVER: is up, or never was */
    dt_ms next_beat, answered;  /* when the server last said anything */
    dt_ms join_said, beat_said; /* the latest of each ... */
    dt_ms heard_of;             /* ... and of those that the server has answered */
    dt_ms now;                  /* of the last call */
};

void dt_session_init(struct dt_session *s, const struct dt_session_config *config);

/* -- the owner's wishes ----------------------------------------------------------------------- */

/* No workers are alive; a world is wanted. */
void dt_session_join(struct dt_session *s, dt_ms now);
/* The first of its workers failed; the others are being stopped. Join when they are gone: the
 * answer is a world, or that the job is closed. */
void dt_session_failed(struct dt_session *s, const struct dt_result *result, dt_ms now);
/* What is known of why workers here failed, now that they are gone: whether this node said so
 * before or its round was ended by another one's failure. Before the join. */
void dt_session_found(struct dt_session *s, const struct dt_result *result, dt_ms now);
void dt_session_succeeded(struct dt_session *s, dt_ms now);
/* Goes for good; the others go on, once workers that are alive here are gone. */
void dt_session_leave(struct dt_session *s, const char *why, dt_ms now);
/* The workers of one that leaves are gone, or the owner waits no longer. */
void dt_session_end(struct dt_session *s, dt_ms now);
/* What the next beats say. A loss that is no number any more is said with the next tick. */
void dt_session_tell(struct dt_session *s, const struct dt_beat *facts);
/* The workers have stood still for so long; 0: they move again. SURE: see agent/hang/hang.h. False:
 * the rendezvous, or the last that there was, is an older one and is not told. */
bool dt_session_still(struct dt_session *s, dt_ms still, bool sure, dt_ms now);
/* What the workers do, as was asked for by ID. */
void dt_session_looked(struct dt_session *s, int64_t id, const struct dt_stances *stances,
                       dt_ms now);
/* What workers printed, for who reads along: as asked for by ID. */
void dt_session_tailed(struct dt_session *s, int64_t id, bool over, const char *page, dt_ms now);
/* What the run is called. Before the first connection. */
void dt_session_name(struct dt_session *s, const char *run);
/* Where workers would meet here may change before each join. */
void dt_session_set_port(struct dt_session *s, int port);

/* Until when the server cannot have begun a later round, whatever it has heard or not: what the
 * workers of this one have made may become valid before. 0: it may have. */
dt_ms dt_session_lease(const struct dt_session *s);

/* -- the connection --------------------------------------------------------------------------- */

/* LOOKS: the rendezvous understands STILL and LOOKED, as its greeting says. */
void dt_session_connected(struct dt_session *s, bool looks, dt_ms now);
void dt_session_disconnected(struct dt_session *s, dt_ms now);
void dt_session_frame(struct dt_session *s, const struct dt_message *m, dt_ms now);

void dt_session_tick(struct dt_session *s, dt_ms now);
/* When a tick is wanted at the latest; DT_FOREVER: never. */
dt_ms dt_session_next(const struct dt_session *s);

#endif
