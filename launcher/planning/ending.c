/* SPDX-License-Identifier: Apache-2.0 */
/* How the job ends: by signals, by failure, and how long it may take. */
#include "launcher/planning/inside.h"

#include "launcher/number.h"
#include "base/signame.h"
#include "launcher/words.h"

/* What OPTION gave, else the VARIABLE, else FALLBACK. */
static int read_timeout(struct dt_planning *c, const char *option, dt_ms given,
                        const char *variable, dt_ms fallback, dt_ms *out)
{
    const char *text = dt_facts_env(c->facts, variable);
    int64_t n;
    if (dt_launch_options_gave(c->o, option)) {
        *out = given;
        return *out >= 0
                   ? 0
                   : dt_planning_fail(c, option, "the time is negative; give seconds from 0 on");
    }
    *out = fallback;
    if (!text)
        return 0;
    if (dt_number_int(text, &n, NULL) < 0 || n < 0 || n > DT_FOREVER / DT_SECOND)
        return dt_err_set(c->err, DT_E_RUNTIME, "%s: \"%s\" is not whole seconds from 0 on",
                          variable, text);
    *out = n * DT_SECOND;
    return 0;
}

static int read_timeouts(struct dt_planning *c)
{
    if (read_timeout(c, "shutdown-timeout", c->o->shutdown_timeout,
                     "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", 30 * DT_SECOND,
                     &c->plan->shutdown_timeout) < 0)
        return -1;
    return read_timeout(c, "exit-barrier-timeout", c->o->exit_barrier_timeout,
                        "TORCH_ELASTIC_EXIT_BARRIER_TIMEOUT", 300 * DT_SECOND,
                        &c->plan->barrier_timeout);
}

/* A name that torchrun does not know costs it a warning, and us no more. */
static int read_stop_signals(struct dt_planning *c)
{
    const char *at = c->o->signals_to_handle, *name;
    char written[64];
    size_t len;
    dt_opt_written(c->o->program, &c->o->result, "signals-to-handle", written, sizeof written);
    while (dt_signame_next(&at, &name, &len)) {
        int number = dt_signame_number(name, len);
        if (dt_signame_catchable(number))
            c->plan->stop_signals |= UINT64_C(1) << number;
        else if (dt_words_push(c->warnings, c->err,
                               "%s: \"%.*s\" is left out, as it is no signal that can be handled",
                               written, (int)len, name) < 0)
            return -1;
    }
    return 0;
}

static int choose_signals(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    if (read_stop_signals(c) < 0)
        return -1;
    p->forward_signals = c->o->forward_signals;
    uint64_t both = p->stop_signals & p->forward_signals;
    if (both && dt_launch_options_gave(c->o, "signals-to-handle")) {
        struct dt_buf names = {0};
        dt_signame_list(both, &names);
        dt_planning_fail(
            c, "forward-signals",
            "%s cannot both end the job, as --signals-to-handle says, and be passed on "
            "alone; drop one of the two",
            dt_buf_cstr(&names));
        c->err->code = DT_E_USAGE; /* of an option that is ours */
        dt_buf_finish(&names);
        return -1;
    }
    p->stop_signals &= ~p->forward_signals;
    return 0;
}

int dt_planning_ending(struct dt_planning *c)
{
    struct dt_plan *p = c->plan;
    if (c->o->run.max_restarts < 0)
        return dt_planning_fail(c, "max-restarts", "%d is negative; give 0 for none",
                                c->o->run.max_restarts);
    if (!(c->o->monitor_interval > 0)) /* also what is no number */
        return dt_planning_fail(c, "monitor-interval", "%g is not above 0; leave it out",
                                c->o->monitor_interval);
    if (read_timeouts(c) < 0 || choose_signals(c) < 0)
        return -1;
    p->max_restarts = c->o->run.max_restarts;
    p->retry_deterministic = c->o->run.retry_deterministic;
    p->keep_workers = !c->o->end_workers;
    p->stop_leaders_first = c->o->stop_leaders_first;
    p->exit_policy = c->o->exit_code;
    return dt_planning_needless(c, "monitor-interval", "the end of a worker is noticed at once");
}
