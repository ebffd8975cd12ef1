/* SPDX-License-Identifier: Apache-2.0 */
/* Planted bugs: each breaks one rule on purpose, in the layers around the real machines, to show
 * that the judge would see it. */
#ifndef DT_TESTS_SIM_PLANT_H
#define DT_TESTS_SIM_PLANT_H

#include "tests/lib/sim/judge.h"

enum sim_plant {
    SIM_PLANT_NONE,
    SIM_PLANT_SEAT_TWICE,        /* two nodes are told the same seat */
    SIM_PLANT_RANK_GAP,          /* a node's ranks begin one too late */
    SIM_PLANT_ONE_TOO_FEW,       /* the run goes on below MIN */
    SIM_PLANT_JOIN_EARLY,        /* an agent says that its workers are gone while they are not */
    SIM_PLANT_LEASE_LASTS,       /* workers may save until they hear that the round is over */
    SIM_PLANT_SEATS_MOVE,        /* two survivors swap seats */
    SIM_PLANT_FREE_RESTARTS,     /* failures are not charged */
    SIM_PLANT_FREE_LOSSES,       /* lost nodes are not charged */
    SIM_PLANT_CHARGED_TWICE,     /* each failure costs two restarts */
    SIM_PLANT_RESTARTS_DIFFER,   /* one node is told another count */
    SIM_PLANT_STRICT_QUARANTINE, /* who is kept out may not even wait */
    SIM_PLANT_DEAF,              /* the server does not hear those who join anew */
    SIM_PLANT_OLD_IS_NEW,        /* nobody looks at the round of a frame */
    SIM_PLANT_SPARE_DISTURBS,    /* the loss of a spare ends the round */
    SIM_PLANT_IMPATIENT,         /* a node is given up though it is well */
    SIM_PLANT_CLOSE_UNTOLD,      /* one node is not told that the job is over */
    SIM_PLANT_SUCCESS_EARLY,     /* one node's success counts for two */
    SIM_PLANT_SENDS_EARLY,       /* sends do not wait for the journal */
    SIM_PLANT_LEAVES_AT_ONCE,    /* whoever leaves is not waited for */
    SIM_PLANT_SAVES_ON,          /* workers that are cut off while they end may save */
    SIM_PLANT_HEAD_VOTES,        /* who is on the server's host hides that its network is down */
    SIM_PLANT_DEAF_TO_MOVES,     /* the server does not hear that workers move again */
    SIM_PLANT_TELLS_AGAIN,       /* it forgets that it said why they stand still */
    SIM_PLANTS,
};

struct sim_plant_row {
    const char *name;
    enum sim_rule breaks;
};
extern const struct sim_plant_row sim_plants[SIM_PLANTS];

/* Where the server's shell lets it happen. False: the message, or frame, is dropped. */
bool sim_plant_in_message(struct sim *s, struct dt_message *m);
bool sim_plant_in_frame(struct sim *s, const struct dt_message *m);
/* Instead of EVENT; ROOM is for its frame. */
void sim_plant_in_event(struct sim *s, struct dt_rdzv_event *event, struct dt_message *room);
/* After a step. */
void sim_plant_in_run(struct sim *s, const struct dt_rdzv_event *event);
/* Where a story leaves it too little room. */
void sim_plant_in_story(struct sim *s);
/* What agents ask for. */
struct dt_run_spec sim_plant_in_spec(const struct sim *s);

#endif
