/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/inside.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

void dt_presence_tell_refusal(struct dt_presence *p, const char *why)
{
    if (strcmp(p->refusal, why) == 0)
        return;
    snprintf(p->refusal, sizeof p->refusal, "%s", why);
    dt_warn("the rendezvous at %s: %s; trying again and again%s", p->config.endpoint, why,
            p->session.phase == DT_SESSION_RUNNING ? ", workers run on" : "");
    dt_presence_start_notes(p);
}

/* Under "none" would wait the nodes of all people's jobs. The first time alone: in a job that runs
 * nothing changes its name. */
static void choose_name(struct dt_presence *p)
{
    const struct dt_plan *plan = p->config.plan;
    if (p->was_up || !plan->scheduled_id || !dt_control_is_shared(p->control))
        return;
    dt_info("no --rdzv-id is given: at the rendezvous at %s the job is run %s, after %s",
            p->config.endpoint, plan->scheduled_id, plan->scheduled_by);
    dt_session_name(&p->session, plan->scheduled_id);
}

void dt_presence_tell_remarks(struct dt_presence *p)
{
    struct dt_message m = {.run = p->session.config.run,
                           .round = -1,
                           .incarnation = p->session.incarnation,
                           .remark.node = p->config.node.name};
    while (dt_control_takes_remarks(p->control) && dt_remarks_take(&p->remarks, &m))
        dt_control_say(p->control, &m);
}

static void on_up(void *arg, const char *host, const struct dt_addr *local)
{
    struct dt_presence *p = arg;
    struct dt_err err;
    p->hosted = strcmp(host, "agent") == 0;
    choose_name(p);
    if (p->parting.is)
        dt_presence_tell_remarks(p);
    if (dt_presence_part(p))
        return;
    if (p->was_up && !*p->refusal)
        dt_warn("the rendezvous at %s is there again", p->config.endpoint);
    p->was_up = true;
    uv_timer_stop(&p->notes);
    if (p->config.reached(p->config.owner, local, &err) < 0) {
        dt_presence_give_up(p, DT_CLOSE_REFUSED, &err);
        return;
    }
    dt_session_connected(&p->session, dt_control_looks(p->control), dt_presence_now(p));
    dt_presence_tell_remarks(p);
    dt_presence_settle(p);
}

static void on_down(void *arg, const struct dt_err *why)
{
    struct dt_presence *p = arg;
    if (dt_presence_part(p))
        return;
    dt_warn("the rendezvous at %s: %s; connecting again%s", p->config.endpoint, why->text,
            p->session.phase == DT_SESSION_RUNNING ? ", workers run on" : "");
    dt_presence_start_notes(p);
    dt_session_disconnected(&p->session, dt_presence_now(p));
    dt_presence_settle(p);
}

static void on_refused(void *arg, const struct dt_err *why)
{
    struct dt_presence *p = arg;
    if (dt_presence_part(p))
        return;
    dt_presence_tell_refusal(p, why->text);
    dt_session_disconnected(&p->session, dt_presence_now(p));
    dt_presence_settle(p);
}

static void on_frame(void *arg, const struct dt_message *m)
{
    struct dt_presence *p = arg;
    dt_session_frame(&p->session, m, dt_presence_now(p));
    if (*p->refusal && p->session.up) {
        *p->refusal = '\0';
        dt_warn("the rendezvous at %s takes this node again", p->config.endpoint);
    }
    dt_presence_settle(p);
}

static void on_foreign(void *arg)
{
    struct dt_presence *p = arg;
    struct dt_err err;
    if (dt_presence_part(p))
        return;
    if (p->config.foreign(p->config.owner, &err) < 0)
        dt_presence_give_up(p, DT_CLOSE_REFUSED, &err);
}

static void on_failed(void *arg, const struct dt_err *why)
{
    struct dt_presence *p = arg;
    const struct dt_err *no_host = p->config.no_host;
    struct dt_err err = *why, both;
    if (dt_presence_part(p))
        return;
    if (why->code != DT_E_PROTOCOL && p->config.ours)
        dt_err_set(&err, why->code,
                   "the rendezvous that this agent hosts was not reached at %s within %d s: %s; "
                   "does --rdzv-endpoint lead to this host, and to what --store-listen names?",
                   p->config.endpoint, dt_clock_seconds(dt_presence_now(p) - p->since), why->text);
    else if (why->code != DT_E_PROTOCOL)
        dt_err_set(&err, why->code,
                   "no rendezvous was found at %s within %d s: %s; is an agent of this job, or a "
                   "dtrun-rendezvous, running there?",
                   p->config.endpoint, dt_clock_seconds(dt_presence_now(p) - p->since), why->text);
    /* Who was answered knows who has the port: nobody is to be stopped for it. */
    if (no_host->code != DT_E_NONE && why->code != DT_E_PROTOCOL) {
        dt_err_set(&both, err.code, "%s; and %s", no_host->text, err.text);
        err = both;
    }
    dt_presence_give_up(p, DT_CLOSE_REFUSED, &err);
}

const struct dt_control_events dt_presence_control_events = {
    .up = on_up,
    .down = on_down,
    .refused = on_refused,
    .frame = on_frame,
    .foreign = on_foreign,
    .failed = on_failed,
};
