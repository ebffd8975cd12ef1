/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"

#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

#define NAMED_ONE_BY_ONE 32
#define REFUSALS_APART (30 * DT_SECOND)
#define ROUND_MOST (1 << 30) /* that anybody may speak of: ours count on from there */

static void send_stale(struct dt_rdzv *r, struct dt_rdzv_actions *out, uint64_t to, int round)
{
    char why[DT_WHY_MAX];
    if (round < r->round)
        snprintf(why, sizeof why,
                 "round %d went on without this node; the job is at round %d, it may join that",
                 round, r->round);
    else /* the server has lost its memory, and numbers begin anew */
        snprintf(why, sizeof why,
                 "the rendezvous was restarted and does not know round %d of this node; other "
                 "nodes run the job now, it may join them",
                 round);
    rdzv_send(out, to, DT_MSG_STALE, r->round, rdzv_text(out, why));
}

/* To the node that says JOIN. */
static void send_close(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                       const struct dt_message *join, enum dt_close_kind kind, const char *why)
{
    struct dt_rdzv_action *a =
        rdzv_send(out, join->incarnation, DT_MSG_CLOSE, r->round, rdzv_text(out, why));
    if (a)
        a->close.kind = rdzv_close_kind(kind, join->join.node.tails);
}

/* Two jobs of one name are two people's mistake, and one of the two is told already. A stranger who
 * comes again and again must not fill their terminals. */
static void tell_of_refusal(struct dt_rdzv *r, struct dt_rdzv_actions *out, const char *why)
{
    char text[DT_WHY_MAX];
    if (r->now < r->next_refusal_told)
        return;
    r->next_refusal_told = r->now + REFUSALS_APART;
    snprintf(text, sizeof text, "the rendezvous refused a node: %.*s", DT_WHY_MAX - 40, why);
    size_t at = rdzv_text(out, text);
    dt_list_each(&r->members.all, n)
    {
        rdzv_send(out, dt_container_of(n, struct dt_member, in_all)->id, DT_MSG_NOTE, r->round, at);
    }
}

static void refuse(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *f,
                   const char *why)
{
    rdzv_tell(r, out, DT_EVENT_NODE_REFUSED, f->join.node.name, "refused: %s", why);
    send_close(r, out, f, DT_CLOSE_REFUSED, why);
    tell_of_refusal(r, out, why);
}

/* Whether F's node may be in the run; else it is told why not. */
static bool fits(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *f)
{
    char why[DT_WHY_MAX];
    if (rdzv_fits(r, f, why))
        return true;
    refuse(r, out, f, why);
    return false;
}

/* -- newcomers -------------------------------------------------------------------------------- */

static void adopt_spec(struct dt_rdzv *r, const struct dt_message *f)
{
    r->spec = f->join.spec;
    snprintf(r->key, sizeof r->key, "%s", f->key ?: "");
    r->begun = true;
    rdzv_enter(r, DT_RUN_GATHERING); /* its time counts from here */
}

/* A number below tells that there was another job of that name before. */
static void begin(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *f)
{
    const struct dt_run_spec *spec = &f->join.spec;
    char owner[RDZV_OWNER_MAX] = "";
    adopt_spec(r, f);
    r->beginning.wall_us = r->wall_us;
    snprintf(r->beginning.node, sizeof r->beginning.node, "%s", f->join.node.name);
    if (*spec->script)
        rdzv_owner(spec, owner);
    rdzv_tell(r, out, DT_EVENT_RUN_BEGAN, NULL, "begins%s%s%s", r->round > 0 ? " anew" : "",
              *owner ? ": " : "", owner);
}

static struct dt_member *add_member(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                                    const struct dt_message *f)
{
    struct dt_member *m = dt_members_add(&r->members, f->incarnation, &f->join.node, r->now);
    if (!m) {
        send_close(r, out, f, DT_CLOSE_REFUSED, "the rendezvous has no memory for another node");
        return NULL;
    }
    m->command = f->join.spec.command;
    if (m->expected > r->expected)
        r->expected = m->expected;
    rdzv_note_differences(r, out, m, &f->join.spec);
    return m;
}

/* A node was in a round that a server which lost its journal, or the end of it, knows nothing of:
 * the next round's number must be news to it. */
static void learn_round(struct dt_rdzv *r, const struct dt_message *f)
{
    if (f->round >= r->floor)
        r->floor = f->round + 1;
    if (r->state == DT_RUN_GATHERING && r->round < r->floor)
        r->round = r->floor;
}

/* The same of restarts that it was charged for. */
static void learn_restarts(struct dt_rdzv *r, const struct dt_message *f)
{
    if (r->had_world)
        return;
    if (f->join.claim.restarts > r->budget.restarts)
        r->budget.restarts = r->budget.spent = f->join.claim.restarts;
}

/* The next job of that name. Rounds count on, so that what is left of the last one is known for
 * what it is. Journalled, or after a restart its nodes would be told how the last one ended. */
static void begin_again(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    rdzv_journal(out);
    rdzv_wipe(r);
    r->round++;
}

/* That the name was used a moment ago may be what is wanted, or an agent that somebody started once
 * too often: only a person can tell, so it is said at once. Empty: nothing of the kind. */
static void describe_last_job(const struct dt_rdzv *r, const struct dt_message *f, char *out,
                              size_t size)
{
    char ago[32];
    int needed = f->join.spec.min_nodes;
    *out = '\0';
    if (r->state == DT_RUN_CLOSED && r->had_world)
        snprintf(out, size,
                 "run \"%.80s\" ended %s ago (%.120s); this node begins the next job of that name, "
                 "and needs %d node%s for it",
                 r->id, dt_str_from_duration(r->now - r->since, ago, sizeof ago), r->closed.why,
                 needed, needed == 1 ? "" : "s");
}

/* Of a crowd not each is worth a line. */
static void say_came(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_member *m)
{
    size_t count = r->members.count;
    if (count <= NAMED_ONE_BY_ONE || count % 100 == 0 || count == (size_t)r->spec.min_nodes ||
        count == (size_t)r->spec.max_nodes)
        rdzv_tell(r, out, DT_EVENT_NODE_JOINED, m->name.text, "%s (%s) came: %zu of %d:%d nodes",
                  m->name.text, m->addr, count, r->spec.min_nodes, r->spec.max_nodes);
}

/* Whether the job was ended by force and is begun anew with another size: the connections of all
 * its agents have just closed, and the host of one of them has a new one. */
static bool replaces_job(const struct dt_rdzv *r, const struct dt_message *f)
{
    const struct dt_run_spec *spec = &f->join.spec;
    return r->begun &&
           (spec->min_nodes != r->spec.min_nodes || spec->max_nodes != r->spec.max_nodes) &&
           r->members.connected == 0 && dt_list_empty(&r->members.restored) &&
           !dt_rdzv_recovery(r)->until && !f->join.claim.again &&
           dt_members_find_forerunner(&r->members, &f->join.node);
}

static void newcomer(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *f)
{
    bool empty = r->begun && r->members.count == 0 && !f->join.claim.again;
    if (empty || replaces_job(r, f))
        begin_again(r, out); /* nobody is left of the last job, so this is the next */
    if (!fits(r, out, f))
        return;
    if (!r->begun)
        begin(r, out, f);
    struct dt_member *old = dt_members_find_forerunner(&r->members, &f->join.node);
    if (old)
        rdzv_gone(r, out, old, DT_EVIDENCE_OFFLINE, "was started anew");
    if (r->state == DT_RUN_CLOSED) { /* for the loss of its forerunner */
        send_close(r, out, f, r->closed.kind, r->closed.why);
        return;
    }
    struct dt_member *m = add_member(r, out, f);
    if (!m)
        return;
    learn_round(r, f);
    learn_restarts(r, f);
    say_came(r, out, m);
    if (r->state == DT_RUN_RUNNING) {
        r->running.grow_at = 0; /* look anew */
        rdzv_grow(r, out);
        if (r->state == DT_RUN_RUNNING)
            rdzv_park(r, out, m);
    }
}

/* -- who comes back --------------------------------------------------------------------------- */

dt_ms rdzv_patience(const struct dt_rdzv *r)
{
    return r->spec.beat * r->spec.beats + r->spec.reconnect_grace;
}

void rdzv_await_seats(struct dt_rdzv *r)
{
    r->running.recovery =
        (struct dt_recovery){.until = r->now + rdzv_patience(r), .round = r->round};
}

const struct dt_recovery *dt_rdzv_recovery(const struct dt_rdzv *r)
{
    return r->state == DT_RUN_GATHERING ? &r->gathering.recovery : &r->running.recovery;
}

/* Whether the agent was told that its round is over, by a server that knew more than we may. */
static bool is_over(const struct dt_claim *claim)
{
    return claim->over && *claim->over;
}

/* Whether F is of a round that we know nothing of. */
static bool is_news(const struct dt_rdzv *r, const struct dt_message *f)
{
    bool learnt = r->state == DT_RUN_GATHERING && r->gathering.recovery.until; /* of its end */
    return f->round >= r->round + (r->had_world && !learnt);
}

/* Whether it is of the round whose nodes we wait for, and in a seat of one of these. */
static bool is_awaited(const struct dt_rdzv *r, const struct dt_message *f)
{
    int seat = f->join.claim.seat;
    const struct dt_recovery *recovery = dt_rdzv_recovery(r);
    return recovery->until && f->round == recovery->round && seat >= 0 &&
           (size_t)seat < r->seats_len && r->seats[seat].holder == 0;
}

/* M has the workers of a seat again. One whose workers are gone waits for the next world. */
static void restore_workers(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                            const struct dt_claim *claim)
{
    if (!claim->running && !claim->done)
        return;
    if (r->state == DT_RUN_RUNNING) {
        dt_members_set_doing(&r->members, m, claim->done ? DT_MEMBER_DONE : DT_MEMBER_RUNNING);
    } else {
        dt_members_set_doing(&r->members, m, DT_MEMBER_STOPPING);
        rdzv_send(out, m->id, DT_MSG_STOP, m->round, rdzv_text(out, r->news));
    }
}

/* Takes the seat it says it has. */
static void restore_member(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                           const struct dt_message *f)
{
    const struct dt_claim *claim = &f->join.claim;
    struct dt_member *m = add_member(r, out, f);
    if (!m)
        return;
    struct dt_seat *s = &r->seats[claim->seat];
    m->seat = claim->seat;
    m->round = f->round;
    m->first_rank = claim->first_rank;
    m->size = claim->size;
    r->running.done_gone -= s->done; /* it is back */
    s->holder = m->id;
    s->gone = 0;
    s->done = claim->done && r->state == DT_RUN_RUNNING;
    snprintf(s->name, sizeof s->name, "%s", m->name.text);
    snprintf(s->domain, sizeof s->domain, "%s", m->domain);
    restore_workers(r, out, m, claim);
    rdzv_tell(r, out, DT_EVENT_NODE_BACK, m->name.text, "%s is back with seat %d of round %d",
              m->name.text, m->seat, m->round);
}

/* All but those who wait, and ITSELF in any case: the round that they were in is none. */
static void forget_seated(struct dt_rdzv *r, struct dt_rdzv_actions *out, uint64_t itself)
{
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing == DT_MEMBER_WAITING && m->id != itself)
            continue;
        if (m->connected && m->id != itself)
            send_stale(r, out, m->id, m->round);
        rdzv_watch_gone(r, out, m);
        dt_members_remove(&r->members, m);
    }
}

/* Nobody here knows of a round that an agent is in: a server that lost its journal, or the end of
 * it, learns of it from those who are in it, and waits as long as for a silent node until it takes
 * a seat for lost.
 */
static void recover(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *f)
{
    const struct dt_claim *claim = &f->join.claim;
    struct dt_seat *seats = calloc((size_t)claim->seats, sizeof *seats);
    if (!seats) {
        send_close(r, out, f, DT_CLOSE_REFUSED,
                   "the rendezvous has no memory for the round that this node is in");
        return;
    }
    rdzv_journal(out);
    forget_seated(r, out, f->incarnation);
    if (!r->begun)
        adopt_spec(r, f);
    free(r->seats);
    r->seats = seats;
    r->seats_len = (size_t)claim->seats;
    r->size = claim->size;
    r->round = f->round;
    rdzv_enter(r, DT_RUN_RUNNING);
    r->had_world = true;
    rdzv_await_seats(r);
    if (claim->restarts > r->budget.restarts)
        r->budget.restarts = r->budget.spent = claim->restarts;
    rdzv_tell(r, out, DT_EVENT_RUN_LEARNT, f->join.node.name,
              "learnt from %s that round %d of %d nodes runs; waiting for the others",
              f->join.node.name, r->round, claim->seats);
    restore_member(r, out, f);
}

/* Whether the world that runs here is at least as large, by the nodes that are connected, as the
 * one that a node says it is in. A server that lost its journal may have made it of other nodes,
 * and a straggler of the world before must not undo it. */
static bool is_outweighed(const struct dt_rdzv *r, const struct dt_message *f)
{
    int here = 0;
    for (size_t i = 0; r->state == DT_RUN_RUNNING && i < r->seats_len; i++) {
        const struct dt_member *m = dt_members_find(&r->members, r->seats[i].holder);
        here += m && m->connected && m->id != f->incarnation;
    }
    return here >= f->join.claim.seats;
}

/* A node that is back knows that the round is over that we learnt of. */
static void learn_end(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_claim *claim)
{
    char why[DT_WHY_MAX];
    snprintf(why, sizeof why, "%s", claim->over);
    if (r->state == DT_RUN_RUNNING)
        rdzv_fence(r, out, false, why);
}

/* A node has workers of a round, or had them until that was over, and we do not know the one or the
 * other. */
static void claimant(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *f)
{
    const struct dt_claim *claim = &f->join.claim;
    if (f->round < 0 || claim->seat < 0 || claim->seat >= claim->seats ||
        claim->seats < f->join.spec.min_nodes || claim->seats > f->join.spec.max_nodes ||
        claim->first_rank < 0 || claim->first_rank > claim->size - f->join.node.workers) {
        send_close(r, out, f, DT_CLOSE_REFUSED,
                   "this node says it has workers, but not in which seat, or of which ranks");
        return;
    }
    if (!fits(r, out, f))
        return;
    if (is_awaited(r, f)) {
        restore_member(r, out, f);
    } else if (is_news(r, f) && is_outweighed(r, f)) {
        learn_round(r, f);
        send_stale(r, out, f->incarnation, f->round);
        return;
    } else if (is_news(r, f)) {
        recover(r, out, f);
    } else {
        send_stale(r, out, f->incarnation, f->round);
        return;
    }
    if (is_over(claim) && dt_members_find(&r->members, f->incarnation))
        learn_end(r, out, claim);
}

/* It will come as another. */
static void disown(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m, int round)
{
    send_stale(r, out, m->id, round);
    rdzv_gone(r, out, m, DT_EVIDENCE_PREEMPTED, "came back with workers of a round that is over");
}

/* A member on a new connection, with what it has. */
static void returner(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                     const struct dt_message *f)
{
    const struct dt_claim *claim = &f->join.claim;
    bool seated = m->doing == DT_MEMBER_RUNNING || m->doing == DT_MEMBER_DONE;
    if (is_over(claim) && (m->doing == DT_MEMBER_WAITING || f->round < m->round))
        return; /* it says why first, and next that they are gone, which is known */
    if (!seated || f->round != m->round) {
        size_t why = rdzv_text(out, *r->news ? r->news : "the round is over");
        if (m->doing == DT_MEMBER_STOPPING && f->round == m->round)
            rdzv_send(out, m->id, DT_MSG_STOP, f->round, why);
        else
            disown(r, out, m, f->round);
    } else if (is_over(claim)) {
        learn_end(r, out, claim);
    } else if (claim->done && m->doing == DT_MEMBER_RUNNING) {
        dt_members_set_doing(&r->members, m, DT_MEMBER_DONE);
        r->seats[m->seat].done = true;
    }
}

/* A member that has no workers, and wants a world. */
static void ready(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m,
                  const struct dt_message *f)
{
    switch (m->doing) {
    case DT_MEMBER_WAITING:
        m->parked = false;
        break;
    case DT_MEMBER_STOPPING:
        if (f->round < m->round && !m->may_lack_world)
            break; /* it had not heard of its last world, and will yet start and stop workers */
        dt_members_set_doing(&r->members, m, DT_MEMBER_WAITING);
        m->parked = false;
        break;
    case DT_MEMBER_RUNNING:
    case DT_MEMBER_DONE:
    case DT_MEMBER_DOINGS: /* nobody does that */
        if (f->round < m->round && *r->master_addr && m->role_size > 0) {
            /* The first was lost with its connection. Of a round that was learnt from the nodes
             * themselves the roles are not known, and none of them lacks its world. */
            rdzv_send_world(r, out, m);
        } else {
            struct dt_result result = {.evidence = DT_EVIDENCE_PROGRAM,
                                       .signature = "",
                                       .text = "its workers are gone, and it does not say why"};
            rdzv_failed(r, out, m, &result);
            dt_members_set_doing(&r->members, m, DT_MEMBER_WAITING);
        }
        break;
    }
    if (r->state == DT_RUN_RUNNING && m->doing == DT_MEMBER_WAITING)
        rdzv_park(r, out, m);
}

void rdzv_join(struct dt_rdzv *r, struct dt_rdzv_actions *out, const struct dt_message *f)
{
    struct dt_member *m = dt_members_find(&r->members, f->incarnation);
    bool claims = f->join.claim.running || f->join.claim.done;
    char last_job[DT_WHY_MAX], why[DT_WHY_MAX];
    if (f->round > ROUND_MOST) {
        send_close(r, out, f, DT_CLOSE_REFUSED, "no job was ever in such a round");
        return;
    }
    if (r->state == DT_RUN_CLOSED && (m || claims || f->join.claim.again)) {
        send_close(r, out, f, r->closed.kind, r->closed.why);
        return;
    }
    if (m && !rdzv_shows_key(r, f, why)) {
        refuse(r, out, f, why);
        return;
    }
    describe_last_job(r, f, last_job, sizeof last_job);
    if (r->state == DT_RUN_CLOSED)
        begin_again(r, out);
    if (m && !(claims && f->round > r->round)) {
        dt_members_describe(m, &f->join.node);
        if (claims) {
            returner(r, out, m, f);
        } else {
            learn_round(r, f);
            ready(r, out, m, f);
        }
    } else if (claims || (is_over(&f->join.claim) && (is_news(r, f) || is_awaited(r, f)))) {
        claimant(r, out, f);
    } else {
        newcomer(r, out, f);
        if (*last_job)
            rdzv_send(out, f->incarnation, DT_MSG_NOTE, r->round, rdzv_text(out, last_job));
    }
}
