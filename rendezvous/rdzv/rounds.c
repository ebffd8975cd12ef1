/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"

#include <stdarg.h>
#include <stdio.h>

/* For so long a world with a newcomer in it may fail by the newcomer's fault; the latter where the
 * job tells its steps, and none has been made yet. */
#define TRIAL (60 * DT_SECOND)
#define TRIAL_OF_STEPS (600 * DT_SECOND)
/* Whoever kills a job gets to all its hosts within this time. */
#define KILLED_WITHIN (30 * DT_SECOND)

void rdzv_news(struct dt_rdzv *r, const char *fmt, ...)
{
    size_t used = strlen(r->news);
    va_list args;
    va_start(args, fmt);
    if (used > 0)
        used += (size_t)snprintf(r->news + used, sizeof r->news - used, "; ");
    if (used < sizeof r->news)
        vsnprintf(r->news + used, sizeof r->news - used, fmt, args);
    va_end(args);
}

static void send_stop(struct dt_rdzv_actions *out, const struct dt_member *m, int round,
                      bool together, size_t why)
{
    struct dt_rdzv_action *a = rdzv_send(out, m->id, DT_MSG_STOP, round, why);
    if (a)
        a->together = together;
}

/* -- history ---------------------------------------------------------------------------------- */

static void note_past(struct dt_rdzv *r, const char *why)
{
    struct dt_past_round past = {.round = r->round,
                                 .ended_us = r->wall_us,
                                 .lasted = r->now - r->since,
                                 .lost = -1,
                                 .first_step = r->running.first_step,
                                 .last_step = r->running.first_step < 0 ? -1 : r->budget.step};
    snprintf(past.cause, sizeof past.cause, "%s", why);
    dt_history_add(&r->history, &past);
}

void rdzv_decided(struct dt_rdzv *r, const char *fmt, ...)
{
    struct dt_past_round *past = dt_history_last(&r->history);
    va_list args;
    if (!past)
        return;
    va_start(args, fmt);
    vsnprintf(past->decided, sizeof past->decided, fmt, args);
    va_end(args);
}

const char *rdzv_cause(const struct dt_rdzv *r)
{
    const struct dt_past_round *past = dt_history_last(&r->history);
    return past && past->told ? past->cause : "";
}

/* -- ends ------------------------------------------------------------------------------------- */

/* From the round that ran to the gathering for the next, with what that has to know of it. */
static void end_round(struct dt_rdzv *r, bool together)
{
    dt_ms lasted = r->now - r->since;
    bool no_step = r->running.first_step < 0;
    struct dt_recovery recovery = r->running.recovery;
    rdzv_enter(r, DT_RUN_GATHERING);
    r->round = r->round + 1 < r->floor ? r->floor : r->round + 1;
    r->gathering.stop_deadline = dt_clock_after(r->now, r->spec.stop_bound);
    r->gathering.together = together;
    r->gathering.lasted = lasted;
    r->gathering.no_step = no_step;
    r->gathering.recovery = recovery;
    for (size_t i = 0; i < r->seats_len; i++)
        r->seats[i].done = false;
}

void rdzv_fence(struct dt_rdzv *r, struct dt_rdzv_actions *out, bool together, const char *why)
{
    int over = r->round;
    note_past(r, why);
    end_round(r, together);
    rdzv_journal(out);
    struct dt_rdzv_action *ended =
        rdzv_tell(r, out, DT_EVENT_ROUND_ENDED, NULL, "round %d is over: %s", over, why);
    if (ended)
        ended->round = over;
    rdzv_news(r, "%s", why);
    size_t text = rdzv_text(out, why);
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing != DT_MEMBER_RUNNING && m->doing != DT_MEMBER_DONE)
            continue;
        dt_members_set_doing(&r->members, m, DT_MEMBER_STOPPING);
        send_stop(out, m, over, together, text);
    }
}

/* One that was to stop its workers with the others is not there any more: theirs are no whole world
 * now, and some may wait for those that are gone. */
static void stop_alone(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why)
{
    if (!r->gathering.together)
        return;
    r->gathering.together = false;
    size_t text = rdzv_text(out, why);
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing == DT_MEMBER_STOPPING)
            send_stop(out, m, m->round, false, text);
    }
}

static void say_cause(const struct dt_rdzv *r, struct dt_rdzv_actions *out,
                      const struct dt_fault *f, int round)
{
    const struct dt_suspect *s = &f->suspect;
    struct dt_rdzv_action *a;
    if (*s->cause)
        a = rdzv_tell(r, out, DT_EVENT_WORKER_FAILED, s->node, "root cause of round %d: %s", round,
                      s->cause);
    else
        a = rdzv_tell_silently(r, out, DT_EVENT_WORKER_FAILED, f->node, f->text);
    if (a) {
        a->round = round;
        a->tell.rank = s->rank;
    }
}

/* The same sentence on every node: the next world brings it, or the end. */
static void tell_cause(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_fault *f)
{
    struct dt_past_round *past = dt_history_last(&r->history);
    if (!past)
        return;
    say_cause(r, out, f, past->round);
    if (!*f->suspect.cause)
        return;
    past->told = true;
    snprintf(past->cause, sizeof past->cause, "%s", f->suspect.cause);
}

static enum dt_event_kind event_of(enum dt_close_kind kind)
{
    return kind == DT_CLOSE_SUCCEEDED ? DT_EVENT_RUN_ENDED_WELL
           : kind == DT_CLOSE_STOPPED ? DT_EVENT_RUN_STOPPED
                                      : DT_EVENT_RUN_ENDED_BADLY;
}

enum dt_close_kind rdzv_close_kind(enum dt_close_kind kind, bool tails)
{
    return kind == DT_CLOSE_STOPPED && !tails ? DT_CLOSE_ENDED : kind;
}

void rdzv_close(struct dt_rdzv *r, struct dt_rdzv_actions *out, enum dt_close_kind kind,
                const char *fmt, ...)
{
    struct dt_closed closed = {.kind = kind};
    va_list args;
    va_start(args, fmt);
    vsnprintf(closed.why, sizeof closed.why, fmt, args); /* ARGS may be of the phase that ends */
    va_end(args);
    if (r->state == DT_RUN_RUNNING)
        note_past(r, closed.why);
    else if (r->gathering.fault.pending)
        tell_cause(r, out, &r->gathering.fault);
    rdzv_decided(r, "the job ended: %s", dt_close_kind_name(kind));
    rdzv_enter(r, DT_RUN_CLOSED);
    r->closed = closed;
    rdzv_journal(out);
    rdzv_tell(r, out, event_of(kind), NULL, "closed: %s", r->closed.why);
    size_t text = rdzv_text(out, r->closed.why), cause = rdzv_text(out, rdzv_cause(r));
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        struct dt_rdzv_action *a = rdzv_send(out, m->id, DT_MSG_CLOSE, r->round, text);
        if (a) {
            a->close.kind = rdzv_close_kind(kind, m->tails);
            a->close.cause = cause;
        }
    }
}

/* -- nodes that go ---------------------------------------------------------------------------- */

static void journal_all_nodes(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    const struct dt_excluded *e;
    for (size_t cursor = 0; (e = dt_map_next(&r->exclude->nodes, &cursor));)
        rdzv_journal_node(out, e->name);
}

static void say_outcome(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *node,
                        enum dt_exclude_outcome outcome)
{
    switch (outcome) {
    case DT_EXCLUDE_NOTHING:
        return;
    case DT_EXCLUDE_STRIKE:
        break;
    case DT_EXCLUDE_BANNED: {
        char how[DT_WHY_MAX];
        dt_exclude_describe(r->exclude, node, r->now, how, sizeof how);
        rdzv_tell(r, out, DT_EVENT_NODE_QUARANTINED, node, "%s is kept out %s", node, how);
        rdzv_news(r, "%s is kept out from now on", node);
        break;
    }
    case DT_EXCLUDE_FORGIVEN:
        rdzv_tell(r, out, DT_EVENT_NODE_FORGIVEN, node,
                  "the same failure on three nodes is the program's or the network's: %s is "
                  "forgiven, as the others are",
                  node);
        journal_all_nodes(r, out);
        return;
    case DT_EXCLUDE_NO_MEMORY:
        rdzv_say(out, DT_EVENT_ERROR, "no memory to remember what %s did", node);
        return;
    }
    rdzv_journal_node(out, node);
}

static void note_evidence(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *node,
                          enum dt_evidence evidence, const char *signature)
{
    say_outcome(r, out, node,
                dt_exclude_note(r->exclude, node, evidence, signature, r->spec.strikes,
                                r->spec.quarantine, r->now));
}

static void close_for_losses(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *text)
{
    int most = r->spec.max_node_losses;
    rdzv_close(r, out, DT_CLOSE_FAILED,
               "%s, and the job may lose no more than %d node%s (--max-node-losses)", text, most,
               most == 1 ? "" : "s");
}

void rdzv_lose_node(struct dt_rdzv *r, struct dt_rdzv_actions *out, enum dt_evidence evidence,
                    bool together, const char *text)
{
    rdzv_fence(r, out, together, text);
    if (dt_budget_charge(&r->budget, &r->spec, evidence, r->now) != DT_BUDGET_GO_ON)
        close_for_losses(r, out, text);
    else
        rdzv_decided(r, "no restart is charged, but the loss of a node");
}

void rdzv_leaves(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                 const char *how)
{
    char text[DT_WHY_MAX];
    m->leaving = true;
    snprintf(text, sizeof text, "%s %s", m->name.text, how);
    if (m->doing == DT_MEMBER_RUNNING) {
        rdzv_tell_silently(r, out, DT_EVENT_NODE_LEFT, m->name.text, text);
        rdzv_lose_node(r, out, DT_EVIDENCE_PREEMPTED, true, text);
    } else {
        rdzv_tell(r, out, DT_EVENT_NODE_LEFT, m->name.text, "%s, when its workers are gone", text);
    }
}

void rdzv_forgive_lost(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    size_t n = dt_exclude_forgive_lost(r->exclude, r->id, r->now - KILLED_WITHIN, r->now);
    if (n == 0)
        return;
    rdzv_say(
        out, DT_EVENT_INFO,
        "all nodes went within %d s, as when somebody kills the job: that is no strike for any "
        "of them, and keeps nobody out",
        (int)(KILLED_WITHIN / DT_SECOND));
    journal_all_nodes(r, out);
}

static void leave_seat(struct dt_rdzv *r, const struct dt_member *m)
{
    struct dt_seat *seat = &r->seats[m->seat];
    seat->holder = 0;
    seat->gone = r->now;
    if (m->doing == DT_MEMBER_DONE && r->state == DT_RUN_RUNNING)
        r->running.done_gone++;
}

void rdzv_gone(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
               enum dt_evidence evidence, const char *how)
{
    char text[DT_WHY_MAX], host[DT_NODE_NAME_MAX], name[DT_NODE_NAME_MAX];
    enum dt_event_kind kind =
        evidence == DT_EVIDENCE_PREEMPTED ? DT_EVENT_NODE_LEFT : DT_EVENT_NODE_LOST;
    enum dt_member_doing doing = m->doing;
    bool leaves = m->leaving; /* then it is known why */
    bool marked =
        !leaves && (evidence == DT_EVIDENCE_HARDWARE ||
                    (evidence == DT_EVIDENCE_OFFLINE && !dt_members_is_with_crowd(&r->members, m)));
    bool seated = m->seat >= 0 && r->had_world && (size_t)m->seat < r->seats_len &&
                  r->seats[m->seat].holder == m->id;
    snprintf(host, sizeof host, "%s", m->said_name);
    snprintf(name, sizeof name, "%s", m->name.text);
    snprintf(text, sizeof text, "%s %s", m->name.text, how);
    if (seated)
        leave_seat(r, m);
    rdzv_watch_gone(r, out, m);
    dt_members_remove(&r->members, m);
    r->strays |= evidence == DT_EVIDENCE_OFFLINE && doing != DT_MEMBER_WAITING;
    if (r->state == DT_RUN_CLOSED)
        return;
    if (marked)
        note_evidence(r, out, host, evidence, evidence == DT_EVIDENCE_OFFLINE ? r->id : "");
    if (doing == DT_MEMBER_RUNNING && r->state == DT_RUN_RUNNING) {
        rdzv_tell_silently(r, out, kind, name, text);
        rdzv_lose_node(r, out, evidence, false, text);
        return;
    }
    const char *more = doing == DT_MEMBER_DONE ? ", after it was done"
                       : seated                ? ""
                                               : ", standing by";
    if (leaves) /* as was told when it said so */
        rdzv_say(out, DT_EVENT_INFO, "%s%s", text, more);
    else
        rdzv_tell(r, out, kind, name, "%s%s", text, more);
    if (seated && r->state == DT_RUN_GATHERING) {
        if (!leaves)
            rdzv_news(r, "%s", text);
        rdzv_journal(out);
        r->gathering.fault.node_lost = true;
    }
    if (doing == DT_MEMBER_STOPPING && evidence == DT_EVIDENCE_OFFLINE)
        stop_alone(r, out, text);
}

/* -- workers that fail ------------------------------------------------------------------------ */

/* Whether the world of this round has not shown yet that it works. */
static bool is_untried(const struct dt_rdzv *r)
{
    return !r->running.moves && r->now - r->since < (r->budget.step < 0 ? TRIAL : TRIAL_OF_STEPS);
}

/* Whether M, whose workers failed, has just joined a job that can go on without it. */
static bool is_newcomers_fault(const struct dt_rdzv *r, const struct dt_member *m)
{
    bool can_miss_it = r->seats_len > (size_t)r->spec.min_nodes ||
                       r->members.counts[DT_MEMBER_WAITING][DT_LINK_ONLINE] > 0;
    return m->newcomer && can_miss_it && is_untried(r) && r->spec.strikes > 0 &&
           !rdzv_is_out(r, m, NULL);
}

static struct dt_suspect suspect_of(const struct dt_rdzv *r, const struct dt_member *m,
                                    const struct dt_result *result)
{
    bool running = r->state == DT_RUN_RUNNING;
    bool no_step = running ? r->running.first_step < 0 : r->gathering.no_step;
    struct dt_suspect s = {.from = m->id,
                           .broken = result->evidence == DT_EVIDENCE_HARDWARE,
                           .weak = result->weak,
                           .at = r->now - result->age,
                           .retry = result->retry,
                           .early = result->early && no_step,
                           .rank = result->rank};
    snprintf(s.node, sizeof s.node, "%s", m->name.text);
    snprintf(s.place, sizeof s.place, "%s", result->place ? result->place : "");
    snprintf(s.signature, sizeof s.signature, "%s", result->signature);
    if (result->cause && *result->cause)
        snprintf(s.cause, sizeof s.cause, "%s: %s", m->name.text, result->cause);
    return s;
}

static struct dt_fault fault_of(const struct dt_rdzv *r, const struct dt_member *m,
                                const struct dt_result *result)
{
    struct dt_fault f = {
        .pending = true, .evidence = result->evidence, .suspect = suspect_of(r, m, result)};
    snprintf(f.node, sizeof f.node, "%s", m->said_name);
    snprintf(f.text, sizeof f.text, "%s: %s", m->name.text, result->text);
    snprintf(f.signature, sizeof f.signature, "%s", result->signature);
    return f;
}

void rdzv_note_fault(struct dt_rdzv *r, const struct dt_member *m, const struct dt_result *result)
{
    r->gathering.fault = fault_of(r, m, result);
}

/* A broken device is what it is, whatever else failed with it; who lost a connection may have done
 * so because another one failed. */
static int strength(const struct dt_suspect *s)
{
    return s->broken ? 2 : !s->weak;
}

/* Strength before time, on one time line: each says how long ago it failed, as it says so. What a
 * node says once its workers are gone takes the place of what it said in haste. */
static bool is_likelier(const struct dt_suspect *a, const struct dt_suspect *b)
{
    int more = strength(a) - strength(b);
    return more > 0 || (more == 0 && (a->from == b->from || a->at < b->at));
}

void rdzv_join_evidence(struct dt_rdzv *r, const struct dt_member *m,
                        const struct dt_result *result)
{
    struct dt_suspect *suspect = &r->gathering.fault.suspect, found = suspect_of(r, m, result);
    if (is_likelier(&found, suspect))
        *suspect = found;
}

void rdzv_failed(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                 const struct dt_result *result)
{
    struct dt_fault fault = fault_of(r, m, result);
    fault.newcomer = is_newcomers_fault(r, m);
    rdzv_fence(r, out, false, fault.text);
    r->gathering.fault = fault;
}

static void close_for_fault(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                            enum dt_budget_answer answer, bool loss, const char *text)
{
    if (answer == DT_BUDGET_NO_PROGRESS)
        rdzv_close(r, out, DT_CLOSE_NO_PROGRESS,
                   "%s; %d rounds in a row have failed without a new step, so another would too",
                   text, r->spec.no_progress);
    else if (loss)
        close_for_losses(r, out, text);
    else if (r->spec.max_restarts == 0)
        rdzv_close(r, out, DT_CLOSE_FAILED, "%s; no restarts are allowed (--max-restarts)", text);
    else
        rdzv_close(r, out, DT_CLOSE_FAILED, "%s; of %d restart%s none is left (--max-restarts)",
                   text, r->spec.max_restarts, r->spec.max_restarts == 1 ? "" : "s");
}

/* Whether another round can only fail in the same way: then the job ends. */
static bool is_futile(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_fault *f)
{
    const struct dt_suspect *s = &f->suspect;
    const struct dt_result result = {
        .retry = s->retry, .early = s->early, .signature = s->signature, .place = s->place};
    enum dt_futility_answer answer = dt_futility_note(&r->futility, &result);
    if (answer == DT_FUTILITY_NOT_KNOWN || r->spec.retry_deterministic)
        return false;
    rdzv_close(r, out, DT_CLOSE_NO_PROGRESS, "%s; %s", f->text, dt_futility_text(answer));
    return true;
}

/* The job ran well before NODE came, and will do so without it: nobody pays. */
static void reject_newcomer(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                            const struct dt_fault *f)
{
    rdzv_news(r, "it had just joined, so no restart is charged");
    rdzv_decided(r, "no restart is charged: %s had just joined", f->node);
    say_outcome(r, out, f->node,
                dt_exclude_reject(r->exclude, f->node, f->text, r->spec.quarantine, r->now));
    rdzv_journal(out);
}

static void blame(struct dt_rdzv *r, const char *node)
{
    struct dt_blame *b = &r->blame;
    if (strcmp(b->node, node) != 0 || r->now - b->since >= DT_STRIKE_WINDOW)
        *b = (struct dt_blame){.since = r->now};
    snprintf(b->node, sizeof b->node, "%s", node);
    b->times++;
    b->recent = true;
}

static void pause_for_fault(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    dt_ms pause = dt_budget_pause(&r->budget, r->gathering.lasted);
    if (pause == 0)
        return;
    r->gathering.pause_until = r->now + pause;
    rdzv_news(r, "%d rounds in a row failed at once, so this one began %d s later", r->budget.hasty,
              dt_clock_seconds(pause));
    rdzv_tell(r, out, DT_EVENT_ROUND_DELAYED, NULL,
              "%d rounds in a row failed at once: the next one waits %d s", r->budget.hasty,
              dt_clock_seconds(pause));
}

static void charge_fault(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_fault *f)
{
    bool loss = f->node_lost || f->evidence == DT_EVIDENCE_HARDWARE;
    enum dt_evidence evidence = f->node_lost ? DT_EVIDENCE_OFFLINE : f->evidence;
    enum dt_budget_answer answer = dt_budget_charge(&r->budget, &r->spec, evidence, r->now);
    if (f->node_lost)
        rdzv_news(r, "its failure is put down to the node that was lost");
    else
        note_evidence(r, out, f->node, f->evidence, f->signature);
    if (answer != DT_BUDGET_GO_ON) {
        close_for_fault(r, out, answer, loss, f->text);
        return;
    }
    if (!loss && is_futile(r, out, f))
        return;
    rdzv_journal(out);
    rdzv_decided(r, "no restart is charged, but the loss of a node");
    if (!loss) {
        rdzv_decided(r, "restart %d of %d", r->budget.spent, r->spec.max_restarts);
        rdzv_news(r, "restart %d of %d", r->budget.spent, r->spec.max_restarts);
        blame(r, f->node);
        pause_for_fault(r, out);
    }
}

void rdzv_settle_fault(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    struct dt_fault fault = r->gathering.fault;
    if (!fault.pending)
        return;
    r->gathering.fault = (struct dt_fault){0};
    /* Why the round ended is known: a node that says it again is late. */
    r->gathering.recovery = (struct dt_recovery){0};
    tell_cause(r, out, &fault);
    if (fault.newcomer && !fault.node_lost)
        reject_newcomer(r, out, &fault);
    else
        charge_fault(r, out, &fault);
}
