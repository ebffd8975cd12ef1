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

/* The same, and C may say what is to become of it. */
static bool may_wish(const struct dt_rdzv_runs *runs, const struct dt_rdzv_run *run,
                     struct dt_rdzv_conn *c, const struct dt_message *m, char *text, size_t size)
{
    if (!is_alive(run, text, size))
        return false;
    struct dt_asker who = dt_rdzv_conn_asker(c, m);
    return dt_authority_over_run(runs->operator_key, &who, run->rdzv, text, size);
}

/* What became of the wish M. */
static void pause_run(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run,
                      const struct dt_message *m, char *text, size_t size)
{
    char why[DT_WHY_MAX];
    bool was = dt_rdzv_is_paused(run->rdzv);
    enum dt_rdzv_event_type wish = m->pause.undo ? DT_EV_RESUME : DT_EV_PAUSE;
    dt_rdzv_runs_step(
        runs, run,
        &(struct dt_rdzv_event){.type = wish, .text = dt_authority_reason(m, why, sizeof why)});
    if (m->pause.undo)
        snprintf(text, size, was ? "run %s goes on" : "run %s was not paused", m->run);
    else
        snprintf(text, size, "run %s %s paused; it goes on with: dtrun-ctl run resume %s", m->run,
                 was ? "was already" : "is", m->run);
}

void dt_rdzv_wish_pause(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                        const struct dt_message *m)
{
    char text[DT_WHY_MAX];
    struct dt_rdzv_run *run = dt_rdzv_runs_find(runs, m->run);
    bool done = may_wish(runs, run, c, m, text, sizeof text);
    if (done)
        pause_run(runs, run, m, text, sizeof text);
    struct dt_message answer = {
        .type = DT_MSG_PAUSE, .run = m->run, .pause.done = done, .why = text};
    dt_rdzv_records_send(runs, c, &answer, runs->marked);
    dt_rdzv_records_sync(runs);
}

static bool save_run(struct dt_rdzv_runs *runs, struct dt_rdzv_run *run, char *text, size_t size)
{
    size_t running;
    size_t savers = dt_rdzv_count_savers(run->rdzv, &running);
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

void dt_rdzv_wish_save(struct dt_rdzv_runs *runs, struct dt_rdzv_conn *c,
                       const struct dt_message *m)
{
    char text[DT_WHY_MAX];
    struct dt_rdzv_run *run = dt_rdzv_runs_find(runs, m->run);
    bool done =
        may_wish(runs, run, c, m, text, sizeof text) && save_run(runs, run, text, sizeof text);
    dt_rdzv_conn_send(c, &(struct dt_message){
                             .type = DT_MSG_SAVE, .run = m->run, .save.done = done, .why = text});
}
