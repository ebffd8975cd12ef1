/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define REMEMBERED (600 * DT_SECOND) /* a run that nobody is in any more */

struct dt_rdzv *dt_rdzv_create(const char *id, struct dt_exclude *exclude, uint64_t seed)
{
    struct dt_rdzv *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    snprintf(r->id, sizeof r->id, "%s", id);
    r->exclude = exclude;
    dt_members_init(&r->members, seed);
    dt_budget_init(&r->budget);
    return r;
}

void dt_rdzv_destroy(struct dt_rdzv *r)
{
    if (!r)
        return;
    rdzv_look_forget(r);
    rdzv_standstill_forget(r);
    dt_members_finish(&r->members);
    dt_history_finish(&r->history);
    free(r->seats);
    free(r);
}

void dt_rdzv_set_shared(struct dt_rdzv *r, bool shared)
{
    r->shared = shared;
}

/* -- what members say ------------------------------------------------------------------------- */

/* To one that was given up, or that somebody else has the seat of. */
static void disown(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *f)
{
    rdzv_send(out, f->incarnation, DT_MSG_STALE, r->round,
              rdzv_text(out,
                        "this node was not heard of for too long and was given up; it may join "
                        "again as a new one"));
}

static void note_step(struct dt_rdzv *r, struct dt_member *m, int64_t step)
{
    m->step = step;
    if (r->running.first_step < 0)
        r->running.first_step = step;
    r->running.moves = r->running.moves || step > r->running.first_step;
    dt_budget_heard_step(&r->budget, &r->spec, step);
}

static void take_beat(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                      const struct dt_message *f)
{
    bool runs = f->round == r->round && m->doing == DT_MEMBER_RUNNING;
    m->beat = f->beat;
    m->beat.own.reason = m->beat.straggler = NULL; /* the frame's */
    m->beat.telemetry = (struct dt_telemetry){0};
    if (f->beat.telemetry.number > 0)
        dt_telemetry_keep(&m->telemetry, &f->beat.telemetry);
    if (f->beat.step >= 0 && runs)
        note_step(r, m, f->beat.step);
    struct dt_rdzv_action *a = rdzv_send(out, m->id, DT_MSG_BEAT, r->round, 0);
    if (a) {
        a->beat.seq = f->beat.seq;
        a->beat.straggler = r->running.lag.sentence;
        a->beat.holds_up = r->running.lag.state == DT_LAG_THERE;
    }
    if (runs && r->state == DT_RUN_RUNNING)
        rdzv_straggler_take(r, out, m, &f->beat.own);
    rdzv_watch_take(r, out, m, &f->beat, runs && r->state == DT_RUN_RUNNING);
}

/* Whether M's failure may be what ended a round that was over when we learnt of it: the server that
 * was told of it first is to charge it, and has forgotten it. */
static bool is_forgotten(const struct dt_rdzv *r, const struct dt_member *m)
{
    return r->state == DT_RUN_GATHERING && r->gathering.recovery.until &&
           !r->gathering.fault.pending && m->round == r->gathering.recovery.round;
}

/* Whether M says why its workers failed in the round that has just ended, of which nobody knows yet
 * who has to pay for it. */
static bool is_evidence(const struct dt_rdzv *r, const struct dt_member *m,
                        const struct dt_message *f)
{
    return r->state == DT_RUN_GATHERING && r->gathering.fault.pending &&
           m->doing == DT_MEMBER_STOPPING && f->round == m->round;
}

/* Of a round that is over, or from one that has no part in it, it has no effect but as evidence. */
static void take_result(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                        const struct dt_message *f)
{
    bool ended = !f->result.succeeded && !f->result.late; /* its round, for all it knows */
    if (ended && is_forgotten(r, m) && f->round == m->round) {
        rdzv_journal(out);
        rdzv_note_fault(r, m, &f->result);
        return;
    }
    if (!f->result.succeeded && is_evidence(r, m, f)) {
        rdzv_join_evidence(r, m, &f->result);
        return;
    }
    if (r->state != DT_RUN_RUNNING || f->round != r->round || m->doing != DT_MEMBER_RUNNING)
        return;
    if (ended) {
        rdzv_failed(r, out, m, &f->result);
        if (f->result.ends_job)
            rdzv_close(r, out, DT_CLOSE_FAILED, "%s; this is to end the job",
                       r->gathering.fault.text);
        return;
    }
    if (!f->result.succeeded)
        return;
    dt_members_set_doing(&r->members, m, DT_MEMBER_DONE);
    r->seats[m->seat].done = true; /* not journalled: it says so again when it comes back */
}

static void take_leave(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                       const struct dt_message *f)
{
    char how[DT_WHY_MAX];
    snprintf(how, sizeof how, "leaves%s%s%s", *f->why ? " (" : "", f->why, *f->why ? ")" : "");
    if (f->leave.stopping && r->state != DT_RUN_CLOSED &&
        (m->doing == DT_MEMBER_RUNNING || m->doing == DT_MEMBER_STOPPING))
        rdzv_leaves(r, out, m, how);
    else
        rdzv_gone(r, out, m, DT_EVIDENCE_PREEMPTED, how);
}

static void take_join(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                      const struct dt_rdzv_event *event)
{
    uint64_t from = event->frame->incarnation;
    struct dt_member *m = dt_members_find(&r->members, from);
    if (m && event->anew)
        m->may_lack_world = true;
    rdzv_join(r, out, event->frame);
    m = dt_members_find(&r->members, from);
    if (m)
        dt_members_set_local(&r->members, m, event->local);
}

static void take_frame(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                       const struct dt_rdzv_event *event)
{
    const struct dt_message *f = event->frame;
    struct dt_member *m = dt_members_find(&r->members, f->incarnation);
    if (f->type == DT_MSG_JOIN)
        take_join(r, out, event);
    else if (!m && f->type != DT_MSG_LEAVE && r->state != DT_RUN_CLOSED)
        disown(r, out, f);
    else if (m && f->type == DT_MSG_BEAT)
        take_beat(r, out, m, f);
    else if (m && f->type == DT_MSG_RESULT)
        take_result(r, out, m, f);
    else if (m && f->type == DT_MSG_LEAVE)
        take_leave(r, out, m, f);
    else if (m && f->type == DT_MSG_STILL)
        rdzv_standstill_take(r, out, m, f);
    else if (m && f->type == DT_MSG_LOOKED)
        rdzv_look_take(r, m, f);
}

/* Who speaks is there, whatever it says; before anybody is found to be gone. */
static void hear(struct dt_rdzv *r, uint64_t from)
{
    struct dt_member *m = dt_members_find(&r->members, from);
    if (!m)
        return;
    if (m->doing == DT_MEMBER_WAITING && m->link == DT_LINK_SUSPECT)
        r->running.grow_at = 0; /* it was passed over */
    dt_members_heard(&r->members, m, r->now);
}

static void take_lost(struct dt_rdzv *r, uint64_t from)
{
    struct dt_member *m = dt_members_find(&r->members, from);
    if (m)
        dt_members_lost(&r->members, m, r->now);
}

void rdzv_drain_member(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m)
{
    const char *why = "";
    char text[DT_WHY_MAX];
    rdzv_is_out(r, m, &why);
    m->parked = false;
    snprintf(text, sizeof text, "%s is drained (%.*s)", m->name.text, DT_WHY_MAX / 2, why);
    if (r->state == DT_RUN_RUNNING && m->doing == DT_MEMBER_RUNNING) {
        rdzv_tell_silently(r, out, DT_EVENT_NODE_DRAINED, m->name.text, text);
        rdzv_lose_node(r, out, DT_EVIDENCE_PREEMPTED, true, text);
    } else { /* it has no workers, or they are done: the round can do without it */
        rdzv_tell(r, out, DT_EVENT_NODE_DRAINED, m->name.text, "%s", text);
    }
}

static bool goes_by(const struct dt_member *m, const char *name)
{
    return strcmp(m->said_name, name) == 0 || strcmp(m->name.text, name) == 0;
}

static void take_drain(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *name)
{
    r->running.grow_at = 0; /* it may be back */
    if (!dt_exclude_is_drained(r->exclude, name))
        return;
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (r->state != DT_RUN_CLOSED && goes_by(m, name))
            rdzv_drain_member(r, out, m);
    }
}

/* -- what time brings ------------------------------------------------------------------------- */

static void say_held(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    const struct dt_members *ms = &r->members;
    size_t voters = dt_members_voters(ms);
    char who[DT_WHY_MAX];
    if (voters > 1)
        snprintf(who, sizeof who, "most of the %zu nodes%s are silent at once", voters,
                 voters < ms->connected ? " on other hosts" : "");
    else
        snprintf(who, sizeof who, "the only node%s is silent",
                 voters < ms->connected ? " on another host, without which the job cannot go on,"
                                        : "");
    rdzv_tell(r, out, DT_EVENT_NODES_SILENT, NULL,
              "%s: that may be our own network, so no node counts as lost for %d s", who,
              dt_clock_seconds(ms->hold - r->now));
}

static void expire(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    struct dt_member *m;
    bool silent, held = r->members.hold > r->now;
    char how[DT_WHY_MAX];
    while ((m = dt_members_expired(&r->members, &r->spec, r->now, &silent))) {
        if (m->restored)
            snprintf(how, sizeof how, "did not come back after the rendezvous was restarted");
        else if (silent)
            snprintf(how, sizeof how, "went offline (not heard of for %d s)",
                     (int)((r->now - m->heard) / DT_SECOND));
        else
            snprintf(how, sizeof how,
                     "went offline (its connection closed, and it was not back within %g s)",
                     (double)r->spec.reconnect_grace / (double)DT_SECOND);
        rdzv_gone(r, out, m, DT_EVIDENCE_OFFLINE, how);
    }
    dt_members_suspect(&r->members, &r->spec, r->now);
    if (!held && r->members.hold > r->now)
        say_held(r, out);
}

/* Seats of a round that we learnt of late, or found in the journal, and nobody came for. */
static void end_recovery(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    char why[DT_WHY_MAX];
    dt_ms until = dt_rdzv_recovery(r)->until;
    if (until == 0 || r->now < until)
        return;
    size_t missing = rdzv_count_awaited(r);
    r->running.recovery = r->gathering.recovery = (struct dt_recovery){0};
    if (missing == 0)
        return;
    snprintf(why, sizeof why,
             "%zu of %zu nodes did not come back after the rendezvous was restarted", missing,
             r->seats_len);
    r->strays = true;
    if (r->state == DT_RUN_RUNNING)
        rdzv_lose_node(r, out, DT_EVIDENCE_OFFLINE, false, why);
    else
        rdzv_news(r, "%s", why);
}

static void check_done(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    const size_t *done = r->members.counts[DT_MEMBER_DONE];
    if (r->state == DT_RUN_RUNNING &&
        done[DT_LINK_ONLINE] + done[DT_LINK_SUSPECT] + r->running.done_gone == r->seats_len)
        rdzv_close(r, out, DT_CLOSE_SUCCEEDED, "all nodes (%zu) have succeeded", r->seats_len);
}

/* Nobody is left. The first to be back with workers goes on with them, as if a server had lost its
 * journal; but once others have begun the job anew, what is left of it is known by its round. */
static void fall_asleep(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    int next = r->round + (r->state == DT_RUN_RUNNING);
    if (!r->begun || r->state == DT_RUN_CLOSED || !dt_rdzv_is_empty(r))
        return;
    if (dt_rdzv_is_stopping(r)) { /* nodes that are back later hear that, and end */
        rdzv_close(r, out, DT_CLOSE_STOPPED, "%s%s", r->gathering.stopped,
                   r->strays ? "; no node is left, and one that went silent may run workers yet"
                             : "");
        return;
    }
    if (!r->strays)
        return;
    rdzv_tell(r, out, DT_EVENT_RUN_DESERTED, NULL, "nobody is left");
    rdzv_forgive_lost(r, out);
    rdzv_wipe(r);
    r->round = 0;
    if (r->floor < next)
        r->floor = next;
    rdzv_journal(out);
}

/* Looks at all that an event may have made due. */
static void settle(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    end_recovery(r, out);
    check_done(r, out);
    rdzv_grow(r, out);
    rdzv_gather(r, out);
    if (r->state == DT_RUN_RUNNING && dt_budget_tick(&r->budget, &r->spec, r->now)) {
        rdzv_journal(out);
        rdzv_tell(r, out, DT_EVENT_RESTARTS_RENEWED, NULL,
                  "ran well for %d s: all %d restarts may be used again",
                  (int)(r->spec.restart_reset / DT_SECOND), r->spec.max_restarts);
    }
    fall_asleep(r, out);
    rdzv_look_settle(r);
    rdzv_standstill_settle(r, out);
}

/* While we did nothing nobody could tell us that it came, or that its workers are gone; what was
 * said may yet be unread. */
static void excuse(struct dt_rdzv *r, struct dt_rdzv_actions *out, dt_ms away)
{
    dt_ms *const waits[] = {&r->gathering.stop_deadline, &r->gathering.last_call,
                            &r->gathering.recovery.until, &r->running.recovery.until,
                            &r->running.look.asked};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (*waits[i])
            *waits[i] = dt_clock_after(*waits[i], away);
    if (r->state == DT_RUN_GATHERING)
        r->since = dt_clock_after(r->since, away);
    rdzv_tell(r, out, DT_EVENT_SERVER_STALLED, NULL,
              "nothing was done here for %.1f s: no node's silence counts",
              (double)away / (double)DT_SECOND);
}

void dt_rdzv_step(struct dt_rdzv *r, const struct dt_rdzv_event *event, dt_ms now,
                  struct dt_rdzv_actions *out)
{
    rdzv_actions_clear(out);
    r->now = now;
    r->wall_us = event->wall_us;
    r->twin = event->twin;
    if (r->state == DT_RUN_RUNNING)
        r->news[0] = '\0'; /* went out with the world; its frames were made of it until now */
    dt_ms away = dt_members_check_ourselves(&r->members, &r->spec, now);
    if (away > 0)
        excuse(r, out, away);
    if (event->type == DT_EV_FRAME)
        hear(r, event->frame->incarnation);
    expire(r, out);
    switch (event->type) {
    case DT_EV_FRAME:
        take_frame(r, out, event);
        break;
    case DT_EV_LOST:
        take_lost(r, event->from);
        break;
    case DT_EV_DRAIN:
        take_drain(r, out, event->text);
        break;
    case DT_EV_PAUSE:
        rdzv_pause(r, out, event->text);
        break;
    case DT_EV_RESUME:
        rdzv_resume(r, out);
        break;
    case DT_EV_STOP:
        rdzv_stop(r, out, event->text);
        break;
    case DT_EV_RESTART:
        rdzv_restart(r, out, event->text);
        break;
    case DT_EV_SAVE:
        rdzv_save_now(r, out);
        break;
    case DT_EV_LOOK:
        rdzv_look_begin(r, event->native, out);
        break;
    case DT_EV_TICK:
        break;
    case DT_EV_END:
        if (r->state != DT_RUN_CLOSED)
            rdzv_close(r, out, DT_CLOSE_ENDED, "%s", event->text);
        break;
    }
    settle(r, out);
    rdzv_note_spares(r, out);
    rdzv_tell_mixed(r, out);
}

static dt_ms sooner(dt_ms a, dt_ms b)
{
    return a < b ? a : b;
}

/* Whether it is kept although nobody is in it, and until when. */
static bool is_kept(const struct dt_rdzv *r, dt_ms *until)
{
    *until = dt_clock_after(r->since, REMEMBERED);
    return r->state == DT_RUN_CLOSED || r->strays;
}

dt_ms dt_rdzv_next(const struct dt_rdzv *r)
{
    dt_ms next = dt_members_next(&r->members, &r->spec), until;
    if (r->state == DT_RUN_GATHERING && r->begun)
        next = sooner(next, rdzv_gather_next(r));
    if (r->state == DT_RUN_RUNNING && r->running.grow_at > r->now)
        next = sooner(next, r->running.grow_at);
    if (r->state == DT_RUN_RUNNING && r->running.recovery.until)
        next = sooner(next, r->running.recovery.until);
    next = sooner(next, sooner(rdzv_look_next(r), rdzv_standstill_next(r)));
    if (dt_rdzv_is_empty(r) && is_kept(r, &until))
        next = sooner(next, until);
    return next;
}

bool dt_rdzv_is_empty(const struct dt_rdzv *r)
{
    return r->members.count == 0 && (r->state != DT_RUN_RUNNING || !r->running.recovery.until);
}

bool dt_rdzv_has_node(const struct dt_rdzv *r, const char *name)
{
    dt_list_each(&r->members.all, n)
    {
        if (goes_by(dt_container_of(n, struct dt_member, in_all), name))
            return true;
    }
    return false;
}

bool dt_rdzv_is_idle(const struct dt_rdzv *r, dt_ms now)
{
    dt_ms until;
    return dt_rdzv_is_empty(r) && (!is_kept(r, &until) || now >= until);
}
