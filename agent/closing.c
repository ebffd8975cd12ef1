/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/closing.h"

#include "base/log.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

/* root_cause: the exit status that --exit-code=root-cause gives it, whatever a worker's was; 0:
 * that of the worker, if one failed here. */
static const struct {
    const char *words;
    int root_cause;
} kinds[DT_CLOSE_KINDS] = {
    [DT_CLOSE_SUCCEEDED] = {"the job is done", 0},
    [DT_CLOSE_FAILED] = {"the job failed", 0},
    [DT_CLOSE_TIMEOUT] = {"the job ended, as too few nodes came", 75},
    [DT_CLOSE_NO_PROGRESS] = {"the job ended, as it would only fail again", 93},
    [DT_CLOSE_REFUSED] = {"this node cannot be in the job", 0},
    [DT_CLOSE_ENDED] = {"this node lost the rendezvous of its job", 0},
    [DT_CLOSE_STOPPED] = {"the job is over", 128 + SIGTERM}, /* as each of its agents had got it */
};

bool dt_closing_note(struct dt_closing *c, enum dt_close_kind kind, const char *why)
{
    if (c->come)
        return false;
    *c = (struct dt_closing){.come = true, .kind = kind};
    void (*const say)(const char *fmt, ...) = kind == DT_CLOSE_SUCCEEDED ? dt_info
                                              : kind == DT_CLOSE_STOPPED ? dt_warn
                                                                         : dt_error;
    snprintf(c->text, sizeof c->text, "%s%s%s", kinds[kind].words, *why ? ": " : "", why);
    say("%s", c->text);
    return true;
}

bool dt_closing_is_wish(const struct dt_closing *c)
{
    return c->come && c->kind == DT_CLOSE_STOPPED;
}

int dt_closing_status(enum dt_close_kind kind, enum dt_plan_exit policy, int own)
{
    if (kind == DT_CLOSE_SUCCEEDED)
        return 0;
    if (policy == DT_EXIT_TORCHRUN)
        return 1;
    if (kinds[kind].root_cause)
        return kinds[kind].root_cause;
    return own ? own : 1;
}
