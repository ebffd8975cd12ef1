/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/budget.h"

#define HASTY (10 * DT_SECOND) /* a round that fails sooner has hardly begun */
#define PAUSE_MOST (30 * DT_SECOND)

void dt_budget_init(struct dt_budget *b)
{
    *b = (struct dt_budget){.step = -1, .step_at_failure = -1, .healthy_since = DT_FOREVER};
}

static bool is_loss(enum dt_evidence evidence)
{
    switch (evidence) {
    case DT_EVIDENCE_OFFLINE:
    case DT_EVIDENCE_PREEMPTED:
    case DT_EVIDENCE_HARDWARE:
        return true;
    case DT_EVIDENCE_PROGRAM:
    case DT_EVIDENCE_CRASH:
    case DT_EVIDENCES:
        break;
    }
    return false;
}

static enum dt_budget_answer charge_loss(struct dt_budget *b, int most)
{
    if (most >= 0 && b->losses >= most)
        return DT_BUDGET_SPENT;
    b->losses++;
    return DT_BUDGET_GO_ON;
}

/* That a job has been stuck tells more than that it has no restart left, so it is said first. */
static enum dt_budget_answer charge_restart(struct dt_budget *b, const struct dt_run_spec *spec)
{
    if (b->step >= 0 && b->step <= b->step_at_failure)
        b->stuck++; /* of a program that tells no steps nobody can say so */
    b->step_at_failure = b->step;
    if (spec->no_progress > 0 && b->stuck >= spec->no_progress)
        return DT_BUDGET_NO_PROGRESS;
    if (b->spent >= spec->max_restarts)
        return DT_BUDGET_SPENT;
    b->spent++;
    b->restarts += b->restarts < DT_RESTARTS_MOST;
    return DT_BUDGET_GO_ON;
}

/* A lost node says nothing about the program: it neither adds to the rounds that were stuck nor
 * ends their row. Machines that are taken away three times in a minute must not end a job for good.
 */
enum dt_budget_answer dt_budget_charge(struct dt_budget *b, const struct dt_run_spec *spec,
                                       enum dt_evidence evidence, dt_ms now)
{
    dt_budget_tick(b, spec, now); /* it may have been time, and nobody asked */
    b->healthy_since = DT_FOREVER;
    return is_loss(evidence) ? charge_loss(b, spec->max_node_losses) : charge_restart(b, spec);
}

/* A disk or a service that is away for a moment must not use up all restarts in that moment. */
dt_ms dt_budget_pause(struct dt_budget *b, dt_ms lasted)
{
    dt_ms pause = DT_SECOND;
    b->hasty = lasted < HASTY ? b->hasty + 1 : 0;
    if (b->hasty < 2)
        return 0;
    for (int i = 2; i < b->hasty && pause < PAUSE_MOST; i++)
        pause *= 2;
    return pause < PAUSE_MOST ? pause : PAUSE_MOST;
}

void dt_budget_round_began(struct dt_budget *b, dt_ms now)
{
    b->healthy_since = now;
}

void dt_budget_heard_step(struct dt_budget *b, const struct dt_run_spec *spec, int64_t step)
{
    if (step <= b->step)
        return;
    b->step = step;
    b->stuck = 0;
    if (spec->restart_reset > 0)
        b->spent = 0;
}

bool dt_budget_tick(struct dt_budget *b, const struct dt_run_spec *spec, dt_ms now)
{
    if (spec->restart_reset <= 0 || b->spent == 0 || b->healthy_since == DT_FOREVER ||
        now - b->healthy_since < spec->restart_reset)
        return false;
    b->spent = 0;
    b->healthy_since = now;
    return true;
}
