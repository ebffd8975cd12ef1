/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a node, its agent and its workers. */
#include "tests/lib/sim/node_parts.h"

static void die(struct sim_node *n)
{
    n->agent_up = false;
    n->ill_until = DT_FOREVER;
    n->paused_until = 0;
    n->state = SIM_NO_WORKERS;
    sim_disturb(n->sim, n->sim->now);
}

void sim_node_kill(struct sim *s, struct sim_node *n)
{
    if (!n->agent_up)
        return;
    sim_say(s, n->name, "its agent is killed, and its workers with it");
    if (n->conn != SIM_NO_CONN)
        sim_net_close(s, n->conn, SIM_UP);
    die(n);
}

void sim_node_lose_host(struct sim *s, struct sim_node *n)
{
    if (!n->host_up)
        return;
    sim_say(s, n->name, "the host is gone");
    if (n->conn != SIM_NO_CONN)
        sim_net_conn(s, n->conn)->open[SIM_UP] = false;
    n->host_up = false;
    die(n);
}

void sim_node_boot(struct sim *s, struct sim_node *n)
{
    if (n->host_up)
        return;
    sim_say(s, n->name, "the host is back");
    n->host_up = true;
    n->boots++;
    n->skew = DT_SECOND - s->now;
}

void sim_node_pause(struct sim *s, struct sim_node *n, dt_ms until)
{
    if (!n->agent_up || n->paused_until > s->now)
        return; /* what waits for the end of the first would be overtaken */
    sim_say(s, n->name, "its agent is stopped for %.1f s", (double)(until - s->now) / DT_SECOND);
    n->paused_until = until;
    if (n->ill_until < until)
        n->ill_until = until;
    sim_disturb(s, until);
}

void sim_node_jump(struct sim *s, struct sim_node *n, dt_ms by)
{
    sim_say(s, n->name, "its clock leaps ahead by %.1f s", (double)by / DT_SECOND);
    n->skew += by;
    if (n->ill_until < s->now)
        n->ill_until = s->now;
    sim_node_settle(n);
    sim_disturb(s, s->now);
}

static void on_failure(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    if (!n || (n->state != SIM_STARTING && n->state != SIM_TRAINING))
        return;
    static const char *const texts[DT_EVIDENCES] = {
        [DT_EVIDENCE_PROGRAM] = "rank 0 (local rank 0) exited with status 1",
        [DT_EVIDENCE_CRASH] = "rank 0 (local rank 0) died of SIGSEGV",
        [DT_EVIDENCE_OFFLINE] = "rank 0 (local rank 0) went silent",
        [DT_EVIDENCE_PREEMPTED] = "rank 0 (local rank 0) was asked to go",
        [DT_EVIDENCE_HARDWARE] = "rank 0 (local rank 0) lost its GPU"};
    enum dt_evidence evidence = (enum dt_evidence)(ev->what & 0xff);
    struct dt_result result = {.evidence = evidence,
                               .rank = n->session.claim.first_rank,
                               .signal = evidence == DT_EVIDENCE_CRASH ? 11 : 0,
                               .exit_code = evidence == DT_EVIDENCE_CRASH ? 0 : 1,
                               .signature = ev->what >> 8 ? "everywhere" : "",
                               .text = texts[evidence]};
    sim_say(s, n->name, "a worker fails (%s)", dt_evidence_name(evidence));
    s->judge.worker_failures++;
    n->may_save = false;
    sim_node_end_workers(n, false);
    dt_session_failed(&n->session, &result, sim_node_clock(n));
    sim_node_settle(n);
    sim_disturb(s, s->now);
}

void sim_node_fail(struct sim *s, struct sim_node *n, enum dt_evidence evidence, int cause)
{
    (void)s;
    sim_node_plan(n, 0, on_failure, (uint32_t)evidence | (uint32_t)cause << 8);
}

static void on_leave(struct sim *s, struct sim_event *ev)
{
    struct sim_node *n = sim_node_of(s, ev);
    if (!n || n->leaving || n->closed)
        return;
    sim_say(s, n->name, "is asked to go");
    n->leaving = true;
    n->left_at = s->now;
    n->left = n->greeted && sim_judge_is_well(s, n) ? n->conn : SIM_NO_CONN;
    n->ill_until = DT_FOREVER;
    dt_session_leave(&n->session, "it was asked to go", sim_node_clock(n));
    if (n->state != SIM_ENDING) { /* else they have their time already */
        /* Where nobody is there who could tell, whoever ends the whole job is believed. */
        n->may_save = n->session.up;
        sim_node_end_workers(n, false);
    }
    sim_disturb(s, s->now);
}

void sim_node_leave(struct sim *s, struct sim_node *n)
{
    (void)s;
    sim_node_plan(n, 0, on_leave, 0);
}

void sim_node_lose_connection(struct sim *s, struct sim_node *n)
{
    if (n->conn == SIM_NO_CONN)
        return;
    sim_say(s, n->name, "its connection goes, and nobody hears of it");
    sim_net_conn(s, n->conn)->dead = true;
    n->ill_until = DT_FOREVER;
    sim_disturb(s, s->now);
}

void sim_node_block(struct sim *s, struct sim_node *n, enum sim_way way, dt_ms until)
{
    sim_say(s, n->name, "nothing gets %s it for %.1f s", way == SIM_UP ? "from" : "to",
            (double)(until - s->now) / DT_SECOND);
    if (n->blocked_until[way] < until)
        n->blocked_until[way] = until;
    if (n->ill_until < until)
        n->ill_until = until;
    sim_disturb(s, until);
}
