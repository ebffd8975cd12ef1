/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"
#include "rendezvous/rdzv/seats.h"

#include <stdio.h>
#include <stdlib.h>

#define NAMES_TOLD 8 /* of those who are new in a seat */
#define ROLES_MAX 64 /* beyond, nodes count as one role more */

void rdzv_park(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m)
{
    char text[DT_WHY_MAX], how[DT_WHY_MAX];
    if (m->parked)
        return;
    m->parked = true;
    rdzv_describe_out(r, m, how, sizeof how);
    if (*how)
        snprintf(text, sizeof text, "%s is kept out %.*s", m->name.text,
                 (int)(sizeof text - sizeof m->name.text - 16), how);
    else if (m->command != r->spec.command)
        snprintf(text, sizeof text,
                 "the %zu nodes of run \"%s\" are there already, and run another command than this "
                 "one; if this is another job, give it an --rdzv-id of its own",
                 r->seats_len, r->id);
    else if (rdzv_will_grow(r))
        snprintf(text, sizeof text, "the job runs with %zu node%s; %s joins it in about %d s",
                 r->seats_len, r->seats_len == 1 ? "" : "s", m->name.text,
                 dt_clock_seconds(r->running.grow_at - r->now));
    else
        snprintf(text, sizeof text, "the job runs with %zu node%s; %s stands by as a spare",
                 r->seats_len, r->seats_len == 1 ? "" : "s", m->name.text);
    rdzv_send(out, m->id, DT_MSG_PARK, r->round, rdzv_text(out, text));
}

void rdzv_send_world(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_member *m)
{
    struct dt_rdzv_action *a = rdzv_send(out, m->id, DT_MSG_WORLD, r->round, 0);
    if (!a)
        return;
    m->may_lack_world = false;
    a->world = (struct dt_world_message){.seat = m->seat,
                                         .seats = (int)r->seats_len,
                                         .first_rank = m->first_rank,
                                         .size = r->size,
                                         .first_role_rank = m->first_role_rank,
                                         .role_size = m->role_size,
                                         .master_addr = r->master_addr,
                                         .master_port = r->master_port,
                                         .prev_rank = m->prev_rank,
                                         .prev_size = m->prev_size,
                                         .restarts = r->budget.restarts,
                                         .news = r->told,
                                         .cause = rdzv_cause(r)};
}

static bool is_of_host(const struct dt_rdzv *r, const struct dt_seat_candidate *c, const char *host)
{
    return strcmp(dt_members_find(&r->members, c->id)->said_name, host) == 0;
}

/* Those who may sit, with what decides where. Returns how many; *FIT: of these, without fault. */
static size_t list_candidates(const struct dt_rdzv *r, struct dt_seat_candidate *c, size_t *fit)
{
    size_t count = 0;
    *fit = 0;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (!rdzv_is_ready(m))
            continue;
        bool out = rdzv_is_out(r, m, NULL);
        if (out && rdzv_is_drained(r, m))
            continue;
        c[count++] = (struct dt_seat_candidate){
            .id = m->id,
            .name = m->name.text,
            .domain = m->domain,
            .order = m->order,
            .came = out ? dt_exclude_badness(r->exclude, m->said_name, r->now) : m->came,
            .last_seat = m->seat,
            .last_resort = out,
        };
        *fit += !out;
    }
    return count;
}

/* Agents of the blamed node, those that had a seat or those that had none, become a last resort, as
 * far as there are more candidates than seats. *FIT is less by those who do. */
static void make_room(const struct dt_rdzv *r, struct dt_seat_candidate *c, size_t count,
                      bool had_seat, size_t *fit)
{
    size_t target = rdzv_target(r);
    for (size_t i = 0; i < count && target < *fit; i++) {
        bool is_it = !c[i].last_resort && is_of_host(r, &c[i], r->blame.node);
        if (!is_it || (c[i].last_seat >= 0) != had_seat)
            continue;
        c[i].last_resort = true;
        --*fit;
    }
}

/* A node that was to blame twice in a row makes room for spares, in the world that comes right
 * after that. It may have several agents, and there may be spares for some of them only: those that
 * were in the round that failed go first. */
static void stand_down(struct dt_rdzv *r, struct dt_rdzv_actions *out, struct dt_seat_candidate *c,
                       size_t count, size_t *fit)
{
    const struct dt_blame *b = &r->blame;
    size_t before = *fit;
    if (b->times < 2 || !b->recent)
        return;
    make_room(r, c, count, true, fit);
    if (*fit == before)
        return;
    make_room(r, c, count, false, fit);
    rdzv_tell(r, out, DT_EVENT_NODE_REPLACED, b->node,
              "%s failed %d times in a row: a spare takes its place", b->node, b->times);
    rdzv_news(r, "%s failed %d times in a row, so a spare takes its place", b->node, b->times);
}

static int assign(struct dt_rdzv *r, struct dt_seat_candidate *c, size_t count, size_t fit)
{
    size_t min = (size_t)r->spec.min_nodes, target = rdzv_target(r);
    struct dt_seat_memory *memory = calloc(r->seats_len + 1, sizeof *memory);
    if (!memory)
        return -1;
    for (size_t i = 0; i < r->seats_len; i++)
        memory[i] = (struct dt_seat_memory){r->seats[i].name, r->seats[i].domain};
    int n = dt_seats_assign(c, count,
                            fit < min      ? min
                            : fit < target ? fit
                                           : target,
                            memory, r->seats_len,
                            r->spec.torchrun_ranks ? DT_RANKS_TORCHRUN : DT_RANKS_STABLE);
    free(memory);
    return n;
}

/* Says who is new in a seat that had somebody else in it. */
static void tell_changes(struct dt_rdzv *r, const struct dt_seat *seats, size_t len)
{
    size_t told = 0;
    for (size_t i = 0; r->had_world && i < len; i++) {
        bool was = i < r->seats_len;
        if (was && strcmp(r->seats[i].name, seats[i].name) == 0)
            continue;
        if (told++ >= NAMES_TOLD)
            continue;
        if (was && *r->seats[i].name)
            rdzv_news(r, "%s takes seat %zu of %s", seats[i].name, i, r->seats[i].name);
        else
            rdzv_news(r, "%s takes seat %zu", seats[i].name, i);
    }
    if (told > NAMES_TOLD)
        rdzv_news(r, "and %zu more seats have new holders", told - NAMES_TOLD);
    if (r->had_world && len != r->seats_len)
        rdzv_news(r, "%zu node%s instead of %zu", len, len == 1 ? "" : "s", r->seats_len);
}

struct role {
    const char *name;
    int size;
};

static struct role *find_role(struct role *roles, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(roles[i].name, name) == 0)
            return &roles[i];
    if (*count == ROLES_MAX)
        return &roles[ROLES_MAX - 1];
    roles[*count] = (struct role){.name = name};
    return &roles[(*count)++];
}

/* Ranks follow from the seats: sums of the workers before. */
static void number_ranks(struct dt_rdzv *r)
{
    struct role roles[ROLES_MAX];
    size_t count = 0;
    r->size = 0;
    for (size_t i = 0; i < r->seats_len; i++) {
        struct dt_member *m = dt_members_find(&r->members, r->seats[i].holder);
        struct role *role = find_role(roles, &count, m->role);
        m->prev_rank = m->round >= 0 ? m->first_rank : -1;
        m->prev_size = m->round >= 0 ? m->size : 0;
        m->round = r->round;
        m->first_rank = r->size;
        m->first_role_rank = role->size;
        r->size += m->workers;
        role->size += m->workers;
    }
    for (size_t i = 0; i < r->seats_len; i++) {
        struct dt_member *m = dt_members_find(&r->members, r->seats[i].holder);
        m->size = r->size;
        m->role_size = find_role(roles, &count, m->role)->size;
    }
}

static struct dt_seat *fill_seats(struct dt_rdzv *r, const struct dt_seat_candidate *c,
                                  size_t count, size_t len)
{
    struct dt_seat *seats = calloc(len, sizeof *seats);
    if (!seats)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct dt_member *m = dt_members_find(&r->members, c[i].id);
        m->newcomer = r->had_world && m->seat < 0;
        m->seat = c[i].seat;
        if (c[i].seat < 0)
            continue;
        struct dt_seat *s = &seats[c[i].seat];
        s->holder = m->id;
        snprintf(s->name, sizeof s->name, "%s", m->name.text);
        snprintf(s->domain, sizeof s->domain, "%s", m->domain);
    }
    return seats;
}

/* Nodes that wish for one and the same seat get it by their names: torchrun does not look at
 * --node-rank here, so scripts may give all the same. */
static void warn_of_equal_wishes(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    size_t most = r->seats_len;
    const char **by = calloc(most, sizeof *by);
    for (size_t i = 0; by && i < r->seats_len; i++) {
        const struct dt_member *m = dt_members_find(&r->members, r->seats[i].holder);
        if (m->order < 0 || (size_t)m->order >= most)
            continue;
        if (by[m->order]) {
            rdzv_say(out, DT_EVENT_WARNING,
                     "%s and %s both ask for --node-rank %d; they are put in order by name",
                     by[m->order], m->name.text, m->order);
            rdzv_news(r, "%s and %s both ask for --node-rank %d", by[m->order], m->name.text,
                      m->order);
            break;
        }
        by[m->order] = m->name.text;
    }
    free(by);
}

static void warn_of_last_resorts(struct dt_rdzv *r, struct dt_rdzv_actions *out,
                                 const struct dt_seat_candidate *c, size_t count)
{
    const char *why;
    for (size_t i = 0; i < count; i++)
        if (c[i].last_resort && c[i].seat >= 0 &&
            rdzv_is_out(r, dt_members_find(&r->members, c[i].id), &why))
            rdzv_tell(r, out, DT_EVENT_NODE_TAKEN_ANYWAY, c[i].name,
                      "%s is taken although it should be kept out (%s): without it there are fewer "
                      "than %d nodes",
                      c[i].name, why, r->spec.min_nodes);
}

void rdzv_note_spares(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    static const enum dt_event_kind kinds[] = {[DT_SPARES_ALL] = DT_EVENT_SPARES_THERE,
                                               [DT_SPARES_SOME] = DT_EVENT_SPARES_SHORT,
                                               [DT_SPARES_NONE] = DT_EVENT_SPARES_EXHAUSTED};
    const size_t *waiting = r->members.counts[DT_MEMBER_WAITING];
    size_t spares = waiting[DT_LINK_ONLINE] + waiting[DT_LINK_SUSPECT];
    enum dt_spares now = spares >= (size_t)r->spec.spares ? DT_SPARES_ALL
                         : spares > 0                     ? DT_SPARES_SOME
                                                          : DT_SPARES_NONE;
    if (r->state != DT_RUN_RUNNING || now == r->running.spares)
        return;
    r->running.spares = now;
    rdzv_tell(r, out, kinds[now], NULL, "%zu of %d spares stand by", spares, r->spec.spares);
}

static void announce(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    memcpy(r->told, r->news, sizeof r->told);
    r->news[0] = '\0';
    rdzv_journal(out);
    rdzv_tell(r, out, DT_EVENT_ROUND_BEGAN, NULL,
              "round %d: %zu nodes, %d ranks, workers meet at %s:%d%s%s", r->round, r->seats_len,
              r->size, r->master_addr, r->master_port, *r->told ? "; " : "", r->told);
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        bool could = m->seat >= 0 && (size_t)m->seat < r->seats_len; /* it may be its last one */
        if (could && r->seats[m->seat].holder == m->id) {
            m->parked = false;
            dt_members_set_doing(&r->members, m, DT_MEMBER_RUNNING);
            rdzv_send_world(r, out, m);
        } else if (m->doing == DT_MEMBER_WAITING) {
            m->seat = -1;
            rdzv_park(r, out, m);
        }
    }
}

/* The seats are filled: the round runs. */
static void begin_round(struct dt_rdzv *r)
{
    number_ranks(r);
    const struct dt_member *first = dt_members_find(&r->members, r->seats[0].holder);
    snprintf(r->master_addr, sizeof r->master_addr, "%s", first->addr);
    r->master_port = first->port;
    struct dt_past_round *past = dt_history_last(&r->history);
    if (past && past->lost < 0)
        past->lost = r->now - r->since;
    rdzv_enter(r, DT_RUN_RUNNING);
    r->had_world = true;
    r->blame.recent = false;
}

void rdzv_make_world(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    size_t fit;
    struct dt_seat_candidate *c = calloc(r->members.count, sizeof *c);
    struct dt_seat *seats = NULL;
    size_t count = c ? list_candidates(r, c, &fit) : 0;
    if (c)
        stand_down(r, out, c, count, &fit);
    int n = c ? assign(r, c, count, fit) : -1;
    if (n > 0)
        seats = fill_seats(r, c, count, (size_t)n);
    if (!seats) {
        rdzv_say(out, DT_EVENT_ERROR, "no memory for a world of %zu nodes; trying again", count);
        free(c);
        return;
    }
    bool first = !r->had_world;
    warn_of_last_resorts(r, out, c, count);
    tell_changes(r, seats, (size_t)n);
    free(r->seats);
    free(c);
    r->seats = seats;
    r->seats_len = (size_t)n;
    begin_round(r);
    if (first)
        warn_of_equal_wishes(r, out);
    announce(r, out);
}
