/* SPDX-License-Identifier: Apache-2.0 */
/* What is sent, and above all worlds: each against the one before and against the truth. */
#include "tests/lib/sim/judge_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sim_judge_knows_round(const struct sim *s, int round)
{
    const struct sim_world *w = &s->judge.now;
    return w->there && w->memory == s->server.memory && w->round == round;
}

/* -- a round begins --------------------------------------------------------------------------- */

static void check_size(struct sim *s, const struct sim_world *w)
{
    const struct dt_run_spec *spec = &s->story.spec;
    int most = spec->fixed_world ? spec->min_nodes : spec->max_nodes;
    if (w->seats_len < spec->min_nodes || w->seats_len > most)
        sim_judge_fail(s, SIM_RULE_SIZE, "round %d has %d nodes, of %d:%d%s", w->round,
                       w->seats_len, spec->min_nodes, spec->max_nodes,
                       spec->fixed_world ? ", fixed" : "");
}

/* Who paid for the end of the last round. A failure beside the loss of a node may be either's. */
static void check_charges(struct sim *s)
{
    struct sim_judge *j = &s->judge;
    const struct dt_run_spec *spec = &s->story.spec;
    if (!j->last.there || j->last.memory != j->now.memory || !s->server.run)
        return;
    int grown = j->now.restarts - j->last.restarts;
    bool failed = j->last.cause == SIM_CAUSE_FAILED, lost = j->last.lost;
    if (grown < 0 || grown > 1 || (grown == 1 && !failed && j->last.cause != SIM_CAUSE_NONE))
        sim_judge_fail(s, SIM_RULE_BUDGET, "the restart count went from %d to %d", j->last.restarts,
                       j->now.restarts);
    if (failed && !lost && grown != 1)
        sim_judge_fail(s, SIM_RULE_BUDGET, "the failure that ended round %d was not charged",
                       j->last.round);
    j->charged += failed && !lost;
    j->lost += j->last.cause == SIM_CAUSE_GONE || j->last.cause == SIM_CAUSE_BROKEN ||
               j->last.cause == SIM_CAUSE_DRAINED;
    if (j->charged > spec->max_restarts && spec->restart_reset == 0)
        sim_judge_fail(s, SIM_RULE_BUDGET, "%d failures, of at most %d, and round %d begins",
                       j->charged, spec->max_restarts, j->now.round);
    if (spec->max_node_losses >= 0 && j->lost > spec->max_node_losses)
        sim_judge_fail(s, SIM_RULE_BUDGET, "%d losses, of at most %d, and round %d begins", j->lost,
                       spec->max_node_losses, j->now.round);
}

static void begin_round(struct sim *s, const struct dt_message *m)
{
    struct sim_judge *j = &s->judge;
    if (j->now.there && j->now.memory == s->server.memory) {
        if (m->round < j->now.round)
            sim_judge_fail(s, SIM_RULE_OVERLAP, "a world of round %d after one of round %d",
                           m->round, j->now.round);
        if (j->now.told < j->now.seats_len && j->now.life == s->server.life)
            sim_judge_fail(s, SIM_RULE_RANKS, "round %d: only %d of %d nodes were told",
                           j->now.round, j->now.told, j->now.seats_len);
    }
    free(j->last.seats);
    j->last = j->now;
    j->now = (struct sim_world){.there = true,
                                .memory = s->server.memory,
                                .round = m->round,
                                .seats_len = m->world.seats,
                                .size = m->world.size,
                                .restarts = m->world.restarts,
                                .began = s->now,
                                .life = j->made_round == m->round ? j->made_life : 0,
                                .seats = calloc((size_t)m->world.seats, sizeof *j->now.seats)};
    if (!j->now.seats)
        abort();
    snprintf(j->now.master, sizeof j->now.master, "%s:%d", m->world.master_addr,
             m->world.master_port);
    /* Each end of a quarantine may begin one. */
    bool pardon = s->story.spec.strikes > 0 && j->last.cause == SIM_CAUSE_GROWTH;
    if (s->now > s->calm_from && !pardon)
        j->rounds_in_calm++;
    if (m->world.restarts > j->worker_failures)
        sim_judge_fail(s, SIM_RULE_BUDGET, "%d restarts were charged for %d failures",
                       m->world.restarts, j->worker_failures);
    check_size(s, &j->now);
    check_charges(s);
}

/* -- all nodes of it were told ---------------------------------------------------------------- */

enum { ROLES = 4 };

static void check_ranks(struct sim *s, const struct sim_world *w)
{
    struct {
        const char *name;
        int size, told;
    } roles[ROLES] = {{0}};
    int rank = 0;
    for (int i = 0; i < w->seats_len; i++) {
        const struct sim_seat *seat = &w->seats[i];
        const struct sim_node *n = sim_node_by_incarnation(s, seat->holder);
        int role = 0;
        while (roles[role].name && strcmp(roles[role].name, n->role) != 0)
            role++;
        if (seat->first_rank != rank || seat->first_role_rank != roles[role].size ||
            (roles[role].name && roles[role].told != seat->role_size))
            sim_judge_fail(s, SIM_RULE_RANKS,
                           "round %d, seat %d (%s): first ranks are %d and %d, not %d and %d",
                           w->round, i, n->name, seat->first_rank, seat->first_role_rank, rank,
                           roles[role].size);
        roles[role].name = n->role;
        roles[role].told = seat->role_size;
        roles[role].size += n->workers;
        rank += n->workers;
    }
    if (rank != w->size)
        sim_judge_fail(s, SIM_RULE_RANKS, "round %d has %d workers, and was told %d", w->round,
                       rank, w->size);
    for (int i = 0; i < ROLES; i++)
        if (roles[i].size != roles[i].told)
            sim_judge_fail(s, SIM_RULE_RANKS, "round %d has %d workers with role %s, was told %d",
                           w->round, roles[i].size, roles[i].name, roles[i].told);
}

static void check_survivors(struct sim *s, const struct sim_world *was, const struct sim_world *is)
{
    if (!was->there || was->memory != is->memory || s->story.spec.torchrun_ranks)
        return;
    if (s->judge.made_before != was->round)
        return; /* one between that nobody heard of had its reasons */
    for (int i = 0; i < was->seats_len; i++) {
        const struct sim_node *n = sim_node_by_incarnation(s, was->seats[i].holder);
        if (!n || was->seats[i].gone || n->world_as != was->seats[i].holder ||
            n->world_round != is->round)
            continue;
        if (n->world_seat != i && i < is->seats_len)
            sim_judge_fail(s, SIM_RULE_SURVIVORS, "%s moved from seat %d to %d, of %d and then %d",
                           n->name, i, n->world_seat, was->seats_len, is->seats_len);
    }
}

/* -- messages --------------------------------------------------------------------------------- */

/* What all nodes of a round are told alike. */
static void check_alike(struct sim *s, const struct sim_world *w, const struct dt_world_message *m)
{
    char master[sizeof w->master];
    snprintf(master, sizeof master, "%s:%d", m->master_addr, m->master_port);
    if (m->restarts != w->restarts)
        sim_judge_fail(s, SIM_RULE_RESTARTS, "round %d: restart counts %d and %d", w->round,
                       w->restarts, m->restarts);
    if (m->seats != w->seats_len || m->size != w->size || strcmp(master, w->master) != 0)
        sim_judge_fail(s, SIM_RULE_SIZE,
                       "round %d: %d nodes with %d workers at %s, and %d with %d at %s", w->round,
                       w->seats_len, w->size, w->master, m->seats, m->size, master);
}

static void take_seat(struct sim *s, struct sim_node *n, const struct dt_message *m)
{
    struct sim_world *w = &s->judge.now;
    struct sim_seat *seat = &w->seats[m->world.seat];
    if (seat->holder && seat->holder != m->incarnation)
        sim_judge_fail(s, SIM_RULE_SEAT, "round %d: seat %d is of two nodes, %s is one", m->round,
                       m->world.seat, n->name);
    if (n->world_as == m->incarnation && n->world_round == m->round &&
        n->world_memory == w->memory && n->world_seat != m->world.seat)
        sim_judge_fail(s, SIM_RULE_SEAT, "round %d: %s has seats %d and %d", m->round, n->name,
                       n->world_seat, m->world.seat);
    n->world_as = m->incarnation;
    n->world_memory = w->memory;
    n->world_round = m->round;
    n->world_seat = m->world.seat;
    if (seat->holder)
        return; /* said again */
    bool still = n->member == m->incarnation && s->judge.made_round == m->round &&
                 n->member_since <= s->judge.made_at;
    *seat = (struct sim_seat){.holder = m->incarnation,
                              .gone = !still,
                              .first_rank = m->world.first_rank,
                              .first_role_rank = m->world.first_role_rank,
                              .role_size = m->world.role_size};
    if (++w->told < w->seats_len || s->judge.failed)
        return;
    check_ranks(s, w);
    check_survivors(s, &s->judge.last, w);
}

static void see_world(struct sim *s, const struct dt_message *m)
{
    struct sim_node *n = sim_node_by_incarnation(s, m->incarnation);
    if (!sim_judge_knows_round(s, m->round))
        begin_round(s, m);
    check_alike(s, &s->judge.now, &m->world);
    if (!n || m->world.seat < 0 || m->world.seat >= s->judge.now.seats_len)
        sim_judge_fail(s, SIM_RULE_SEAT, "round %d has no seat %d, or nobody in it", m->round,
                       m->world.seat);
    else
        take_seat(s, n, m);
}

static void fence(struct sim *s)
{
    struct sim_world *w = &s->judge.now;
    if (w->fenced)
        return;
    w->fenced = true;
    w->cause = s->judge.causes[w->round % SIM_CAUSES_KEPT];
}

void sim_judge_sent(struct sim *s, const struct dt_message *m)
{
    bool now = sim_judge_knows_round(s, m->round);
    switch (m->type) {
    case DT_MSG_WORLD:
        see_world(s, m);
        break;
    case DT_MSG_STOP:
        if (now)
            fence(s);
        break;
    case DT_MSG_CLOSE:
        if (m->close.kind != DT_CLOSE_REFUSED && s->judge.now.there)
            fence(s);
        break;
    default:
        break;
    }
}
