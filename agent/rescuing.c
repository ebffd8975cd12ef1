/* SPDX-License-Identifier: Apache-2.0 */
/* When an agent has saved what its workers kept in memory: they are gone, or wait, and no round
 * follows soon; or none follows at all. */
#include "agent/inside.h"

#define PATIENCE (5 * DT_SECOND) /* a round that follows needs no checkpoint */

static void on_rescue_over(void *arg)
{
    ((struct agent *)arg)->rescue = NULL;
}

static void rescue(struct agent *a)
{
    if (!a->rescue && a->vaults)
        a->rescue =
            dt_rescue_start(&a->loop, a->plan, a->vaults, a->world.round, on_rescue_over, a);
}

void agent_rescue_in_wait(struct agent *a, dt_ms waited)
{
    if (a->rescued || waited < PATIENCE)
        return;
    a->rescued = true;
    rescue(a);
}

void agent_rescue_at_end(struct agent *a)
{
    rescue(a);
    if (a->rescue && a->signum)
        dt_rescue_limit(a->rescue, a->plan->shutdown_timeout);
}

/* From here on the files are the workers' again. */
void agent_rescue_no_more(struct agent *a)
{
    a->rescued = false;
    if (a->rescue)
        dt_rescue_limit(a->rescue, 0);
}
