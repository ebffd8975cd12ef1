/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent knows of its workers, and tells the other nodes. */
#include "agent/inside.h"

#include "base/clock.h"

const struct dt_attempt *agent_round(const struct agent *a)
{
    return a->waits ? NULL : a->attempt;
}

static const struct dt_pages *pages_of(const struct agent *a)
{
    return agent_round(a) ? dt_attempt_pages(agent_round(a)) : NULL;
}

int64_t agent_step(const struct agent *a)
{
    return a->progress ? dt_progress_step(a->progress) : dt_pages_step(pages_of(a));
}

void agent_tell(struct agent *a)
{
    struct dt_beat facts = {.step = agent_step(a)};
    dt_ms now = dt_clock_monotonic();
    dt_pace_note(&a->pace, facts.step, now);
    if (!a->backend->ops->tell)
        return;
    if (agent_round(a))
        dt_attempt_tell(agent_round(a), &facts);
    if (facts.step >= 0)
        facts.step_age_ms = dt_pace_age(&a->pace, now) + 1; /* never 0, which is unknown */
    if (dt_pace_is_overdue(&a->pace, now))
        facts.tokens_per_s = 0;
    if (a->phase == AGENT_FINISHED)
        facts.succeeded = a->plan->nproc;
    a->backend->ops->tell(a->backend, &facts);
}

struct dt_hang *agent_hang(const struct agent *a)
{
    return agent_round(a) ? dt_attempt_hang(agent_round(a)) : NULL;
}
