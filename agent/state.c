/* SPDX-License-Identifier: Apache-2.0 */
/* What the health port tells of an agent. */
#include "agent/inside.h"

#include "base/json_write.h"

static const char *const phase_names[] = {[AGENT_JOINING] = "joining",
                                          [AGENT_RUNNING] = "running",
                                          [AGENT_FINISHED] = "finished",
                                          [AGENT_ENDING] = "ending"};

const char *agent_phase_name(enum agent_phase p)
{
    return phase_names[p];
}

/* The timer looks each second, and so the age may be a second too short. */
static void put_step(const struct agent *a, struct dt_json_writer *w)
{
    dt_ms age = dt_pace_age(&a->pace, dt_clock_monotonic());
    if (age < 0)
        return;
    dt_json_put_int(w, "step", a->pace.step);
    dt_json_put_int(w, "step_age_s", age / DT_SECOND);
}

bool agent_put_state(void *arg, struct dt_buf *out)
{
    const struct agent *a = arg;
    const char *hang = agent_hang(a) ? dt_hang_sentence(agent_hang(a)) : NULL;
    struct dt_json_writer w = {.out = out, .style = DT_JSON_SPACED};
    dt_json_put_object(&w, NULL);
    dt_json_put_text(&w, "state", agent_phase_name(a->phase));
    dt_json_put_int(&w, "round", a->world.round);
    dt_json_put_int(&w, "restarts", a->restarts);
    dt_json_put_int(&w, "workers", a->plan->nproc);
    put_step(a, &w);
    if (hang)
        dt_json_put_text(&w, "hang", hang);
    if (a->holds_up)
        dt_json_put_text(&w, "straggler", a->straggler);
    dt_json_put_end(&w);
    return a->phase != AGENT_ENDING && !hang;
}
