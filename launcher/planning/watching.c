/* SPDX-License-Identifier: Apache-2.0 */
/* Who looks after the job while it runs: health port, time limits of workers, who started us,
 * hangs. */
#include "launcher/planning/inside.h"

#include "launcher/number.h"
#include "launcher/words.h"

#include <string.h>

static int read_health_port(struct dt_planning *c)
{
    const char *text = dt_planning_env(c, "TORCHELASTIC_HEALTH_CHECK_PORT");
    int64_t n;
    c->plan->health_port = c->o->health_port;
    if (dt_launch_options_gave(c->o, "health-port") || !text)
        return 0;
    if (dt_number_int(text, &n, NULL) < 0 || n < 0 || n > 65535)
        return dt_words_push(&c->plan->ignored, c->err,
                             "TORCHELASTIC_HEALTH_CHECK_PORT has no effect: \"%s\" is no port",
                             text);
    c->plan->health_port = (int)n;
    return 0;
}

static int choose_health(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    if (read_health_port(c) < 0 || dt_planning_set(c, &p->health_address, c->o->health_address) < 0)
        return -1;
    if (p->health_address && p->health_port == 0)
        return dt_words_push(&p->ignored, c->err,
                             "--health-address has no effect: there is no "
                             "--health-port");
    return 0;
}

/* A signal that a person has given another meaning keeps that one alone. */
static int choose_look_signal(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    uint64_t bit = UINT64_C(1) << c->o->look_signal;
    bool asked = dt_launch_options_gave(c->o, "look-on-signal");
    bool ends = dt_launch_options_gave(c->o, "signals-to-handle") && (p->stop_signals & bit);
    p->look_signal = c->o->look_signal;
    if (!p->look_signal)
        return 0;
    if (asked && (p->forward_signals & bit)) {
        dt_planning_fail(c, "look-on-signal",
                         "--forward-signals passes this signal on; choose another one");
        c->err->code = DT_E_USAGE; /* of an option that is ours */
        return -1;
    }
    if (!asked && (ends || (p->forward_signals & bit)))
        p->look_signal = 0;
    return 0;
}

static int choose_looks(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    static const char *const useless[] = {"hang-after", "on-hang", "on-straggler",
                                          "look-on-signal"};
    p->no_look = c->o->no_look;
    p->hang_after = c->o->hang_after;
    p->on_hang = c->o->on_hang;
    p->on_straggler = c->o->on_straggler;
    if (choose_look_signal(c) < 0)
        return -1;
    for (size_t i = 0; p->no_look && i < sizeof useless / sizeof *useless; i++)
        if (dt_planning_ignore(c, useless[i], "--no-look is given") < 0)
            return -1;
    if (p->no_look) {
        p->hang_after = DT_FOREVER;
        p->look_signal = 0;
        p->on_straggler = DT_ON_STRAGGLER_OFF;
    }
    if (p->on_straggler == DT_ON_STRAGGLER_DRAIN && !dt_plan_is_elastic(p) &&
        dt_planning_ignore(c, "on-straggler", "no spare can come: the job is not elastic") < 0)
        return -1;
    if (p->hang_after == DT_FOREVER && !p->no_look)
        return dt_planning_ignore(c, "on-hang", "--hang-after is off");
    return 0;
}

int dt_planning_watching(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    const char *timers = dt_planning_env(c, "TORCHELASTIC_ENABLE_FILE_TIMER");
    p->watchdog = timers && strcmp(timers, "1") == 0;
    if (p->watchdog &&
        dt_planning_set(c, &p->watchdog_path, dt_planning_env(c, "TORCHELASTIC_TIMER_FILE")) < 0)
        return -1;
    if (dt_planning_set(c, &p->error_file, dt_planning_env(c, "TORCHELASTIC_ERROR_FILE")) < 0)
        return -1;
    p->preflight = c->o->preflight;
    if (p->preflight == DT_PREFLIGHT_AUTO)
        p->preflight = p->max_nodes > 1 ? DT_PREFLIGHT_FAST : DT_PREFLIGHT_OFF;
    return choose_health(c) < 0 || choose_looks(c) < 0 ? -1 : 0;
}
