/* SPDX-License-Identifier: Apache-2.0 */
/* What the judge's files share among themselves. */
#ifndef DT_TESTS_SIM_JUDGE_PARTS_H
#define DT_TESTS_SIM_JUDGE_PARTS_H

#include "tests/lib/sim/sim.h"

/* Whether ROUND is the one that was sent last, by the server as it is now. */
bool sim_judge_knows_round(const struct sim *s, int round);

/* After an illness a node may be given up so much later. The whole of a cluster's silence is
 * forgiven once. */
dt_ms sim_judge_aftermath(const struct sim *s);

/* Looks for members that came with EVENT, and for those that are none any more. */
void sim_judge_follow_members(struct sim *s, const struct dt_rdzv_event *event);
/* Marks the seats of W whose holders are no members of R, which may be NULL. */
void sim_judge_note_holes(struct sim_world *w, const struct dt_rdzv *r);
/* A round begins: no member has workers of another, and who should be kept out is in only where
 * there are too few others. */
void sim_judge_check_overlap(struct sim *s);
void sim_judge_check_quarantine(struct sim *s);

/* Looks at what is told of a hang by the step that is over. */
void sim_judge_check_hang(struct sim *s);
/* The server is another one, which was told nothing yet. */
void sim_judge_forget_hang(struct sim *s);

#endif
