/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"

#include <stdio.h>

bool dt_rdzv_is_paused(const struct dt_rdzv *r)
{
    return r->state == DT_RUN_GATHERING && *r->gathering.paused;
}

bool dt_rdzv_is_stopping(const struct dt_rdzv *r)
{
    return r->state == DT_RUN_GATHERING && *r->gathering.stopped;
}

/* All nodes are there, so they stop together: a checkpoint that they complete now counts, and the
 * job pays nothing. */
static void stop_together(struct dt_rdzv *r, struct dt_rdzv_actions *out, enum dt_event_kind kind,
                          const char *text)
{
    if (r->state == DT_RUN_RUNNING) {
        rdzv_tell_silently(r, out, kind, NULL, text);
        rdzv_fence(r, out, true, text);
    } else {
        rdzv_tell(r, out, kind, NULL, "%s", text);
    }
}

void rdzv_pause(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why)
{
    char text[DT_WHY_MAX];
    if (!r->begun || r->state == DT_RUN_CLOSED || dt_rdzv_is_paused(r))
        return;
    snprintf(text, sizeof text, "the run is paused (%.300s)", *why ? why : "by hand");
    stop_together(r, out, DT_EVENT_PAUSED, text);
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
    rdzv_tell(r, out, DT_EVENT_RESUMED, NULL, "the run is no longer paused");
}

/* Its nodes are told the end when all workers are gone: then somebody who waits for it may begin
 * the next job in their place. */
void rdzv_stop(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why)
{
    char text[DT_WHY_MAX];
    if (!r->begun || r->state == DT_RUN_CLOSED || dt_rdzv_is_stopping(r))
        return;
    snprintf(text, sizeof text, "the job is stopped (%.300s)", *why ? why : "by hand");
    stop_together(r, out, DT_EVENT_STOP_ASKED, text);
    snprintf(r->gathering.stopped, sizeof r->gathering.stopped, "%s", text);
    rdzv_journal(out);
}

void rdzv_restart(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why)
{
    char text[DT_WHY_MAX];
    if (r->state != DT_RUN_RUNNING)
        return;
    snprintf(text, sizeof text, "the run is restarted (%.300s)", *why ? why : "by hand");
    stop_together(r, out, DT_EVENT_RESTARTED, text);
    rdzv_decided(r, "no restart is charged: a person wanted another round");
}

static bool is_saver(const struct dt_member *m)
{
    return m->doing == DT_MEMBER_RUNNING && m->keeps && m->connected;
}

size_t dt_rdzv_count_savers(const struct dt_rdzv *r, size_t *running)
{
    size_t savers = 0;
    *running = 0;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        savers += is_saver(m);
        *running += m->doing == DT_MEMBER_RUNNING;
    }
    return savers;
}

/* All are asked, though workers agree on one wish: whose wish counts is theirs to decide. */
void rdzv_save_now(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    size_t running, savers = dt_rdzv_count_savers(r, &running);
    rdzv_tell(r, out, DT_EVENT_SAVE_ASKED, NULL,
              "a checkpoint is asked for: %zu of %zu nodes ask their workers to save", savers,
              running);
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (is_saver(m))
            rdzv_send(out, m->id, DT_MSG_KEEP, r->round, 0);
    }
}
