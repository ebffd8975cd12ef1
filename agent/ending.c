/* SPDX-License-Identifier: Apache-2.0 */
/* How an agent ends: what it says, what it closes, and the status that it exits with. */
#include "agent/inside.h"
#include "base/clock.h"
#include "base/log.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static void on_backend_closed(void *arg)
{
    ((struct agent *)arg)->backend = NULL;
}

void agent_close_output(struct agent *a)
{
    if (a->output)
        dt_output_close(a->output, NULL, NULL);
    a->output = NULL;
}

/* Each handle keeps the loop going until it is closed; then dt_agent_run() goes on. Workers that
 * wait for a next world are ended first, and what they print is still shown. */
void agent_end(struct agent *a, int status)
{
    if (a->phase == AGENT_ENDING)
        return;
    a->status = status;
    const char *decided = a->signum                         ? "a signal ended the job"
                          : dt_closing_is_wish(&a->closing) ? "a person ended the job"
                                                            : "the job ended";
    dt_aftermath_note(&a->aftermath, NULL, status == 0 ? "the job succeeded" : decided, NULL);
    agent_enter(a, AGENT_ENDING);
    uv_close((uv_handle_t *)&a->tell, NULL);
    dt_own_addr_stop(&a->own_addr);
    dt_preflight_close(a->preflight);
    a->preflight = NULL;
    dt_progress_close(a->progress);
    a->progress = NULL;
    if (a->health)
        dt_health_close(a->health, NULL, NULL);
    agent_keep_safe(a);
    dt_tails_close(a->tails); /* they tell by the backend */
    a->tails = NULL;
    /* Where it hosts the rendezvous, others are to hear how the job ended. */
    if (a->backend)
        a->backend->ops->close(a->backend, status != 0 && !agent_is_elastic(a), on_backend_closed,
                               a);
    if (a->waits)
        dt_attempt_stop(a->attempt, SIGTERM);
    else
        agent_close_output(a);
}

/* Who started us may read it, and knows nothing else of why there is no failure of a worker. */
static void leave_own_error(const struct agent *a, const char *message)
{
    struct dt_err err;
    if (a->plan->error_file &&
        dt_failure_leave_own(message, dt_clock_wall_us() / 1000000, a->plan->error_file, &err) < 0)
        dt_warn("%s", err.text);
}

void agent_fail_with(struct agent *a, const struct dt_err *err, int status)
{
    dt_error("%s", err->text);
    leave_own_error(a, err->text);
    dt_events_agent(a->events, "FAILED", -1, NULL);
    agent_end(a, status);
}

void agent_leave(struct agent *a, const char *why)
{
    if (a->backend && a->backend->ops->leave)
        a->backend->ops->leave(a->backend, why);
}

void agent_fail(struct agent *a, const struct dt_err *err)
{
    agent_leave(a, err->text);
    agent_fail_with(a, err, 1);
}

/* The line that scripts look for is that of the exception in torchrun. */
void agent_end_by_signal(struct agent *a)
{
    char message[80], line[160];
    snprintf(message, sizeof message, "SignalException: Process %d got signal: %d", (int)getpid(),
             a->signum);
    snprintf(line, sizeof line, "torch.distributed.elastic.multiprocessing.api.%s\n", message);
    dt_log_plain(line);
    leave_own_error(a, message);
    dt_events_agent(a->events, "FAILED", -1, NULL);
    agent_end(a, a->plan->exit_policy == DT_EXIT_ROOT_CAUSE ? 128 + a->signum : 1);
}

/* The report is that of a failure here, whose last round nobody has followed by another. */
void agent_end_closed(struct agent *a)
{
    enum dt_close_kind kind = a->closing.kind;
    if (*a->aftermath.cause)
        dt_aftermath_note(&a->aftermath, a->aftermath.cause, "the job ended", &a->verdict);
    bool report = kind != DT_CLOSE_SUCCEEDED && kind != DT_CLOSE_STOPPED && a->verdict.count > 0;
    int own = dt_aftermath_deliver(&a->aftermath, &a->verdict, report);
    bool well = report || kind == DT_CLOSE_SUCCEEDED; /* the agent itself, as in torchrun */
    if (!well)
        leave_own_error(a, a->closing.text);
    dt_events_agent(a->events, well ? "SUCCEEDED" : "FAILED", -1, NULL);
    agent_end(a, dt_closing_status(kind, a->plan->exit_policy, own));
}
