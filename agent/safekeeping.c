/* SPDX-License-Identifier: Apache-2.0 */
/* What of the workers outlives them: files that --upload follows, and steps in memory. Those are
 * saved when the workers are gone, or wait, and no round follows soon; or none follows at all. Then
 * uploads end behind that: what is saved is copied, too. */
#include "agent/inside.h"

#include <sys/wait.h>

#define PATIENCE (5 * DT_SECOND) /* a round that follows needs no checkpoint */

/* -- files ------------------------------------------------------------------------------------ */

static void on_uploads_closed(void *arg)
{
    ((struct agent *)arg)->uploads = NULL;
}

/* Whether a worker here did not end of itself and in order: what it was writing may be half. */
static bool was_cut_off(const struct agent *a)
{
    const struct dt_group *g = a->attempt ? dt_attempt_group(a->attempt) : NULL;
    for (int i = 0; g && i < a->plan->nproc; i++) {
        const struct dt_worker *w = dt_group_worker(g, i);
        if (w->end == DT_WORKER_FAILED ||
            (w->end == DT_WORKER_TERMINATED && WIFSIGNALED(w->status)))
            return true;
    }
    return false;
}

static bool is_told_to_end(const struct agent *a)
{
    return a->signum || dt_closing_is_wish(&a->closing);
}

/* A job that was told to end has less time. */
static void close_uploads(struct agent *a)
{
    const struct dt_plan *plan = a->plan;
    bool less = is_told_to_end(a) && plan->shutdown_timeout < plan->upload_timeout;
    if (a->uploads)
        dt_uploads_close(a->uploads, a->cut_off,
                         less ? plan->shutdown_timeout : plan->upload_timeout, on_uploads_closed,
                         a);
}

/* -- steps in memory -------------------------------------------------------------------------- */

static void on_rescue_over(void *arg)
{
    struct agent *a = arg;
    a->rescue = NULL;
    if (a->phase == AGENT_ENDING)
        close_uploads(a);
}

static void rescue(struct agent *a)
{
    if (!a->rescue && a->vaults)
        a->rescue =
            dt_rescue_start(&a->loop, a->plan, a->vaults, a->world.round, on_rescue_over, a);
}

void agent_keep_safe_in_wait(struct agent *a, dt_ms waited)
{
    if (a->rescued || waited < PATIENCE)
        return;
    a->rescued = true;
    rescue(a);
}

void agent_keep_safe(struct agent *a)
{
    a->cut_off = was_cut_off(a);
    if (a->status != 0)
        rescue(a);
    if (!a->rescue)
        close_uploads(a);
    else if (is_told_to_end(a))
        dt_rescue_limit(a->rescue, a->plan->shutdown_timeout);
}

void agent_leave_to_workers(struct agent *a)
{
    a->rescued = false;
    if (a->rescue)
        dt_rescue_limit(a->rescue, 0);
}
