/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/session/inside.h"

#include <stdio.h>
#include <string.h>

/* For so long one may be silent. */
static dt_ms silence(const struct dt_session *s)
{
    return session_spec(s)->beat * session_spec(s)->beats;
}

void dt_session_init(struct dt_session *s, const struct dt_session_config *config)
{
    memset(s, 0, sizeof *s);
    s->config = *config;
    s->facts.step = -1;
    s->away_since = s->up_since = DT_FOREVER;
    s->known_round = -1;
    session_be_born(s);
}

dt_ms session_kept_until(const struct dt_session *s)
{
    return dt_clock_after(s->heard_of, silence(s) - session_spec(s)->beat / 4);
}

void session_stop(struct dt_session *s, enum dt_stop_how how, const char *why)
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
        session_stop(
            s, DT_STOP_ALONE,
            "the rendezvous is not heard of, and the others may go on without this node: its "
            "workers may not save any more");
}

/* Ticks come at least once a beat, so a longer gap is our own: a stopped virtual machine, a loop
 * that was held up. That is no silence of the server's, whose frames may be waiting to be read; but
 * it may have given us up meanwhile. */
void session_look_at_clock(struct dt_session *s, dt_ms now)
{
    if (s->phase != DT_SESSION_IDLE && now - s->now >= 2 * session_spec(s)->beat) {
        s->answered = now;
        if (s->away_since != DT_FOREVER)
            s->away_since = now;
        stop_alone(s);
    }
    s->now = now;
}

void session_go_away(struct dt_session *s)
{
    if (s->up) {
        s->away_since = s->answered;
        stop_alone(s);
    }
    s->up = false;
}

/* -- the owner's wishes ----------------------------------------------------------------------- */

void dt_session_join(struct dt_session *s, dt_ms now)
{
    session_look_at_clock(s, now);
    if (s->phase == DT_SESSION_ENDED)
        return;
    if (!session_is_member(s))
        s->answered = now; /* who was not asked was not silent */
    session_become(s, DT_SESSION_JOINING);
    session_say_join(s);
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
    session_look_at_clock(s, now);
    if (s->phase != DT_SESSION_RUNNING)
        return; /* of a round that is over already */
    keep_result(s, result);
    s->result_pending = true;
    s->how = DT_STOP_ALONE;
    session_become(s, DT_SESSION_STOPPING);
    session_say_beat(s); /* rounds may be shorter than a beat, and how far this one came counts */
    session_say_failure(s);
}

void dt_session_found(struct dt_session *s, const struct dt_result *result, dt_ms now)
{
    session_look_at_clock(s, now);
    if (s->phase != DT_SESSION_STOPPING || s->round < 0)
        return; /* nobody asks any more */
    keep_result(s, result);
    session_say_failure(s);
}

void dt_session_succeeded(struct dt_session *s, dt_ms now)
{
    session_look_at_clock(s, now);
    if (s->phase != DT_SESSION_RUNNING)
        return;
    session_become(s, DT_SESSION_DONE);
    session_say(
        s, (struct dt_message){
               .type = DT_MSG_RESULT,
               .result = {
                   .succeeded = true, .rank = -1, .local_rank = -1, .signature = "", .text = ""}});
}

void dt_session_leave(struct dt_session *s, const char *why, dt_ms now)
{
    session_look_at_clock(s, now);
    if (s->phase == DT_SESSION_RUNNING || s->phase == DT_SESSION_STOPPING) {
        if (s->phase == DT_SESSION_RUNNING) {
            s->how = DT_STOP_TOGETHER;
            s->stop_by = dt_clock_after(now, session_spec(s)->stop_bound);
        }
        snprintf(s->leave_text, sizeof s->leave_text, "%s", why);
        session_become(s, DT_SESSION_LEAVING);
        session_say_leave(s, true, s->leave_text);
        return;
    }
    if (session_is_member(s))
        session_say_leave(s, false, why);
    session_become(s, DT_SESSION_ENDED);
}

void dt_session_end(struct dt_session *s, dt_ms now)
{
    session_look_at_clock(s, now);
    if (s->phase == DT_SESSION_LEAVING && session_is_member(s))
        session_say_leave(s, false, "its workers are gone");
    session_become(s, DT_SESSION_ENDED);
}

void dt_session_tell(struct dt_session *s, const struct dt_beat *facts)
{
    int64_t seq = s->facts.seq;
    const char *reason = facts->own.reason ? facts->own.reason : "";
    s->facts = *facts;
    s->facts.seq = seq;
    snprintf(s->own_reason, sizeof s->own_reason, "%s", reason);
    s->facts.own.reason = s->own_reason;
    session_tell_telemetry(s, &facts->telemetry);
}

bool dt_session_still(struct dt_session *s, dt_ms still, bool sure, dt_ms now)
{
    session_look_at_clock(s, now);
    if (s->phase == DT_SESSION_RUNNING) {
        s->still = still;
        s->still_said = now;
        s->still_sure = sure;
        session_say_still(s);
    }
    return s->looks;
}

void dt_session_looked(struct dt_session *s, int64_t id, const struct dt_stances *stances,
                       dt_ms now)
{
    session_look_at_clock(s, now);
    if (s->phase == DT_SESSION_RUNNING && s->looks)
        session_say(s, (struct dt_message){.type = DT_MSG_LOOKED,
                                           .looked = {.id = id, .stances = *stances}});
}

void dt_session_tailed(struct dt_session *s, int64_t id, bool over, const char *page, dt_ms now)
{
    session_look_at_clock(s, now);
    if (session_is_member(s))
        session_say(s, (struct dt_message){.type = DT_MSG_TAILED,
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
    session_look_at_clock(s, now);
    s->up = true;
    s->looks = looks;
    s->telemetry_new = s->telemetry.is.number > 0;
    s->up_since = now;
    s->away_since = DT_FOREVER;
    s->answered = now;
    if (!session_is_member(s))
        return;
    if (s->result_pending)
        session_tell_failure_again(s);
    else
        session_say_join(s);
    if (s->phase == DT_SESSION_LEAVING)
        session_say_leave(s, true, s->leave_text);
    if (s->phase == DT_SESSION_RUNNING && s->still)
        session_say_still(s);
}

void dt_session_disconnected(struct dt_session *s, dt_ms now)
{
    session_look_at_clock(s, now);
    session_go_away(s);
}

/* -- time ------------------------------------------------------------------------------------- */

/* When a server that says nothing is given up. */
static dt_ms patience(const struct dt_session *s)
{
    return s->up && session_is_member(s) ? dt_clock_after(s->answered, silence(s)) : DT_FOREVER;
}

/* When workers that save with those of other nodes count as cut off. */
static dt_ms trust(const struct dt_session *s)
{
    bool saves = s->phase == DT_SESSION_STOPPING || s->phase == DT_SESSION_LEAVING;
    if (!s->up || !saves || s->how != DT_STOP_TOGETHER)
        return DT_FOREVER;
    return session_kept_until(s) < s->stop_by ? session_kept_until(s) : s->stop_by;
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
    dt_ms bound = dt_clock_after(s->heard_of, session_spec(s)->stop_bound);
    if (told || (ends && s->stop_by < bound))
        bound = s->stop_by;
    dt_ms until = bound - session_spec(s)->beat / 4;
    return until < session_kept_until(s) ? until : session_kept_until(s);
}

/* When workers that nobody watches over are stopped. */
static dt_ms leash(const struct dt_session *s)
{
    if (!s->config.stop_when_away || s->phase != DT_SESSION_RUNNING)
        return DT_FOREVER;
    return dt_clock_after(s->away_since, silence(s) + session_spec(s)->reconnect_grace);
}

static void give_up_connection(struct dt_session *s)
{
    char why[DT_WHY_MAX];
    snprintf(why, sizeof why, "nothing was heard of the rendezvous for %.1f s",
             (double)(s->now - s->answered) / DT_SECOND);
    session_go_away(s);
    s->config.ops->disconnect(s->config.arg, why);
}

static void stop_for_away(struct dt_session *s)
{
    char why[DT_WHY_MAX];
    snprintf(
        why, sizeof why,
        "nothing was heard of the rendezvous for %.1f s, and workers are not to run without it",
        (double)(s->now - s->away_since) / DT_SECOND);
    session_be_born(s); /* it comes back as one that was away, whose workers did not fail */
    session_become(s, DT_SESSION_STOPPING);
    session_stop(s, DT_STOP_ALONE, why);
}

void dt_session_tick(struct dt_session *s, dt_ms now)
{
    session_look_at_clock(s, now);
    if (now >= trust(s))
        stop_alone(s);
    if (now >= patience(s))
        give_up_connection(s);
    if (now >= leash(s))
        stop_for_away(s);
    if (now < s->next_beat)
        return;
    s->next_beat = dt_clock_after(now, session_spec(s)->beat);
    if (session_is_member(s))
        session_say_beat(s);
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
