/* SPDX-License-Identifier: Apache-2.0 */
/* How often a job may fail, counted once for the whole job. Pure.
 *
 * Two purses: restarts, which failures of the program are charged to, and node losses. Many workers
 * failing in one round are one charge: the owner charges once a round. */
#ifndef DT_RENDEZVOUS_RDZV_BUDGET_H
#define DT_RENDEZVOUS_RDZV_BUDGET_H

#include "base/clock.h"
#include "rendezvous/protocol/messages.h"

struct dt_budget {
    int restarts;            /* charged ever: TORCHELASTIC_RESTART_COUNT */
    int spent;               /* of max_restarts, since it was last full */
    int losses;              /* nodes lost, ever */
    int stuck;               /* failed rounds in a row without a new step */
    int64_t step;            /* the highest heard of; -1: none */
    int64_t step_at_failure; /* what it was when a round last failed; -1 */
    int hasty;               /* rounds in a row that failed almost as soon as they began */
    dt_ms healthy_since;     /* the round began, or the purse was filled; DT_FOREVER: none runs */
};

void dt_budget_init(struct dt_budget *b);

enum dt_budget_answer {
    DT_BUDGET_GO_ON,
    DT_BUDGET_SPENT,       /* no restart, or loss, is left */
    DT_BUDGET_NO_PROGRESS, /* it would only fail again */
};

/* Charges one failure to the purse that EVIDENCE says, unless there is nothing in it. A hardware
 * failure, a silent node and a preempted one are losses, the rest restarts. */
enum dt_budget_answer dt_budget_charge(struct dt_budget *b, const struct dt_run_spec *spec,
                                       enum dt_evidence evidence, dt_ms now);

/* How long to wait before the next round, when one failed for which a restart was charged and that
 * had run for LASTED. The first restart is always at once. */
dt_ms dt_budget_pause(struct dt_budget *b, dt_ms lasted);

/* A round began to run. */
void dt_budget_round_began(struct dt_budget *b, dt_ms now);
/* Training is at STEP: progress fills the purse too, where --restart-reset is given. */
void dt_budget_heard_step(struct dt_budget *b, const struct dt_run_spec *spec, int64_t step);
/* Fills the purse when it is time; returns whether it did. */
bool dt_budget_tick(struct dt_budget *b, const struct dt_run_spec *spec, dt_ms now);

#endif
