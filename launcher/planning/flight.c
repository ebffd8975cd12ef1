/* SPDX-License-Identifier: Apache-2.0 */
/* Whether workers are told where PyTorch's flight recorder dumps, so that a hang can be read off
 * it. A person who has set any of that has a use for it: then all stays as it is.
 *
 * Programs that are no Python of ours may start a container that has not our folders, and PyTorch
 * ends a worker that cannot make its pipe. */
#include "launcher/planning/inside.h"

#include "agent/env.h"
#include "agent/hang/recorders.h"

#include <string.h>

/* Not of an outer job, whose worker we are. */
static bool is_a_persons(const struct dt_planning *c, const char *place)
{
    static const char tail[] = "/" DT_RECORDERS_FOLDER "/" DT_RECORDERS_NAME;
    size_t len = place ? strlen(place) : 0, tail_len = sizeof tail - 1;
    bool outer = dt_facts_env(c->facts, "DTRUN") && len >= tail_len &&
                 strcmp(place + len - tail_len, tail) == 0;
    return place && !outer;
}

int dt_planning_flight(struct dt_planning *c)
{
    static const char *const places[] = {DT_ENV_FLIGHT_DUMP, DT_ENV_FLIGHT_DUMP_OLD,
                                         DT_ENV_FLIGHT_PIPE};
    struct dt_plan *p = c->plan;
    const char *size = dt_facts_env(c->facts, DT_ENV_FLIGHT_BUFFER);
    const char *old_size = dt_facts_env(c->facts, DT_ENV_FLIGHT_BUFFER_OLD);
    const char *given = size ? size : old_size;
    if (p->no_look || p->no_logs || !p->python_from || (given && strcmp(given, "0") == 0))
        return 0;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (is_a_persons(c, dt_facts_env(c->facts, places[i])))
            return 0;
    p->flight_dump = old_size && !size ? DT_ENV_FLIGHT_DUMP_OLD : DT_ENV_FLIGHT_DUMP;
    p->flight_buffer = !given;
    return 0;
}
