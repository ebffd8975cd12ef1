/* SPDX-License-Identifier: Apache-2.0 */
/* How agents find each other: one interface over static lists of nodes, elastic rendezvous, and a
 * job of one node that has nobody to find.
 *
 * An agent joins, is given a world, runs its workers in it, and joins again for the next attempt.
 * After success it enters the barrier, where all wait for all. All calls belong to the loop's
 * thread; events come from the loop, never from inside a call, and may call anything.
 *
 * An elastic backend also decides: whether a failure is followed by another round, and when a round
 * is over although the workers here are well. Its functions are NULL where the agent decides. */
#ifndef DT_AGENT_BACKEND_BACKEND_H
#define DT_AGENT_BACKEND_BACKEND_H

#include "agent/plan.h"
#include "agent/world.h"
#include "base/err.h"
#include "rendezvous/hang/judge.h"
#include "rendezvous/protocol/messages.h"

#include <stdbool.h>
#include <uv.h>

/* A person whose node waits that long for others is told for whom ... */
#define DT_FIRST_NOTE (10 * DT_SECOND)
#define DT_NEXT_NOTE (30 * DT_SECOND) /* ... and again */

struct dt_backend {
    const struct dt_backend_ops *ops;
};

struct dt_backend_events {
    /* What was joined for. */
    void (*on_world)(void *arg, const struct dt_world *world);
    /* All came to the barrier, or (WHY) there is no more waiting for them. */
    void (*on_barrier_over)(void *arg, const struct dt_err *why);
    /* No world will come, now or later. The backend is still to be closed. */
    void (*on_failed)(void *arg, const struct dt_err *err);
    /* What the workers do is asked for, for looked(). NATIVE: with the calls of C code. */
    void (*on_look)(void *arg, int64_t look, bool native);
    /* The workers of all nodes stand still, and F says why. ALL: what all of them do. */
    void (*on_finding)(void *arg, const struct dt_stances *all, const struct dt_hang_finding *f);
    /* The rest only from an elastic backend. The round is over: stop the workers, and join when
     * they are gone. Comes again when they may do less than before. */
    void (*on_stop)(void *arg, enum dt_stop_how how, const char *why);
    /* The job is over. Workers that are alive are to be stopped. The backend is still to be closed.
     */
    void (*on_closed)(void *arg, enum dt_close_kind kind, const char *why);
    /* Until UNTIL (0: the past) no later round can have begun beside the workers of this one. Each
     * takes the place of the one before; as long as none came there is no limit. */
    void (*on_lease)(void *arg, dt_ms until);
    /* Somebody reads what the workers print: a TAIL or a MORE, for tailed(). */
    void (*on_tail)(void *arg, const struct dt_message *m);
    /* A person wants the workers to save. */
    void (*on_save)(void *arg);
    /* NULL, or: what is said of the worker that holds the others up, or (not HOLDS_UP) did, the
     * same on all nodes. Comes again and again. */
    void (*on_straggler)(void *arg, const char *sentence, bool holds_up);
    /* BY turned out to be what is wanted: it has the same events, and the join if one was waiting.
     * This one is closed already. Only before any other event. */
    void (*on_replaced)(void *arg, struct dt_backend *by);
    /* NULL, or: why the round before failed, the same on all nodes; then comes on_world() or
     * on_closed(). */
    void (*on_cause)(void *arg, const char *cause);
};

struct dt_backend_ops {
    /* Asks for a world; again after each one, when the workers of it are gone. */
    void (*join)(struct dt_backend *b);
    void (*barrier)(struct dt_backend *b);
    /* NULL, or: the first of the workers failed. Said at once, while the others here are being
     * stopped; join() follows when they are gone, and brings a world or on_closed(). */
    void (*failed)(struct dt_backend *b, const struct dt_result *result);
    /* NULL, or: all workers of a round that is over are gone, and it is known better why some
     * failed, or found out only now. Before join(). */
    void (*found)(struct dt_backend *b, const struct dt_result *result);
    /* NULL, or: this agent was told to end; the others may go on. Those of them who share a round
     * with workers that are alive here wait for these, until the backend is closed. */
    void (*leave)(struct dt_backend *b, const char *why);
    /* NULL, or: what is wrong with this host, for people who look at the job from elsewhere; also
     * before join(). FAILED: it breaks any job. */
    void (*remark)(struct dt_backend *b, bool failed, const char *words);
    /* NULL, or: how the workers are, for beats. */
    void (*tell)(struct dt_backend *b, const struct dt_beat *facts);
    /* NULL where each node judges alone, or: all workers here have stood still for so long; 0: they
     * move again. Once all nodes say so on_look() comes, and on_finding() where that explains it.
     * False: they will not, as the rendezvous, or another node, is an older one. SURE: see
     * agent/hang/hang.h. */
    bool (*still)(struct dt_backend *b, dt_ms still, bool sure);
    void (*looked)(struct dt_backend *b, int64_t look, const struct dt_stances *stances);
    /* NULL, or: what they printed, for the reader with that ID; see docs/protocol.md for the PAGE.
     * OVER: it was all, and PAGE may be NULL. */
    void (*tailed)(struct dt_backend *b, int64_t id, bool over, const char *page);
    /* Gives up what is under way, no event comes any more. Frees B, then calls ON_CLOSED. Peers get
     * the answers they are owed, and after a barrier their time to leave first, unless in a HURRY.
     * A second call, before ON_CLOSED, may only be in one; its ON_CLOSED is not called. */
    void (*close)(struct dt_backend *b, bool hurry, void (*on_closed)(void *arg), void *arg);
};

/* All keep PLAN and EVENTS, and what a failed open leaves behind is closed when the loop runs. */

/* One node: the store is ours, on a free port or the given one, and each attempt finds it empty. */
struct dt_backend *dt_backend_local_open(uv_loop_t *loop, const struct dt_plan *plan,
                                         const struct dt_backend_events *events, void *arg,
                                         struct dt_err *err);

/* A fixed number of nodes, dtrun's or torchrun's, each with its rank. Node 0 serves the store. */
struct dt_backend *dt_backend_static_open(uv_loop_t *loop, const struct dt_plan *plan,
                                          const struct dt_backend_events *events, void *arg,
                                          struct dt_err *err);

/* Nodes that come and go, which meet at the endpoint: at a dtrun-rendezvous, at whichever agent of
 * the job is on that host and binds the port first, or (see foreign.h) at a torchrun's store. */
struct dt_backend *dt_backend_elastic_open(uv_loop_t *loop, const struct dt_plan *plan,
                                           const struct dt_backend_events *events, void *arg,
                                           struct dt_err *err);

#endif
