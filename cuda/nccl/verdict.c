/* SPDX-License-Identifier: Apache-2.0 */
/* Causes stand in the order in which they explain each other: a dead process names its rank; an
 * error of our own is the news itself; the agent ends a world because of something it has told; a
 * remote error says that it was somebody; a timeout says nothing but that.
 *
 * A rank that has done its work ends as a dead one does, so an end counts only while something is
 * under way, or is being taken by NCCL, which connects ranks at their first calls, and does not end
 * by itself, SETTLE later, or once the agent says so. Connections
 * break before the process can be seen to have ended, which for one with a GPU takes a while, so an
 * error is believed GRACE later. One that a call met counts as well, though its caller knows it: he
 * may be waiting for the device by then, where kernels of earlier calls still wait for their peers.
 */
#include "cuda/nccl/verdict.h"

#include "cuda/nccl/hints.h"

#define SETTLE ((dt_ms)100)
#define GRACE ((dt_ms)500)

/* What F says of one cause. */
typedef enum dt_comm_verdict cause_fn(const struct dt_comm_facts *f, struct dt_err *why);

static bool may_yet_end(const struct dt_comm_facts *f)
{
    return !f->connecting && f->waited < SETTLE && f->busy < SETTLE && !f->round_over;
}

static enum dt_comm_verdict a_rank_ended(const struct dt_comm_facts *f, struct dt_err *why)
{
    if (f->gone_pid == 0 || (!f->connecting && !f->under_way && f->busy == 0))
        return DT_COMM_VERDICT_FINE;
    if (may_yet_end(f))
        return DT_COMM_VERDICT_SOON;
    if (f->connecting)
        dt_err_set(why, DT_E_DISCONNECTED,
                   "rank %d (pid %d on this host) ended while group %s was being made", f->gone,
                   f->gone_pid, f->group);
    else if (f->under_way)
        dt_err_set(why, DT_E_DISCONNECTED,
                   "rank %d (pid %d on this host) ended while %s of group %s was under way",
                   f->gone, f->gone_pid, f->call, f->group);
    else
        dt_err_set(why, DT_E_DISCONNECTED,
                   "rank %d (pid %d on this host) ended while group %s started a collective",
                   f->gone, f->gone_pid, f->group);
    return DT_COMM_VERDICT_LOST;
}

static bool met_error(const struct dt_comm_facts *f, bool remote)
{
    if (f->failed)
        return (f->failed->code == DT_E_DISCONNECTED) == remote;
    return f->error != ncclSuccess && dt_nccl_is_remote(f->error) == remote;
}

static enum dt_comm_verdict an_error(const struct dt_comm_facts *f, bool remote,
                                     enum dt_err_code code, struct dt_err *why)
{
    if (!met_error(f, remote))
        return DT_COMM_VERDICT_FINE;
    if (f->error_age < GRACE)
        return DT_COMM_VERDICT_SOON;
    if (f->failed)
        dt_err_set(why, f->failed->code, "group %s: %s", f->group, f->failed->text);
    else
        dt_err_set(why, code, "group %s: %s", f->group, f->error_is);
    return DT_COMM_VERDICT_LOST;
}

static enum dt_comm_verdict own_error(const struct dt_comm_facts *f, struct dt_err *why)
{
    return an_error(f, false, DT_E_RUNTIME, why);
}

static enum dt_comm_verdict remote_error(const struct dt_comm_facts *f, struct dt_err *why)
{
    return an_error(f, true, DT_E_DISCONNECTED, why);
}

static enum dt_comm_verdict agent_said(const struct dt_comm_facts *f, struct dt_err *why)
{
    if (!f->round_over)
        return DT_COMM_VERDICT_FINE;
    dt_err_set(why, DT_E_CANCELED,
               "the agent has ended this world: a worker elsewhere failed, or the job changes its "
               "size");
    return DT_COMM_VERDICT_LOST;
}

static enum dt_comm_verdict took_too_long(const struct dt_comm_facts *f, struct dt_err *why)
{
    if (!f->under_way || f->waited < f->timeout)
        return DT_COMM_VERDICT_FINE;
    dt_err_set(why, DT_E_TIMEOUT,
               "%s of group %s has not ended in %g s: a rank has not come to it, or cannot be "
               "reached; see which rank's log stands still, or run with NCCL_DEBUG=INFO",
               f->call, f->group, (double)f->timeout / 1e3);
    return DT_COMM_VERDICT_LOST;
}

/* Who calls sees that first where NCCL lets it look at the clock; GRACE keeps this from being said
 * in its place. */
static enum dt_comm_verdict is_stuck(const struct dt_comm_facts *f, struct dt_err *why)
{
    if (f->busy == 0 || f->busy - GRACE < f->timeout)
        return DT_COMM_VERDICT_FINE;
    dt_err_set(why, DT_E_TIMEOUT,
               "NCCL has not %s group %s in %g s: a rank has not come to it, or cannot be reached; "
               "see which rank's log stands still, or run with NCCL_DEBUG=INFO",
               f->connecting ? "connected" : "taken a call of", f->group, (double)f->timeout / 1e3);
    return DT_COMM_VERDICT_LOST;
}

static cause_fn *const causes[] = {a_rank_ended, own_error,     agent_said,
                                   remote_error, took_too_long, is_stuck};

enum dt_comm_verdict dt_comm_verdict(const struct dt_comm_facts *facts, int n, struct dt_err *why)
{
    enum dt_comm_verdict all = DT_COMM_VERDICT_FINE;
    for (size_t c = 0; c < sizeof causes / sizeof *causes; c++)
        for (int i = 0; i < n; i++) {
            enum dt_comm_verdict v = causes[c](&facts[i], why);
            if (v == DT_COMM_VERDICT_LOST)
                return v;
            if (v == DT_COMM_VERDICT_SOON)
                all = v;
        }
    return all;
}
