/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/session/session.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *dt_session_phase_name(enum dt_session_phase p)
{
    static const char *const names[] = {
        [DT_SESSION_IDLE] = "idle",       [DT_SESSION_JOINING] = "joining",
        [DT_SESSION_RUNNING] = "running", [DT_SESSION_STOPPING] = "stopping",
        [DT_SESSION_DONE] = "done",       [DT_SESSION_LEAVING] = "leaving",
        [DT_SESSION_ENDED] = "ended",
    };
    return names[p];
}

static const struct dt_run_spec *spec_of(const struct dt_session *s)
{
    return &s->config.join.spec;
}

/* For so long one may be silent. */
static dt_ms silence(const struct dt_session *s)
{
    return spec_of(s)->beat * spec_of(s)->beats;
}

enum { PHASES = DT_SESSION_ENDED + 1 };

/* clang-format off */
/* What may follow what. */
static const bool may_follow[PHASES][PHASES] = {
    [DT_SESSION_IDLE] = {
        [DT_SESSION_JOINING] = true,
        [DT_SESSION_ENDED] = true,
    },
    [DT_SESSION_JOINING] = {
        [DT_SESSION_JOINING] = true, /* with another incarnation, or the owner asks again */
        [DT_SESSION_RUNNING] = true,
        [DT_SESSION_ENDED] = true,
    },
    [DT_SESSION_RUNNING] = {
        [DT_SESSION_STOPPING] = true,
        [DT_SESSION_DONE] = true,
        [DT_SESSION_LEAVING] = true,
        [DT_SESSION_ENDED] = true,
    },
    [DT_SESSION_STOPPING] = {
        [DT_SESSION_JOINING] = true,
        [DT_SESSION_STOPPING] = true, /* its incarnation is stale: workers may do less than before */
        [DT_SESSION_LEAVING] = true,
        [DT_SESSION_ENDED] = true,
    },
    [DT_SESSION_DONE] = {
        [DT_SESSION_STOPPING] = true,
        [DT_SESSION_ENDED] = true,
    },
    [DT_SESSION_LEAVING] = {
        [DT_SESSION_ENDED] = true,
    },
    [DT_SESSION_ENDED] = {
        [DT_SESSION_ENDED] = true, /* the owner ends one that the server has closed */
    },
};
/* clang-format on */

static void become(struct dt_session *s, enum dt_session_phase phase)
{
    if (!may_follow[s->phase][phase])
        dt_bug("a session is %s and cannot be %s", dt_session_phase_name(s->phase),
               dt_session_phase_name(phase));
    s->phase = phase; /* the only assignment */
    s->parked = false;
    s->claim.running =
        phase == DT_SESSION_RUNNING || phase == DT_SESSION_STOPPING || phase == DT_SESSION_LEAVING;
    s->claim.done = phase == DT_SESSION_DONE;
}

/* An incarnation that nobody has heard of, and that has been in no round. What the agent knows of
 * the job's rounds and restarts stays: a server that forgot all learns it from the joins. */
static void be_born(struct dt_session *s)
{
    s->incarnation = s->config.ops->random(s->config.arg);
    s->round = -1;
    s->result_pending = false;
    s->claim.seat = -1;
    s->claim.seats = s->claim.first_rank = s->claim.size = 0;
    s->claim.over = NULL;
    s->telemetry_new = s->telemetry.is.number > 0;
}

void dt_session_init(struct dt_session *s, const struct dt_session_config *config)
{
    memset(s, 0, sizeof *s);
    s->config = *config;
    s->facts.step = -1;
    s->away_since = s->up_since = DT_FOREVER;
    s->known_round = -1;
    be_born(s);
}

/* Whether the server should know of this incarnation. It does not between being called stale, while
 * workers of that life are still being killed, and the next join. */
static bool is_member(const struct dt_session *s)
{
    switch (s->phase) {
    case DT_SESSION_IDLE:
    case DT_SESSION_ENDED:
        return false;
    case DT_SESSION_STOPPING:
    case DT_SESSION_LEAVING:
        return s->round >= 0;
    case DT_SESSION_JOINING:
    case DT_SESSION_RUNNING:
    case DT_SESSION_DONE:
        return true;
    }
    return false;
}

/* The workers are being stopped, and may do so much. */
static void stop(struct dt_session *s, enum dt_stop_how how, const char *why)
{
    s->how = how;
    s->config.ops->stop(s->config.arg, how, why);
}

/* Workers that are being stopped with those of the other nodes are waited for only as long as we
 * are heard of. */
static void stop_alone(struct dt_session *s)
{
    if ((s->phase == DT_SESSION_STOPPING || s->phase == DT_SESSION_LEAVING) &&
        s->how == DT_STOP_TOGETHER)
        stop(s, DT_STOP_ALONE,
             "the rendezvous is not heard of, and the others may go on without this node: its "
             "workers may not save any more");
}

/* Until then the server, which has heard of us for certain when it answered, does not give us up.
 */
static dt_ms kept_until(const struct dt_session *s)
{
    return dt_clock_after(s->heard_of, silence(s) - spec_of(s)->beat / 4);
}

/* Ticks come at least once a beat, so a longer gap is our own: a stopped virtual machine, a loop
 * that was held up. That is no silence of the server's, whose frames may be waiting to be read; but
 * it may have given us up meanwhile. */
static void look_at_clock(struct dt_session *s, dt_ms now)
{
    if (s->phase != DT_SESSION_IDLE && now - s->now >= 2 * spec_of(s)->beat) {
        s->answered = now;
        if (s->away_since != DT_FOREVER)
            s->away_since = now;
        stop_alone(s);
    }
    s->now = now;
}

/* -- what is said ----------------------------------------------------------------------------- */

static void say(struct dt_session *s, struct dt_message m)
{
    if (!s->up)
        return;
    m.run = s->config.run;
    m.round = m.type == DT_MSG_JOIN ? s->known_round : s->round;
    m.incarnation = s->incarnation;
    s->config.ops->send(s->config.arg, &m);
}

static void say_join(struct dt_session *s)
{
    struct dt_message m = {.type = DT_MSG_JOIN, .join = s->config.join};
    m.join.claim = s->claim;
    say(s, m);
    s->join_said = s->now;
    s->next_beat = dt_clock_after(s->now, spec_of(s)->beat);
}

static void say_failure(struct dt_session *s)
{
    struct dt_message m = {.type = DT_MSG_RESULT, .result = s->result};
    m.result.age += s->now - s->result_at;
    m.result.late = !s->result_pending;
    say(s, m);
}

/* The reason before the consequence: to a server that hears first that the workers are gone, the
 * result is one of a round that is over. One that has answered it and forgot that is to charge it
 * again, and one that did not forget takes no notice. */
static void tell_failure_again(struct dt_session *s)
{
    bool workers_are_gone = s->phase == DT_SESSION_JOINING;
    s->claim.running = true;
    say_join(s);
    say_failure(s);
    s->claim.running = !workers_are_gone;
    if (workers_are_gone)
        say_join(s);
}

static void say_leave(struct dt_session *s, bool stopping, const char *why)
{
    say(s, (struct dt_message){.type = DT_MSG_LEAVE, .leave = {.stopping = stopping}, .why = why});
}

static void say_beat(struct dt_session *s)
{
    s->facts.seq++;
    s->beat_said = s->now;
    struct dt_message m = {.type = DT_MSG_BEAT, .beat = s->facts};
    if (s->telemetry_new)
        m.beat.telemetry = s->telemetry.is;
    s->telemetry_new = s->telemetry_new && !s->up;
    say(s, m);
}

static bool has_diverged(const struct dt_telemetry *t)
{
    double loss;
    return dt_telemetry_get_loss(t->loss, &loss) && !isfinite(loss);
}

/* One that nothing is known of any more is told, too, once something was. */
static void tell_telemetry(struct dt_session *s, const struct dt_telemetry *t)
{
    int64_t number = s->telemetry.is.number;
    bool diverges = has_diverged(t) && !has_diverged(&s->telemetry.is);
    s->facts.telemetry = (struct dt_telemetry){0};
    if (!dt_telemetry_differs(&s->telemetry.is, t))
        return;
    dt_telemetry_keep(&s->telemetry, t);
    s->telemetry.is.number = number + 1;
    s->telemetry_new = true;
    if (diverges)
        s->next_beat = s->now; /* people hear of it without waiting for the next one */
}

/* The workers of the round before told it. */
static void forget_training(struct dt_session *s)
{
    const struct dt_telemetry *t = &s->telemetry.is;
    tell_telemetry(s, &(struct dt_telemetry){.gpus = t->gpus,
                                             .gpu_busy = t->gpu_busy,
                                             .gpu_mem_mib = t->gpu_mem_mib,
                                             .gpu_mem_total_mib = t->gpu_mem_total_mib,
                                             .disk = t->disk,
                                             .disk_free_mib = t->disk_free_mib,
                                             .disk_total_mib = t->disk_total_mib,
                                             .upload_behind_s = t->upload_behind_s});
}

/* Time goes on while they stand. */
static void say_still(struct dt_session *s)
{
    dt_ms still = s->still ? dt_clock_after(s->still, s->now - s->still_said) : 0;
    if (s->looks)
        say(s, (struct dt_message){.type = DT_MSG_STILL,
                                   .still = {.still = still, .sure = s->still_sure}});
}

/* -- the owner's wishes ----------------------------------------------------------------------- */

void dt_session_join(struct dt_session *s, dt_ms now)
{
    look_at_clock(s, now);
    if (s->phase == DT_SESSION_ENDED)
        return;
    if (!is_member(s))
        s->answered = now; /* who was not asked was not silent */
    become(s, DT_SESSION_JOINING);
    say_join(s);
}

static void keep_result(struct dt_session *s, const struct dt_result *result)
{
    snprintf(s->result_text, sizeof s->result_text, "%s", result->text);
    snprintf(s->result_signature, sizeof s->result_signature, "%s", result->signature);
    snprintf(s->result_place, sizeof s->result_place, "%s", result->place ? result->place : "");
    snprintf(s->result_cause, sizeof s->result_cause, "%s", result->cause ? result->cause : "");
    s->result = *result;
    s->result.text = s->result_text;
    s->result.signature = s->result_signature;
    s->result.place = s->result_place;
    s->result.cause = s->result_cause;
    s->result_at = s->now;
}

void dt_session_failed(struct dt_session *s, const struct dt_result *result, dt_ms now)
{
    look_at_clock(s, now);
    if (s->phase != DT_SESSION_RUNNING)
        return; /* of a round that is over already */
    keep_result(s, result);
    s->result_pending = true;
    s->how = DT_STOP_ALONE;
    become(s, DT_SESSION_STOPPING);
    say_beat(s); /* rounds may be shorter than a beat, and how far this one came counts */
    say_failure(s);
}

void dt_session_found(struct dt_session *s, const struct dt_result *result, dt_ms now)
{
    look_at_clock(s, now);
    if (s->phase != DT_SESSION_STOPPING || s->round < 0)
        return; /* nobody asks any more */
    keep_result(s, result);
    say_failure(s);
}

void dt_session_succeeded(struct dt_session *s, dt_ms now)
{
    look_at_clock(s, now);
    if (s->phase != DT_SESSION_RUNNING)
        return;
    become(s, DT_SESSION_DONE);
    say(s, (struct dt_message){
               .type = DT_MSG_RESULT,
               .result = {
                   .succeeded = true, .rank = -1, .local_rank = -1, .signature = "", .text = ""}});
}

void dt_session_leave(struct dt_session *s, const char *why, dt_ms now)
{
    look_at_clock(s, now);
    if (s->phase == DT_SESSION_RUNNING || s->phase == DT_SESSION_STOPPING) {
        if (s->phase == DT_SESSION_RUNNING) {
            s->how = DT_STOP_TOGETHER;
            s->stop_by = dt_clock_after(now, spec_of(s)->stop_bound);
        }
        snprintf(s->leave_text, sizeof s->leave_text, "%s", why);
        become(s, DT_SESSION_LEAVING);
        say_leave(s, true, s->leave_text);
        return;
    }
    if (is_member(s))
        say_leave(s, false, why);
    become(s, DT_SESSION_ENDED);
}

void dt_session_end(struct dt_session *s, dt_ms now)
{
    look_at_clock(s, now);
    if (s->phase == DT_SESSION_LEAVING && is_member(s))
        say_leave(s, false, "its workers are gone");
    become(s, DT_SESSION_ENDED);
}

void dt_session_tell(struct dt_session *s, const struct dt_beat *facts)
{
    int64_t seq = s->facts.seq;
    const char *reason = facts->own.reason ? facts->own.reason : "";
    s->facts = *facts;
    s->facts.seq = seq;
    snprintf(s->own_reason, sizeof s->own_reason, "%s", reason);
    s->facts.own.reason = s->own_reason;
    tell_telemetry(s, &facts->telemetry);
}

bool dt_session_still(struct dt_session *s, dt_ms still, bool sure, dt_ms now)
{
    look_at_clock(s, now);
    if (s->phase == DT_SESSION_RUNNING) {
        s->still = still;
        s->still_said = now;
        s->still_sure = sure;
        say_still(s);
    }
    return s->looks;
}

void dt_session_looked(struct dt_session *s, int64_t id, const struct dt_stances *stances,
                       dt_ms now)
{
    look_at_clock(s, now);
    if (s->phase == DT_SESSION_RUNNING && s->looks)
        say(s,
            (struct dt_message){.type = DT_MSG_LOOKED, .looked = {.id = id, .stances = *stances}});
}

void dt_session_tailed(struct dt_session *s, int64_t id, bool over, const char *page, dt_ms now)
{
    look_at_clock(s, now);
    if (is_member(s))
        say(s, (struct dt_message){.type = DT_MSG_TAILED,
                                   .tailed = {.id = id, .over = over, .json = page}});
}

void dt_session_name(struct dt_session *s, const char *run)
{
    s->config.run = run;
}

void dt_session_set_port(struct dt_session *s, int port)
{
    s->config.join.node.port = port;
}

/* -- the connection --------------------------------------------------------------------------- */

void dt_session_connected(struct dt_session *s, bool looks, dt_ms now)
{
    look_at_clock(s, now);
    s->up = true;
    s->looks = looks;
    s->telemetry_new = s->telemetry.is.number > 0;
    s->up_since = now;
    s->away_since = DT_FOREVER;
    s->answered = now;
    if (!is_member(s))
        return;
    if (s->result_pending)
        tell_failure_again(s);
    else
        say_join(s);
    if (s->phase == DT_SESSION_LEAVING)
        say_leave(s, true, s->leave_text);
    if (s->phase == DT_SESSION_RUNNING && s->still)
        say_still(s);
}

static void go_away(struct dt_session *s)
{
    if (s->up) {
        s->away_since = s->answered;
        stop_alone(s);
    }
    s->up = false;
}

void dt_session_disconnected(struct dt_session *s, dt_ms now)
{
    look_at_clock(s, now);
    go_away(s);
}

/* -- what is heard ---------------------------------------------------------------------------- */

/* What no rendezvous that holds to the protocol says is a refusal. */
static void hear_refusal(struct dt_session *s, const char *why)
{
    go_away(s);
    s->config.ops->refused(s->config.arg, why);
}

static bool has_room(int first, int size, int workers)
{
    return size >= workers && first <= size - workers;
}

/* Whether it can be the world of a node with so many workers: ranks are computed from it. */
static bool is_possible(const struct dt_world_message *w, int workers)
{
    return w->seat < w->seats && w->role_size <= w->size &&
           has_room(w->first_rank, w->size, workers) &&
           has_room(w->first_role_rank, w->role_size, workers) &&
           (w->prev_size == 0 || has_room(w->prev_rank, w->prev_size, workers));
}

static void refuse_world(struct dt_session *s, const struct dt_world_message *w)
{
    char why[DT_WHY_MAX];
    snprintf(why, sizeof why,
             "its world has no room for this node: %d workers from rank %d of %d, %d of %d in the "
             "role, %d of %d before, in seat %d of %d",
             s->config.join.node.workers, w->first_rank, w->size, w->first_role_rank, w->role_size,
             w->prev_rank, w->prev_size, w->seat, w->seats);
    hear_refusal(s, why);
}

static void hear_world(struct dt_session *s, const struct dt_message *m)
{
    /* One that was sent twice because the first may have been lost, or an old one. */
    if (s->phase != DT_SESSION_JOINING || m->round <= s->round)
        return;
    if (!is_possible(&m->world, s->config.join.node.workers)) {
        refuse_world(s, &m->world);
        return;
    }
    s->round = s->known_round = m->round;
    if (s->heard_of < s->join_said)
        s->heard_of = s->join_said;
    s->result_pending = false;
    s->claim = (struct dt_claim){.again = true,
                                 .seat = m->world.seat,
                                 .seats = m->world.seats,
                                 .first_rank = m->world.first_rank,
                                 .size = m->world.size,
                                 .restarts = m->world.restarts};
    s->still = 0;
    s->facts.own = (struct dt_own_time){0}; /* of the workers before */
    forget_training(s);
    snprintf(s->cause, sizeof s->cause, "%s", m->world.cause ? m->world.cause : "");
    become(s, DT_SESSION_RUNNING);
    s->config.ops->world(s->config.arg, m->round, &m->world);
}

static void hear_stop(struct dt_session *s, const struct dt_message *m)
{
    if (m->round != s->round)
        return;
    bool together = m->stop.together && s->now < kept_until(s); /* it may have come late */
    enum dt_stop_how how = together ? DT_STOP_TOGETHER : DT_STOP_ALONE;
    snprintf(s->over, sizeof s->over, "%s", *m->why ? m->why : "the server has ended it");
    s->claim.over = s->over;
    if (s->phase == DT_SESSION_RUNNING || s->phase == DT_SESSION_DONE) {
        become(s, DT_SESSION_STOPPING);
        s->stop_by = dt_clock_after(s->heard_of, spec_of(s)->stop_bound); /* it came from then on */
    } else if ((s->phase != DT_SESSION_STOPPING && s->phase != DT_SESSION_LEAVING) ||
               how <= s->how) {
        return;
    }
    stop(s, how, m->why);
}

static void hear_stale(struct dt_session *s, const struct dt_message *m)
{
    be_born(s);
    if (s->phase == DT_SESSION_JOINING) {
        become(s, DT_SESSION_JOINING);
        say_join(s);
        return;
    }
    if (s->phase != DT_SESSION_LEAVING)
        become(s, DT_SESSION_STOPPING);
    stop(s, DT_STOP_KILL, m->why);
}

static void hear_close(struct dt_session *s, const struct dt_message *m)
{
    bool has_world = s->phase == DT_SESSION_RUNNING || s->phase == DT_SESSION_DONE;
    if (m->close.kind == DT_CLOSE_REFUSED && has_world) {
        hear_refusal(s, m->why);
        return;
    }
    snprintf(s->cause, sizeof s->cause, "%s", m->close.cause ? m->close.cause : "");
    become(s, DT_SESSION_ENDED);
    s->config.ops->closed(s->config.arg, m->close.kind, m->why);
}

static void hear_park(struct dt_session *s, const struct dt_message *m)
{
    if (s->phase != DT_SESSION_JOINING)
        return;
    s->parked = true;
    s->result_pending = false; /* the next world is there, without this node */
    s->claim.over = NULL;
    s->config.ops->note(s->config.arg, m->why);
}

static void hear_look(struct dt_session *s, const struct dt_message *m)
{
    if (s->phase == DT_SESSION_RUNNING && m->round == s->round)
        s->config.ops->look(s->config.arg, m->look.id, m->look.native);
}

static void hear_keep(struct dt_session *s, const struct dt_message *m)
{
    if (s->phase == DT_SESSION_RUNNING && m->round == s->round)
        s->config.ops->keep(s->config.arg);
}

static void hear_finding(struct dt_session *s, const struct dt_message *m)
{
    bool has_part = s->phase == DT_SESSION_RUNNING || s->phase == DT_SESSION_DONE;
    if (has_part && m->round == s->round)
        s->config.ops->finding(s->config.arg, &m->finding);
}

static void hear_beat(struct dt_session *s, const struct dt_message *m)
{
    if (m->beat.seq == s->facts.seq)
        s->heard_of = s->beat_said;
    if (s->phase == DT_SESSION_RUNNING && m->round == s->round && m->beat.straggler &&
        *m->beat.straggler)
        s->config.ops->straggler(s->config.arg, m->beat.straggler, m->beat.holds_up);
}

void dt_session_frame(struct dt_session *s, const struct dt_message *m, dt_ms now)
{
    look_at_clock(s, now);
    s->answered = now;
    if (!is_member(s) || m->incarnation != s->incarnation || strcmp(m->run, s->config.run) != 0)
        return;
    s->claim.again = true;
    switch (m->type) {
    case DT_MSG_WORLD:
        hear_world(s, m);
        break;
    case DT_MSG_PARK:
        hear_park(s, m);
        break;
    case DT_MSG_STOP:
        hear_stop(s, m);
        break;
    case DT_MSG_STALE:
        hear_stale(s, m);
        break;
    case DT_MSG_CLOSE:
        hear_close(s, m);
        break;
    case DT_MSG_NOTE:
        s->config.ops->note(s->config.arg, m->why);
        break;
    case DT_MSG_LOOK:
        hear_look(s, m);
        break;
    case DT_MSG_KEEP:
        hear_keep(s, m);
        break;
    case DT_MSG_FINDING:
        hear_finding(s, m);
        break;
    case DT_MSG_BEAT:
        hear_beat(s, m);
        break;
    case DT_MSG_TAIL:
    case DT_MSG_MORE:
        s->config.ops->tail(s->config.arg, m);
        break;
    case DT_MSG_HELLO:
    case DT_MSG_PROOF:
    case DT_MSG_REFUSED:
    case DT_MSG_JOIN:
    case DT_MSG_RESULT:
    case DT_MSG_LEAVE:
    case DT_MSG_STILL:
    case DT_MSG_LOOKED:
    case DT_MSG_REMARK:
    case DT_MSG_DRAIN:
    case DT_MSG_PAUSE:
    case DT_MSG_SAVE:
    case DT_MSG_STOP_RUN:
    case DT_MSG_RESTART_RUN:
    case DT_MSG_STATUS:
    case DT_MSG_STANCES:
    case DT_MSG_EVENTS:
    case DT_MSG_ALERT:
    case DT_MSG_LOGS:
    case DT_MSG_TAILED:
    case DT_MSG_TYPES:
        break;
    }
}

/* -- time ------------------------------------------------------------------------------------- */

/* When a server that says nothing is given up. */
static dt_ms patience(const struct dt_session *s)
{
    return s->up && is_member(s) ? dt_clock_after(s->answered, silence(s)) : DT_FOREVER;
}

/* When workers that save with those of other nodes count as cut off. */
static dt_ms trust(const struct dt_session *s)
{
    bool saves = s->phase == DT_SESSION_STOPPING || s->phase == DT_SESSION_LEAVING;
    if (!s->up || !saves || s->how != DT_STOP_TOGETHER)
        return DT_FOREVER;
    return kept_until(s) < s->stop_by ? kept_until(s) : s->stop_by;
}

/* A round that ends is told to those who are connected, and waited for until the stop bound is
 * over. Who is not heard of any more is waited for as long as it is kept. Both count from the last
 * moment at which the server knew of us for certain, over this connection: with another one it may
 * have given us up for the end of the first. */
dt_ms dt_session_lease(const struct dt_session *s)
{
    bool ends = s->phase == DT_SESSION_STOPPING || s->phase == DT_SESSION_LEAVING;
    bool may = s->phase == DT_SESSION_RUNNING || (ends && s->how == DT_STOP_TOGETHER);
    if (!s->up || !may || s->heard_of < s->up_since)
        return 0;
    /* Who leaves does not know yet whether the server has heard of it. */
    bool told = s->phase == DT_SESSION_STOPPING;
    dt_ms bound = dt_clock_after(s->heard_of, spec_of(s)->stop_bound);
    if (told || (ends && s->stop_by < bound))
        bound = s->stop_by;
    dt_ms until = bound - spec_of(s)->beat / 4;
    return until < kept_until(s) ? until : kept_until(s);
}

/* When workers that nobody watches over are stopped. */
static dt_ms leash(const struct dt_session *s)
{
    if (!s->config.stop_when_away || s->phase != DT_SESSION_RUNNING)
        return DT_FOREVER;
    return dt_clock_after(s->away_since, silence(s) + spec_of(s)->reconnect_grace);
}

static void give_up_connection(struct dt_session *s)
{
    char why[DT_WHY_MAX];
    snprintf(why, sizeof why, "nothing was heard of the rendezvous for %.1f s",
             (double)(s->now - s->answered) / DT_SECOND);
    go_away(s);
    s->config.ops->disconnect(s->config.arg, why);
}

static void stop_for_away(struct dt_session *s)
{
    char why[DT_WHY_MAX];
    snprintf(
        why, sizeof why,
        "nothing was heard of the rendezvous for %.1f s, and workers are not to run without it",
        (double)(s->now - s->away_since) / DT_SECOND);
    be_born(s); /* it comes back as one that was away, whose workers did not fail */
    become(s, DT_SESSION_STOPPING);
    stop(s, DT_STOP_ALONE, why);
}

void dt_session_tick(struct dt_session *s, dt_ms now)
{
    look_at_clock(s, now);
    if (now >= trust(s))
        stop_alone(s);
    if (now >= patience(s))
        give_up_connection(s);
    if (now >= leash(s))
        stop_for_away(s);
    if (now < s->next_beat)
        return;
    s->next_beat = dt_clock_after(now, spec_of(s)->beat);
    if (is_member(s))
        say_beat(s);
}

dt_ms dt_session_next(const struct dt_session *s)
{
    dt_ms next = s->next_beat;
    if (s->phase == DT_SESSION_IDLE || s->phase == DT_SESSION_ENDED)
        return DT_FOREVER;
    if (trust(s) < next)
        next = trust(s);
    if (patience(s) < next)
        next = patience(s);
    return leash(s) < next ? leash(s) : next;
}
