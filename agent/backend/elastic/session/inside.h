/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of a session share:
 *
 *     phases.c   what may follow what, and when the server should know of this agent
 *     said.c     what the rendezvous is told
 *     heard.c    what becomes of what it says
 *     session.c  the owner's wishes, the connection that comes and goes, and time */
#ifndef DT_AGENT_BACKEND_ELASTIC_SESSION_INSIDE_H
#define DT_AGENT_BACKEND_ELASTIC_SESSION_INSIDE_H

#include "agent/backend/elastic/session/session.h"

static inline const struct dt_run_spec *session_spec(const struct dt_session *s)
{
    return &s->config.join.spec;
}

/* -- phases ----------------------------------------------------------------------------------- */

void session_become(struct dt_session *s, enum dt_session_phase phase);
/* An incarnation that nobody has heard of, and that has been in no round. What the agent knows of
 * the job's rounds and restarts stays: a server that forgot all learns it from the joins. */
void session_be_born(struct dt_session *s);
/* Whether the server should know of this incarnation. It does not between being called stale, while
 * workers of that life are still being killed, and the next join. */
bool session_is_member(const struct dt_session *s);

/* -- the connection and time ------------------------------------------------------------------ */

/* The workers are being stopped, and may do so much. */
void session_stop(struct dt_session *s, enum dt_stop_how how, const char *why);
/* Until then the server, which has heard of us for certain when it answered, does not give us up.
 */
dt_ms session_kept_until(const struct dt_session *s);
/* First in each call from outside. */
void session_look_at_clock(struct dt_session *s, dt_ms now);
void session_go_away(struct dt_session *s);

/* -- what is said ----------------------------------------------------------------------------- */

void session_say(struct dt_session *s, struct dt_message m);
void session_say_join(struct dt_session *s);
void session_say_failure(struct dt_session *s);
/* The reason before the consequence: to a server that hears first that the workers are gone, the
 * result is one of a round that is over. One that has answered it and forgot that is to charge it
 * again, and one that did not forget takes no notice. */
void session_tell_failure_again(struct dt_session *s);
void session_say_leave(struct dt_session *s, bool stopping, const char *why);
void session_say_beat(struct dt_session *s);
void session_say_still(struct dt_session *s);
/* With the next beats. */
void session_tell_telemetry(struct dt_session *s, const struct dt_telemetry *t);
/* The workers of the round before told it. */
void session_forget_training(struct dt_session *s);

#endif
