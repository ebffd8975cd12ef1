/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that outlive their round: which may, when they are ready for the next one, and their
 * place in it. Pure; rendezvous/protocol/page.h has what they and the agent tell each other. */
#ifndef DT_AGENT_STAY_H
#define DT_AGENT_STAY_H

#include "agent/plan.h"
#include "agent/world.h"
#include "base/clock.h"
#include "rendezvous/protocol/page.h"

#include <stdbool.h>

/* For so long workers may take to leave a round that is over; then they are ended. */
#define DT_STAY_LIMIT (5 * DT_SECOND)

/* What is known of one worker. */
struct dt_stay_fact {
    bool runs;
    bool can;   /* it says that it can stay */
    bool waits; /* it has left its round */
};

enum dt_stay {
    DT_STAY_NO,      /* none of them can, or not each that lives: they end together */
    DT_STAY_LEAVING, /* each can, and not each has left yet */
    DT_STAY_WAITING, /* all that live have left their round */
};

/* A group in which one worker cannot stay is ended as a whole: what it would start anew beside the
 * others is that one's program too. */
enum dt_stay dt_stay_judge(const struct dt_stay_fact *facts, int count);

/* "worker 2 has not left its round within 5 s" of one that is to blame for DT_STAY_NO or for a wait
 * that lasts too long; NULL: none runs. */
#define DT_STAY_WORDS 96
const char *dt_stay_blame(const struct dt_stay_fact *facts, int count, char out[DT_STAY_WORDS]);

/* The place of a worker in WORLD. */
struct dt_page_world dt_stay_place(const struct dt_plan *plan, const struct dt_world *world,
                                   int restarts, int local_rank);

#endif
