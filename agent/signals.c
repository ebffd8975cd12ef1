/* SPDX-License-Identifier: Apache-2.0 */
/* What a signal to dtrun means for its job. */
#include "agent/inside.h"

#include "agent/agent.h"
#include "base/log.h"
#include "base/signame.h"
#include "base/str.h"

#include <signal.h>
#include <stdio.h>

#define LOOK_TWICE (2 * DT_SECOND) /* a signal that comes again so soon is no wish for a look */

/* Who ends a job that saves its last step may be the first to ask: the job failed of itself. */
static void limit_rescue(struct agent *a, int signum)
{
    if (!a->signum)
        a->signum = signum;
    dt_rescue_limit(a->rescue, signum == SIGINT ? 0 : a->plan->shutdown_timeout);
}

/* Asked twice by hand means now. Not so for SIGTERM: schedulers send it to every process of a job,
 * and their launchers pass it on once more. */
static void stop_again(struct agent *a, int signum)
{
    if (a->phase == AGENT_ENDING && a->uploads && !a->rescue)
        dt_uploads_limit(a->uploads, signum == SIGINT ? 0 : a->plan->shutdown_timeout);
    if (a->rescue)
        limit_rescue(a, signum);
    if (signum != SIGINT)
        return;
    if (a->phase == AGENT_ENDING && a->backend)
        a->backend->ops->close(a->backend, true, NULL, NULL); /* it may linger for other nodes */
    if (a->attempt)
        dt_attempt_kill(a->attempt);
}

/* Only a second SIGINT ends the wait, so nobody else is told of it. */
static void say_how_long(const struct agent *a)
{
    char grace[32];
    dt_str_from_duration(a->plan->shutdown_timeout, grace, sizeof grace);
    dt_warn("waiting up to %s for the workers to end; Ctrl-C again kills them", grace);
}

static void stop_by_signal(struct agent *a, int signum)
{
    if (a->signum || a->phase == AGENT_ENDING) {
        stop_again(a, signum);
        return;
    }
    char name[DT_SIGNAME_TEXT], why[64];
    a->signum = signum;
    snprintf(why, sizeof why, "it got %s", dt_signame_text(signum, name));
    agent_leave(a, why);
    dt_warn("Received %d death signal, shutting down workers", signum);
    if (a->attempt && signum == SIGINT)
        say_how_long(a);
    if (a->attempt)
        dt_attempt_stop(a->attempt, signum);
    else
        agent_end_by_signal(a);
}

/* Where a round was, the rendezvous may be about to say what became of it. */
static void hear_of_loss(struct agent *a)
{
    if (a->phase == AGENT_ENDING || a->signum)
        return;
    if (!a->lost)
        a->lost = dt_clock_monotonic();
    if (a->world.size == 0 || !a->backend->ops->tell)
        agent_lose(a);
}

/* Ctrl-Z reaches nobody but us: workers are in sessions of their own. The other nodes of an elastic
 * job give up one that is stopped for long, and it joins again when it goes on. */
static void pause_job(struct agent *a)
{
    dt_ms began = dt_clock_monotonic();
    dt_warn("SIGTSTP stops this dtrun and its workers; fg or SIGCONT lets them go on");
    if (a->attempt)
        dt_attempt_pause(a->attempt);
    dt_sigwatch_stop_process();
    if (a->attempt)
        dt_attempt_resume(a->attempt, dt_clock_monotonic() - began);
}

/* Whoever presses Ctrl-\ wants to know what the job does, and who presses it twice wants it to end.
 */
static bool is_for_look(struct agent *a, int signum)
{
    dt_ms before = a->looked;
    if (signum != a->plan->look_signal)
        return false;
    a->looked = dt_clock_monotonic();
    return !before || a->looked - before >= LOOK_TWICE || !(a->plan->stop_signals >> signum & 1);
}

static void print_look(struct agent *a, int signum)
{
    char line[128], name[DT_SIGNAME_TEXT];
    bool ends = a->plan->stop_signals >> signum & 1;
    snprintf(line, sizeof line, "this node is %s%s%s%s\n", agent_phase_name(a->phase),
             ends ? "; " : "", ends ? dt_signame_text(signum, name) : "",
             ends ? " again within 2 s ends the job" : "");
    dt_log_plain(line);
    if (agent_hang(a))
        dt_hang_print_look(agent_hang(a));
}

void agent_on_signal(void *arg, int signum)
{
    struct agent *a = arg;
    if (is_for_look(a, signum))
        print_look(a, signum);
    else if (a->plan->stop_signals >> signum & 1)
        stop_by_signal(a, signum);
    else if (signum == SIGWINCH && a->output)
        dt_output_resize(a->output);
    else if (signum == SIGTSTP && !(a->plan->forward_signals >> signum & 1))
        pause_job(a);
    else if (signum == DT_AGENT_JOB_LOST && !(a->plan->forward_signals >> signum & 1))
        hear_of_loss(a);
    else if (signum != SIGWINCH && a->attempt)
        dt_attempt_forward(a->attempt, signum);
}
