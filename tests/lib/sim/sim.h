/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster in one process: the real rendezvous machine and the real sessions of agents, with the
 * network, disks, clocks and workers between them made up. A seed is a story, and the same story
 * each time: there is no clock but the queue, no chance but the seed's, and no decision hangs on an
 * address. */
#ifndef DT_TESTS_SIM_SIM_H
#define DT_TESTS_SIM_SIM_H

#include "tests/lib/sim/amnesia.h"
#include "tests/lib/sim/journal.h"
#include "tests/lib/sim/judge.h"
#include "tests/lib/sim/letter.h"
#include "tests/lib/sim/net.h"
#include "tests/lib/sim/node.h"
#include "tests/lib/sim/plant.h"
#include "tests/lib/sim/queue.h"
#include "tests/lib/sim/random.h"
#include "tests/lib/sim/server.h"
#include "tests/lib/sim/story.h"
#include "tests/lib/sim/trace.h"

#define SIM_NODE_BITS 20 /* of an incarnation: whose it is */

struct sim {
    uint64_t seed;
    uint64_t random;
    dt_ms now;
    struct sim_queue queue;
    struct sim_net net;
    struct sim_node *nodes;
    uint32_t nodes_len;
    struct sim_server server;
    struct sim_story story;
    struct sim_judge judge;
    dt_ms calm_from; /* nothing is done to anybody since, or until */
    bool coded;      /* messages go as bytes */
    bool tracing;
    enum sim_plant plant;
    uint64_t events;
    bool ended;
};

struct sim_options {
    uint64_t seed;
    uint32_t nodes; /* 0: as the seed says */
    bool tracing;
    enum sim_plant plant;
    struct sim_amnesia amnesia;
};

/* Runs a story to its end, or until a rule is broken: what is in judge then says it. */
void sim_run(struct sim *s, const struct sim_options *options);
void sim_finish(struct sim *s);

/* Something is done to somebody, until then. */
void sim_disturb(struct sim *s, dt_ms until);
/* NULL: it cannot be read back, and the judge knows. */
struct sim_letter *sim_make_letter(struct sim *s, const struct dt_message *m);
/* How far training says it is. */
int64_t sim_step(const struct sim *s);
/* NULL: nobody's. */
struct sim_node *sim_node_by_incarnation(struct sim *s, uint64_t incarnation);

static inline bool sim_planted(const struct sim *s, enum sim_plant p)
{
    return s->plant == p;
}

#endif
