/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/wishes.h"

#include "rendezvous/runs/records.h"

#include <stdio.h>

/* Whether there is anybody to want something of; RUN may be NULL. */
static bool is_alive(const struct dt_rdzv_run *run, char *text, size_t size)
{
    bool alive = run && run->rdzv->members.count > 0 && run->rdzv->state != DT_RUN_CLOSED;
    if (!run)
        snprintf(text, size, "there is no such run");
    else if (run->rdzv->state == DT_RUN_CLOSED)
        snprintf(text, size, "it is over: %.300s", run->rdzv->closed.why);
    else if (!alive)
        snprintf(text, size, "none of its nodes is here");
    return alive;
}

/* Whether RUN can still do what M wishes. */
static bool may_wish(const struct dt_rdzv_run *run, const struct dt_message *m, char *text,
                     size_t size)
{
    if (m->type == DT_MSG_STOP_RUN || !dt_rdzv_is_stopping(run->rdzv))
        return true;
    snprintf(text, size, "%.300s, and ends when the workers of all nodes are gone",
             run->rdzv->gathering.stopped);
    return false;
}

/* -- each wish -------------------------------------------------------------------------------- */

/* Each: M is a wish of somebody who may want it, and RUN is alive, but perhaps not when it returns.
 * TEXT says what was done, or why not: false. */

static bool pause_run(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                      const struct dt_message *m, char *text, size_t size)
{
    char why[DT_WHY_MAX];
    bool was = dt_rdzv_is_paused(run->rdzv);
    enum dt_rdzv_event_type wish = m->wish.undo ? DT_EV_RESUME : DT_EV_PAUSE;
    dt_rdzv_runs_step(
        runs, run,
        &(struct dt_rdzv_event){.type = wish, .text = dt_authority_reason(m, why, sizeof why)});
    if (m->wish.undo)
        snprintf(text, size, was ? "run %s goes on" : "run %s was not paused", m->run);
    else
        snprintf(text, size, "run %s %s paused; it goes on with: dtrun-ctl run resume %s", m->run,
                 was ? "was already" : "is", m->run);
    return true;
}

static bool save_run(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run, const struct dt_message *m,
                     char *text, size_t size)
{
    size_t running;
    size_t savers = dt_rdzv_count_savers(run->rdzv, &running);
    (void)m;
    if (savers == 0) {
        snprintf(text, size,
                 running ? "its agents are older ones, which cannot ask their workers"
                         : "none of its workers runs now");
        return false;
    }
    dt_rdzv_runs_step(runs, run, &(struct dt_rdzv_event){.type = DT_EV_SAVE});
    snprintf(text, size,
             "%zu of %zu nodes ask their workers to save; those of dtrun-train do so after their "
             "step",
             savers, running);
    return true;
}

static bool stop_run(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run, const struct dt_message *m,
                     char *text, size_t size)
{
    char why[DT_WHY_MAX];
    bool was = dt_rdzv_is_stopping(run->rdzv);
    size_t nodes = run->rdzv->members.count;
    dt_rdzv_runs_step(runs, run,
                      &(struct dt_rdzv_event){.type = DT_EV_STOP,
                                              .text = dt_authority_signature(m, why, sizeof why)});
    snprintf(text, size,
             was ? "run %s is being stopped already, on %zu node%s"
                 : "run %s ends on %zu node%s, when its workers are gone",
             m->run, nodes, nodes == 1 ? "" : "s");
    return true;
}

/* Of a run that gathers, the next round begins anyway. */
static bool restart_run(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                        const struct dt_message *m, char *text, size_t size)
{
    char why[DT_WHY_MAX];
    size_t nodes = run->rdzv->seats_len;
    if (dt_rdzv_is_paused(run->rdzv))
        snprintf(text, size, "it is paused; it goes on with: dtrun-ctl run resume %s", m->run);
    else if (run->rdzv->state != DT_RUN_RUNNING)
        snprintf(text, size, "none of its workers runs now, and the next round begins anyway");
    if (run->rdzv->state != DT_RUN_RUNNING)
        return false;
    dt_rdzv_runs_step(runs, run,
                      &(struct dt_rdzv_event){.type = DT_EV_RESTART,
                                              .text = dt_authority_signature(m, why, sizeof why)});
    snprintf(text, size, "run %s begins another round, with new workers on %zu node%s", m->run,
             nodes, nodes == 1 ? "" : "s");
    return true;
}

/* -- all of them ------------------------------------------------------------------------------ */

static bool carry_out(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                      const struct dt_message *m, char *text, size_t size)
{
    return m->type == DT_MSG_PAUSE      ? pause_run(runs, run, m, text, size)
           : m->type == DT_MSG_SAVE     ? save_run(runs, run, m, text, size)
           : m->type == DT_MSG_STOP_RUN ? stop_run(runs, run, m, text, size)
                                        : restart_run(runs, run, m, text, size);
}

void dt_rdzv_wish(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c, const struct dt_message *m)
{
    char text[DT_WHY_MAX];
    struct dt_rdzv_run *run = dt_rdzv_runs_find(runs, m->run);
    struct dt_asker who = dt_rdzv_conn_asker(c, m);
    bool done = is_alive(run, text, sizeof text) &&
                dt_authority_over_run(runs->operator_key, &who, run->rdzv, text, sizeof text) &&
                may_wish(run, m, text, sizeof text) && carry_out(runs, run, m, text, sizeof text);
    struct dt_message answer = {.type = m->type, .run = m->run, .wish.done = done, .why = text};
    dt_rdzv_records_send(runs, c, &answer, runs->marked);
    dt_rdzv_records_sync(runs);
}
