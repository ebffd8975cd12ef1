/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/session/inside.h"

#include <stdio.h>
#include <string.h>

/* What no rendezvous that holds to the protocol says is a refusal. */
static void hear_refusal(struct dt_session *s, const char *why)
{
    session_go_away(s);
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
    session_forget_training(s);
    snprintf(s->cause, sizeof s->cause, "%s", m->world.cause ? m->world.cause : "");
    session_become(s, DT_SESSION_RUNNING);
    s->config.ops->world(s->config.arg, m->round, &m->world);
}

static void hear_stop(struct dt_session *s, const struct dt_message *m)
{
    if (m->round != s->round)
        return;
    bool together = m->stop.together && s->now < session_kept_until(s); /* it may have come late */
    enum dt_stop_how how = together ? DT_STOP_TOGETHER : DT_STOP_ALONE;
    snprintf(s->over, sizeof s->over, "%s", *m->why ? m->why : "the server has ended it");
    s->claim.over = s->over;
    if (s->phase == DT_SESSION_RUNNING || s->phase == DT_SESSION_DONE) {
        session_become(s, DT_SESSION_STOPPING);
        s->stop_by =
            dt_clock_after(s->heard_of, session_spec(s)->stop_bound); /* it came from then on */
    } else if ((s->phase != DT_SESSION_STOPPING && s->phase != DT_SESSION_LEAVING) ||
               how <= s->how) {
        return;
    }
    session_stop(s, how, m->why);
}

static void hear_stale(struct dt_session *s, const struct dt_message *m)
{
    session_be_born(s);
    if (s->phase == DT_SESSION_JOINING) {
        session_become(s, DT_SESSION_JOINING);
        session_say_join(s);
        return;
    }
    if (s->phase != DT_SESSION_LEAVING)
        session_become(s, DT_SESSION_STOPPING);
    session_stop(s, DT_STOP_KILL, m->why);
}

static void hear_close(struct dt_session *s, const struct dt_message *m)
{
    bool has_world = s->phase == DT_SESSION_RUNNING || s->phase == DT_SESSION_DONE;
    if (m->close.kind == DT_CLOSE_REFUSED && has_world) {
        hear_refusal(s, m->why);
        return;
    }
    snprintf(s->cause, sizeof s->cause, "%s", m->close.cause ? m->close.cause : "");
    session_become(s, DT_SESSION_ENDED);
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
    session_look_at_clock(s, now);
    s->answered = now;
    if (!session_is_member(s) || m->incarnation != s->incarnation ||
        strcmp(m->run, s->config.run) != 0)
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
