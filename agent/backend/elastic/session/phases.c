/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/elastic/session/inside.h"

#include "base/log.h"

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

void session_become(struct dt_session *s, enum dt_session_phase phase)
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

void session_be_born(struct dt_session *s)
{
    s->incarnation = s->config.ops->random(s->config.arg);
    s->round = -1;
    s->result_pending = false;
    s->claim.seat = -1;
    s->claim.seats = s->claim.first_rank = s->claim.size = 0;
    s->claim.over = NULL;
    s->telemetry_new = s->telemetry.is.number > 0;
}

bool session_is_member(const struct dt_session *s)
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
