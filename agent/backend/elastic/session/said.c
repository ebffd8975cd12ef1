/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/session/inside.h"

#include <math.h>

void session_say(struct dt_session *s, struct dt_message m)
{
    if (!s->up)
        return;
    m.run = s->config.run;
    m.round = m.type == DT_MSG_JOIN ? s->known_round : s->round;
    m.incarnation = s->incarnation;
    s->config.ops->send(s->config.arg, &m);
}

void session_say_join(struct dt_session *s)
{
    struct dt_message m = {.type = DT_MSG_JOIN, .join = s->config.join};
    m.join.claim = s->claim;
    session_say(s, m);
    s->join_said = s->now;
    s->next_beat = dt_clock_after(s->now, session_spec(s)->beat);
}

void session_say_failure(struct dt_session *s)
{
    struct dt_message m = {.type = DT_MSG_RESULT, .result = s->result};
    m.result.age += s->now - s->result_at;
    m.result.late = !s->result_pending;
    session_say(s, m);
}

void session_tell_failure_again(struct dt_session *s)
{
    bool workers_are_gone = s->phase == DT_SESSION_JOINING;
    s->claim.running = true;
    session_say_join(s);
    session_say_failure(s);
    s->claim.running = !workers_are_gone;
    if (workers_are_gone)
        session_say_join(s);
}

void session_say_leave(struct dt_session *s, bool stopping, const char *why)
{
    session_say(
        s, (struct dt_message){.type = DT_MSG_LEAVE, .leave = {.stopping = stopping}, .why = why});
}

void session_say_beat(struct dt_session *s)
{
    s->facts.seq++;
    s->beat_said = s->now;
    struct dt_message m = {.type = DT_MSG_BEAT, .beat = s->facts};
    if (s->telemetry_new)
        m.beat.telemetry = s->telemetry.is;
    s->telemetry_new = s->telemetry_new && !s->up;
    session_say(s, m);
}

static bool has_diverged(const struct dt_telemetry *t)
{
    double loss;
    return dt_telemetry_get_loss(t->loss, &loss) && !isfinite(loss);
}

/* One that nothing is known of any more is told, too, once something was. */
void session_tell_telemetry(struct dt_session *s, const struct dt_telemetry *t)
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

void session_forget_training(struct dt_session *s)
{
    const struct dt_telemetry *t = &s->telemetry.is;
    session_tell_telemetry(s, &(struct dt_telemetry){.gpus = t->gpus,
                                                     .gpu_busy = t->gpu_busy,
                                                     .gpu_mem_mib = t->gpu_mem_mib,
                                                     .gpu_mem_total_mib = t->gpu_mem_total_mib,
                                                     .disk = t->disk,
                                                     .disk_free_mib = t->disk_free_mib,
                                                     .disk_total_mib = t->disk_total_mib,
                                                     .upload_behind_s = t->upload_behind_s});
}

/* Time goes on while they stand. */
void session_say_still(struct dt_session *s)
{
    dt_ms still = s->still ? dt_clock_after(s->still, s->now - s->still_said) : 0;
    if (s->looks)
        session_say(s, (struct dt_message){.type = DT_MSG_STILL,
                                           .still = {.still = still, .sure = s->still_sure}});
}
