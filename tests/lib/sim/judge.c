/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/sim/judge.h"

#include "tests/lib/sim/judge_parts.h"
#include "tests/lib/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *sim_rule_name(enum sim_rule r)
{
    static const char *const names[SIM_RULES] = {
        [SIM_RULE_SEAT] = "seat",           [SIM_RULE_RANKS] = "ranks",
        [SIM_RULE_SIZE] = "size",           [SIM_RULE_OVERLAP] = "overlap",
        [SIM_RULE_COMMIT] = "commit",       [SIM_RULE_LEAVE] = "leave",
        [SIM_RULE_SURVIVORS] = "survivors", [SIM_RULE_BUDGET] = "budget",
        [SIM_RULE_RESTARTS] = "restarts",   [SIM_RULE_QUARANTINE] = "quarantine",
        [SIM_RULE_LIVE] = "live",           [SIM_RULE_STALE] = "stale",
        [SIM_RULE_CALM] = "calm",           [SIM_RULE_HEALTHY] = "healthy",
        [SIM_RULE_CLOSED] = "closed",       [SIM_RULE_SUCCESS] = "success",
        [SIM_RULE_HANG] = "hang",           [SIM_RULE_RECORD] = "record",
    };
    return names[r];
}

void sim_judge_fail(struct sim *s, enum sim_rule rule, const char *fmt, ...)
{
    struct sim_judge *j = &s->judge;
    va_list args;
    if (j->failed)
        return;
    j->failed = true;
    j->rule = rule;
    va_start(args, fmt);
    vsnprintf(j->text, sizeof j->text, fmt, args);
    va_end(args);
    sim_say(s, "JUDGE", "%s: %s", sim_rule_name(rule), j->text);
}

void sim_judge_finish(struct sim_judge *j)
{
    free(j->now.seats);
    free(j->last.seats);
    *j = (struct sim_judge){0};
}

/* -- bounds ----------------------------------------------------------------------------------- */

static dt_ms silence(const struct sim *s)
{
    return s->story.spec.beat * s->story.spec.beats;
}

/* What the network, the disk and a dialling agent add to anything. */
static dt_ms overhead(const struct sim *s)
{
    return 4 * s->net.delay_max + 4 * s->server.disk_worst + 12 * DT_SECOND;
}

/* After an illness a node may be given up so much later. The whole of a cluster's silence is
 * forgiven once. */
dt_ms sim_judge_aftermath(const struct sim *s)
{
    return 2 * silence(s) + s->story.spec.beat + s->story.spec.reconnect_grace + overhead(s);
}

/* The longest pause between rounds that fail at once. */
#define PAUSE_MOST (30 * DT_SECOND)

/* From the end of all faults to a world: the dead are noticed, by agents and server, the last
 * round's workers are stopped, those who are called stale have come again, the last call and a
 * pause after failures are over. */
dt_ms sim_judge_live_bound(const struct sim *s)
{
    const struct dt_run_spec *spec = &s->story.spec;
    return 2 * sim_judge_aftermath(s) + 2 * spec->stop_bound + spec->last_call + PAUSE_MOST +
           s->story.start_time;
}

/* -- why rounds end --------------------------------------------------------------------------- */

static bool pays_node(enum dt_evidence e)
{
    return e == DT_EVIDENCE_HARDWARE || e == DT_EVIDENCE_OFFLINE || e == DT_EVIDENCE_PREEMPTED;
}

static void look_for_failure(struct sim_judge *j, const struct dt_rdzv *r,
                             const struct dt_message *f)
{
    const struct dt_member *m = dt_members_find(&r->members, f->incarnation);
    if (!m || m->doing != DT_MEMBER_RUNNING || f->round != r->round || r->state != DT_RUN_RUNNING)
        return;
    if (f->type == DT_MSG_RESULT && !f->result.succeeded) {
        j->before.worker_failed = true;
        j->before.failed = m->id;
        j->before.node_failed = pays_node(f->result.evidence);
    }
    if (f->type == DT_MSG_JOIN && !f->join.claim.running && !f->join.claim.done)
        j->before.worker_failed = true; /* they are gone, and it does not say why */
}

void sim_judge_before(struct sim *s, const struct dt_rdzv_event *event)
{
    struct sim_judge *j = &s->judge;
    const struct dt_rdzv *r = s->server.run;
    j->before.state = r->state;
    j->before.round = r->round;
    j->before.had_world = r->had_world;
    j->before.recovering = dt_rdzv_recovery(r)->until != 0;
    j->before.members = r->members.count;
    j->before.comings = r->members.comings;
    j->before.worker_failed = j->before.node_failed = false;
    j->before.failed = 0;
    if (event->type == DT_EV_FRAME)
        look_for_failure(j, r, event->frame);
}

static bool can_grow(const struct sim *s, const struct dt_rdzv *r)
{
    const struct dt_run_spec *spec = &s->story.spec;
    int most = spec->fixed_world ? spec->min_nodes : spec->max_nodes;
    if (s->judge.now.seats_len >= most)
        return false;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing == DT_MEMBER_WAITING &&
            !dt_exclude_is_out(&s->server.exclude, m->said_name, r->now, NULL))
            return true;
    }
    return false;
}

/* Who is called a newcomer was not in the round before. */
static void check_newcomer(struct sim *s)
{
    const struct sim_judge *j = &s->judge;
    const struct sim_world *was = &j->last;
    if (!j->before.failed)
        sim_judge_fail(s, SIM_RULE_BUDGET, "a newcomer failed, but nobody did");
    if (!was->there || was->memory != s->server.memory || j->made_before != was->round)
        return;
    for (int i = 0; i < was->seats_len; i++)
        if (was->seats[i].holder == j->before.failed && !was->seats[i].gone)
            sim_judge_fail(s, SIM_RULE_BUDGET,
                           "round %d was not charged to a newcomer, who was in round %d as well",
                           j->before.round, was->round);
}

/* The job is not stopped for one node while others come one after the other that there is room for.
 */
static void check_growth(struct sim *s)
{
    const struct dt_run_spec *spec = &s->story.spec;
    const struct dt_rdzv *r = s->server.run;
    dt_ms quiet = spec->grow_interval < 5 * DT_SECOND ? spec->grow_interval : 5 * DT_SECOND;
    dt_ms first = DT_FOREVER, last = 0;
    int seats = s->judge.now.seats_len,
        most = spec->fixed_world ? spec->min_nodes : spec->max_nodes;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing != DT_MEMBER_WAITING || m->link != DT_LINK_ONLINE ||
            dt_exclude_is_out(&s->server.exclude, m->said_name, r->now, NULL))
            continue;
        seats++;
        first = m->joined_at < first ? m->joined_at : first;
        last = m->joined_at > last ? m->joined_at : last;
    }
    if (seats < most && r->now < last + quiet && r->now < first + spec->last_call)
        sim_judge_fail(s, SIM_RULE_CALM, "round %d ends for a node that came %.1f s ago, with room",
                       s->judge.before.round, (double)(r->now - last) / DT_SECOND);
}

static enum sim_cause find_cause(struct sim *s, const struct dt_rdzv_event *event)
{
    const struct sim_judge *j = &s->judge;
    if (s->server.run->gathering.fault.newcomer) {
        check_newcomer(s);
        return SIM_CAUSE_NEWCOMER;
    }
    if (j->before.worker_failed)
        return j->before.node_failed ? SIM_CAUSE_BROKEN : SIM_CAUSE_FAILED;
    if (event->type == DT_EV_FRAME && event->frame->type == DT_MSG_LEAVE)
        return SIM_CAUSE_GONE;
    if (event->type == DT_EV_DRAIN && dt_exclude_is_drained(&s->server.exclude, event->text))
        return SIM_CAUSE_DRAINED;
    if (event->type == DT_EV_END)
        return SIM_CAUSE_NONE;
    if ((event->type == DT_EV_RESTART || event->type == DT_EV_STOP) && !j->now.lost)
        return SIM_CAUSE_WISHED;
    if (j->before.recovering || !sim_judge_knows_round(s, j->before.round))
        return SIM_CAUSE_RECOVERY;
    if (j->now.lost)
        return SIM_CAUSE_GONE;
    if (can_grow(s, s->server.run)) {
        check_growth(s);
        return SIM_CAUSE_GROWTH;
    }
    sim_judge_fail(s, SIM_RULE_CALM, "round %d ends, and nothing was the matter with it",
                   j->before.round);
    return SIM_CAUSE_NONE;
}

/* Success is that of all workers. */
static void check_success(struct sim *s)
{
    const struct dt_rdzv *r = s->server.run;
    for (size_t i = 0; i < r->seats_len; i++) {
        struct sim_node *n = sim_node_by_incarnation(s, r->seats[i].holder);
        if (n && n->succeeded_round != r->round)
            sim_judge_fail(s, SIM_RULE_SUCCESS, "workers of %s (seat %zu of round %d) are %s",
                           n->name, i, r->round, sim_workers_name(n->state));
    }
}

/* Whoever waits for the end of a run that a person stops may count on it that no worker is left,
 * but for those of nodes that were given up. */
static void check_stopped(struct sim *s)
{
    dt_list_each(&s->server.run->members.all, i)
    {
        const struct dt_member *m = dt_container_of(i, struct dt_member, in_all);
        const struct sim_node *n = sim_node_by_incarnation(s, m->id);
        if (n && n->state != SIM_NO_WORKERS && n->state != SIM_SUCCEEDED)
            sim_judge_fail(s, SIM_RULE_CLOSED, "the job is stopped, and workers of %s are %s",
                           n->name, sim_workers_name(n->state));
    }
}

/* A run that fails has spent what it had; one that gives up waiting had nobody to wait for. */
static void check_close(struct sim *s)
{
    const struct sim_judge *j = &s->judge;
    const struct dt_run_spec *spec = &s->story.spec;
    const struct dt_rdzv *r = s->server.run;
    bool spent = j->failures > spec->max_restarts ||
                 (spec->max_node_losses >= 0 && j->losses > spec->max_node_losses);
    dt_ms since = j->too_few > s->calm_from ? j->too_few : s->calm_from;
    bool may_fail = spec->max_node_losses >= 0 || j->worker_failures > spec->max_restarts;
    if (r->closed.kind == DT_CLOSE_FAILED && ((!spent && !j->unsure) || !may_fail))
        sim_judge_fail(s, SIM_RULE_BUDGET, "closed after %d failures of %d and %d losses of %d",
                       j->failures, spec->max_restarts, j->losses, spec->max_node_losses);
    if (r->closed.kind == DT_CLOSE_TIMEOUT && s->now > since + sim_judge_live_bound(s))
        sim_judge_fail(s, SIM_RULE_LIVE, "gave up waiting, with enough nodes for %.1f s",
                       (double)(s->now - since) / DT_SECOND);
    if (r->closed.kind == DT_CLOSE_SUCCEEDED)
        check_success(s);
    if (r->closed.kind == DT_CLOSE_STOPPED)
        check_stopped(s);
}

/* A failure may be put down to a loss, and what a restart of the server left unclear to either. */
static void count_end(struct sim_judge *j, enum sim_cause cause)
{
    j->failures += cause == SIM_CAUSE_FAILED || cause == SIM_CAUSE_RECOVERY;
    j->losses += cause != SIM_CAUSE_NONE && cause != SIM_CAUSE_GROWTH && cause != SIM_CAUSE_WISHED;
}

/* Which host failed last, and how often in a row, as far as that is beyond doubt. */
static void note_failing(struct sim *s, enum sim_cause cause)
{
    struct sim_judge *j = &s->judge;
    const struct sim_node *n = sim_node_by_incarnation(s, j->before.failed);
    if (cause != SIM_CAUSE_FAILED || !n || j->failing != n->host)
        j->failed_in_a_row = 0;
    j->failing = n ? n->host : NULL;
    j->failed_in_a_row += cause == SIM_CAUSE_FAILED;
}

/* Who was first to fail twice in a row has no seat that a spare could have. */
static void check_second_strike(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    const struct dt_rdzv *r = s->server.run;
    size_t seats = 0, spares = 0;
    if (j->now.lost)
        j->failed_in_a_row = 0; /* the failure is put down to that */
    if (j->failed_in_a_row < 2)
        return;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        bool is_it = strcmp(m->said_name, j->failing) == 0;
        seats += is_it && m->doing == DT_MEMBER_RUNNING && !m->newcomer;
        spares += !is_it && m->doing == DT_MEMBER_WAITING && m->link == DT_LINK_ONLINE &&
                  !dt_exclude_is_out(&s->server.exclude, m->said_name, r->now, NULL);
    }
    if (seats > 0 && spares > 0)
        sim_judge_fail(s, SIM_RULE_QUARANTINE, "%s failed %d times in a row, and has a seat still",
                       j->failing, j->failed_in_a_row);
}

static void note_begin(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    const struct dt_rdzv *r = s->server.run;
    check_second_strike(s);
    j->made_before = j->made_round;
    j->made_round = r->round;
    j->made_life = s->server.life;
    j->made_at = s->now;
    sim_judge_check_overlap(s);
    if (!r->running.recovery.until)
        sim_judge_check_quarantine(s);
}

static void note_end(struct sim *s, const struct dt_rdzv_event *event)
{
    struct sim_judge *j = &s->judge;
    enum sim_cause cause = find_cause(s, event);
    j->causes[j->before.round % SIM_CAUSES_KEPT] = cause;
    count_end(j, cause);
    note_failing(s, cause);
}

/* Whether the server has forgotten what was, to begin the next job of that name, or as it learnt of
 * a round that it knew nothing of. */
static bool has_begun_anew(const struct sim_judge *j, const struct dt_rdzv *r)
{
    bool emptied = j->before.members == 0 && r->members.count > 0;
    bool reopened = j->before.state == DT_RUN_CLOSED && r->state != DT_RUN_CLOSED;
    bool learnt =
        !j->before.recovering && dt_rdzv_recovery(r)->until && r->round != j->before.round;
    return reopened || learnt || (j->before.had_world && (emptied || !r->had_world));
}

void sim_judge_after(struct sim *s, const struct dt_rdzv_event *event)
{
    const struct sim_judge *j = &s->judge;
    const struct dt_rdzv *r = s->server.run;
    bool ran = j->before.state == DT_RUN_RUNNING, runs = r->state == DT_RUN_RUNNING;
    bool closed = j->before.state != DT_RUN_CLOSED && r->state == DT_RUN_CLOSED;
    bool other = r->round != j->before.round;
    sim_judge_follow_members(s, event);
    sim_judge_check_hang(s);
    if (runs && (!ran || other))
        note_begin(s);
    if (ran && (!runs || other) && !(closed && r->closed.kind == DT_CLOSE_SUCCEEDED))
        note_end(s, event);
    if (closed)
        check_close(s);
    if (has_begun_anew(j, r))
        sim_judge_forgot(s);
}

void sim_judge_crash(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    sim_judge_forget_hang(s);
    memset(j->causes, 0, sizeof j->causes); /* unless somebody was told, it did not happen */
    j->failed_in_a_row = 0;
}

/* Its record holds those who have seats. A loss that is not in it did not happen, unless it is why
 * the record has another round, of which nobody has heard yet. It may be of the job before, where
 * power went before the next one of that name was on the disk: what that was charged counts. */
void sim_judge_restarted(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    struct sim_world *w = &j->now;
    const struct dt_rdzv *r = s->server.run;
    for (uint32_t i = 0; i < s->nodes_len; i++)
        if (!r || !dt_members_find(&r->members, s->nodes[i].member))
            s->nodes[i].member = 0;
    w->lost = w->lost && r && r->round > w->round;
    if (r && j->losses < r->budget.losses)
        j->losses = r->budget.losses;
    if (r && j->failures < r->budget.spent)
        j->failures = r->budget.spent;
    sim_judge_note_holes(w, r);
}

void sim_judge_forgot(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    s->server.memory++;
    for (uint32_t i = 0; i < s->nodes_len; i++)
        s->nodes[i].member = 0;
    j->charged = j->lost = j->failures = j->losses = 0;
    j->failed_in_a_row = 0;
    j->unsure = j->before.state != DT_RUN_CLOSED;
    memset(j->causes, 0, sizeof j->causes);
}

/* -- agents ----------------------------------------------------------------------------------- */

void sim_judge_told(struct sim *s, struct sim_node *n, int round, const struct dt_world_message *w)
{
    if (n->state != SIM_NO_WORKERS)
        sim_judge_fail(s, SIM_RULE_OVERLAP, "%s is to start workers of round %d, and has some (%s)",
                       n->name, round, sim_workers_name(n->state));
    if (n->world_as == n->session.incarnation && n->world_round == round &&
        n->world_memory == s->server.memory && n->world_seat != w->seat)
        sim_judge_fail(s, SIM_RULE_SEAT, "%s hears of seat %d of round %d, and was sent %d",
                       n->name, w->seat, round, n->world_seat);
}

void sim_judge_closed(struct sim *s, struct sim_node *n)
{
    if (n->closed_as == DT_CLOSE_REFUSED)
        sim_judge_fail(s, SIM_RULE_HEALTHY, "%s is refused, and fits", n->name);
}
