/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"

#include <stdio.h>

bool dt_rdzv_is_paused(const struct dt_rdzv *r)
{
    return r->state == DT_RUN_GATHERING && *r->gathering.paused;
}

/* All nodes are there, so they stop together: a checkpoint that they complete now counts, and the
 * job pays nothing. */
void rdzv_pause(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why)
{
    char text[DT_WHY_MAX];
    if (!r->begun || r->state == DT_RUN_CLOSED || dt_rdzv_is_paused(r))
        return;
    snprintf(text, sizeof text, "the run is paused (%.300s)", *why ? why : "by hand");
    if (r->state == DT_RUN_RUNNING)
        rdzv_fence(r, out, true, text);
    else
        rdzv_say(out, DT_SAY_WARN, "%s", text);
    snprintf(r->gathering.paused, sizeof r->gathering.paused, "%s", *why ? why : "by hand");
    rdzv_journal(out);
}

void rdzv_resume(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    if (!dt_rdzv_is_paused(r))
        return;
    *r->gathering.paused = '\0';
    r->gathering.resumed = r->now;
    rdzv_journal(out);
    rdzv_say(out, DT_SAY_INFO, "the run is no longer paused");
}
