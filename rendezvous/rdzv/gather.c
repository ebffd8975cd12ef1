/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv/inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NAMES_TOLD 8               /* of those who are missing */
#define NEXT_NOTE (30 * DT_SECOND) /* the first comes sooner: see phase.c */

size_t rdzv_target(const struct dt_rdzv *r)
{
    return (size_t)(r->spec.fixed_world ? r->spec.min_nodes : r->spec.max_nodes);
}

bool rdzv_is_out(const struct dt_rdzv *r, const struct dt_member *m, const char **why)
{
    return dt_exclude_is_out(r->exclude, m->said_name, r->now, why) ||
           dt_exclude_is_out(r->exclude, m->name.text, r->now, why);
}

void rdzv_describe_out(const struct dt_rdzv *r, const struct dt_member *m, char *out, size_t size)
{
    dt_exclude_describe(r->exclude, m->said_name, r->now, out, size);
    if (*out == '\0')
        dt_exclude_describe(r->exclude, m->name.text, r->now, out, size);
}

bool rdzv_is_drained(const struct dt_rdzv *r, const struct dt_member *m)
{
    return dt_exclude_is_drained(r->exclude, m->said_name) ||
           dt_exclude_is_drained(r->exclude, m->name.text);
}

bool rdzv_is_ready(const struct dt_member *m)
{
    return m->doing == DT_MEMBER_WAITING && m->link == DT_LINK_ONLINE;
}

static bool is_ready_here(const struct dt_rdzv *r, const struct dt_excluded *e)
{
    const struct dt_member *m = dt_members_find_name(&r->members, e->name);
    return m && rdzv_is_ready(m);
}

/* Where a host has several agents, what is held against it is against them all. */
static size_t count_ready_one_by_one(const struct dt_rdzv *r, size_t *fallback)
{
    size_t ready = 0;
    *fallback = 0;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (!rdzv_is_ready(m))
            continue;
        bool out = rdzv_is_out(r, m, NULL);
        ready += !out;
        *fallback += out && !rdzv_is_drained(r, m);
    }
    return ready;
}

/* Ready nodes that nothing is held against; *FALLBACK: those that only a small world takes. Asked
 * for on each event while nodes gather, so it looks at the few who are out, not at all who are
 * there, where it can. */
static size_t count_ready(const struct dt_rdzv *r, size_t *fallback)
{
    const struct dt_exclude *x = r->exclude;
    size_t drained = 0;
    if (r->members.crowd > 1 && !(dt_list_empty(&x->drained) && dt_list_empty(&x->banned)))
        return count_ready_one_by_one(r, fallback);
    *fallback = 0;
    dt_list_each(&x->drained, n)
    {
        drained += is_ready_here(r, dt_container_of(n, struct dt_excluded, in_drained));
    }
    dt_list_each(&x->banned, n)
    {
        const struct dt_excluded *e = dt_container_of(n, struct dt_excluded, in_banned);
        if (!e->drained && e->until > r->now)
            *fallback += is_ready_here(r, e);
    }
    return r->members.counts[DT_MEMBER_WAITING][DT_LINK_ONLINE] - drained - *fallback;
}

/* When missing nodes are waited for no longer. */
static dt_ms patience_end(const struct dt_rdzv *r)
{
    dt_ms from = r->gathering.resumed > r->since ? r->gathering.resumed : r->since;
    return dt_clock_after(from, r->spec.join_timeout);
}

/* -- words ------------------------------------------------------------------------------------ */

static void append(char *out, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *out, size_t size, const char *fmt, ...)
{
    size_t used = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + used, size - used, fmt, args);
    va_end(args);
}

/* What a node that is not ready does, and how long that may take. */
static void describe_delay(const struct dt_rdzv *r, const struct dt_member *m, char *out,
                           size_t size)
{
    const struct dt_beat *b = &m->beat;
    if (m->link != DT_LINK_ONLINE) {
        append(out, size, " (not heard of)");
    } else if (m->doing != DT_MEMBER_STOPPING) {
        append(out, size, " (%s)", dt_member_doing_name(m->doing));
    } else {
        bool gone = b->seq > 0 && b->running == 0;
        append(out, size, " (%s",
               gone ? "its workers are gone, what they started is not" : "stopping its workers");
        if (r->gathering.stop_deadline > r->now && r->gathering.stop_deadline < DT_FOREVER)
            append(out, size, ", %d s more at most",
                   dt_clock_seconds(r->gathering.stop_deadline - r->now));
        append(out, size, ")");
    }
}

/* Holders of the last round's seats who are not ready, by name. */
static void name_missing(const struct dt_rdzv *r, char *out, size_t size)
{
    size_t missing = 0;
    for (size_t i = 0; i < r->seats_len; i++) {
        const struct dt_seat *s = &r->seats[i];
        const struct dt_member *m = s->holder ? dt_members_find(&r->members, s->holder) : NULL;
        if (m && rdzv_is_ready(m))
            continue;
        if (!m && dt_members_find_name(&r->members, s->name))
            continue; /* came back as another */
        if (missing++ >= NAMES_TOLD)
            continue;
        append(out, size, "%s%s", missing == 1 ? "; missing " : ", ", *s->name ? s->name : "one");
        if (m)
            describe_delay(r, m, out, size);
        else if (s->gone)
            append(out, size, " (gone %d s)", dt_clock_seconds(r->now - s->gone));
    }
    if (missing > NAMES_TOLD)
        append(out, size, " and %zu more", missing - NAMES_TOLD);
}

/* In the first round nobody knows names, but if all wish for seats the gaps are known. */
static void name_gaps(const struct dt_rdzv *r, char *out, size_t size)
{
    size_t most = (size_t)r->spec.min_nodes, missing = 0;
    bool *there = calloc(most, sizeof *there);
    bool all = there != NULL && r->members.count > 0;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->order < 0)
            all = false;
        else if (there && (size_t)m->order < most)
            there[m->order] = true;
    }
    for (size_t i = 0; all && i < most; i++)
        if (!there[i] && missing++ < NAMES_TOLD)
            append(out, size, "%s%zu", missing == 1 ? "; nobody came with --node-rank " : ", ", i);
    free(there);
}

void dt_rdzv_name_drained(const struct dt_rdzv *r, char *out, size_t size)
{
    const char *why = "";
    size_t drained = 0;
    if (dt_list_empty(&r->exclude->drained))
        return;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (!rdzv_is_drained(r, m) || drained++ >= NAMES_TOLD)
            continue;
        rdzv_is_out(r, m, &why);
        append(out, size, "; %s is drained (%.100s)", m->name.text, why);
    }
    if (drained > NAMES_TOLD)
        append(out, size, "; and %zu more are drained", drained - NAMES_TOLD);
}

size_t dt_rdzv_count_ready(const struct dt_rdzv *r)
{
    size_t fallback, ready = count_ready(r, &fallback);
    return ready + fallback;
}

static size_t count_left_one_by_one(const struct dt_rdzv *r)
{
    size_t left = 0;
    dt_list_each(&r->members.all, n)
    {
        left += !rdzv_is_drained(r, dt_container_of(n, struct dt_member, in_all));
    }
    return left;
}

/* Those who are not drained; as with count_ready(), of the few who are. */
static size_t count_left(const struct dt_rdzv *r)
{
    const struct dt_list *drained = &r->exclude->drained;
    size_t left = r->members.count;
    if (r->members.crowd > 1 && !dt_list_empty(drained))
        return count_left_one_by_one(r);
    dt_list_each(drained, n)
    {
        const struct dt_excluded *e = dt_container_of(n, struct dt_excluded, in_drained);
        left -= dt_members_find_name(&r->members, e->name) != NULL;
    }
    return left;
}

bool dt_rdzv_is_short(const struct dt_rdzv *r, size_t *left)
{
    *left = count_left(r);
    return r->state == DT_RUN_GATHERING && r->had_world && *left < (size_t)r->spec.min_nodes;
}

void rdzv_describe_wait(const struct dt_rdzv *r, char *out, size_t size)
{
    size_t fallback, ready = count_ready(r, &fallback);
    dt_ms end = patience_end(r);
    if (dt_rdzv_is_stopping(r)) {
        snprintf(out, size, "%s, and ends when the workers of all nodes are gone",
                 r->gathering.stopped);
        name_missing(r, out, size);
        return;
    }
    if (dt_rdzv_is_paused(r)) {
        snprintf(out, size,
                 "round %d: paused (%.200s) until dtrun-ctl run resume; %zu nodes are ready",
                 r->round, r->gathering.paused, ready + fallback);
        return;
    }
    if (r->now < r->gathering.pause_until) {
        snprintf(out, size, "round %d begins in %d s, as %d rounds in a row failed at once",
                 r->round, dt_clock_seconds(r->gathering.pause_until - r->now), r->budget.hasty);
        return;
    }
    if (r->gathering.last_call) {
        snprintf(out, size, "round %d: %zu nodes are ready, and %zu may be; %d s left for others",
                 r->round, ready + fallback, rdzv_target(r),
                 dt_clock_seconds(r->gathering.last_call - r->now));
        return;
    }
    snprintf(out, size, "round %d: %zu of %d nodes are ready", r->round, ready + fallback,
             r->spec.min_nodes);
    if (r->had_world)
        name_missing(r, out, size);
    else
        name_gaps(r, out, size);
    dt_rdzv_name_drained(r, out, size);
    if (r->state == DT_RUN_GATHERING && end > r->now && end < DT_FOREVER)
        append(out, size, "; %d s left", dt_clock_seconds(end - r->now));
}

static void note(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    char text[DT_WHY_MAX] = "";
    if (r->now < r->gathering.next_note)
        return;
    r->gathering.next_note = r->now + NEXT_NOTE;
    rdzv_describe_wait(r, text, sizeof text);
    if (r->twin)
        append(text, sizeof text,
               "; run \"%.80s\" waits here too, with the same --nnodes and command: was the same "
               "--rdzv-id given on all nodes?",
               r->twin);
    rdzv_say(out, DT_EVENT_INFO, "%s", text);
    size_t at = rdzv_text(out, text);
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing == DT_MEMBER_WAITING)
            rdzv_send(out, m->id, DT_MSG_NOTE, r->round, at);
    }
}

/* -- when ------------------------------------------------------------------------------------- */

/* Their workers may live on; what they do does not count, and nobody waits for them any longer. Of
 * those who are heard of all the time, their going explains no failure that came before it. */
static void give_up_stuck(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    bool node_lost = r->gathering.fault.node_lost;
    char how[80];
    snprintf(how, sizeof how, "did not stop its workers within %d s",
             dt_clock_seconds(r->spec.stop_bound));
    rdzv_journal(out);
    r->gathering.together = false; /* each is told more than that */
    dt_list_each(&r->members.all, n)
    {
        struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing != DT_MEMBER_STOPPING)
            continue;
        node_lost = node_lost || m->link == DT_LINK_SUSPECT;
        rdzv_send(out, m->id, DT_MSG_STALE, r->round,
                  rdzv_text(out, "this node was given up: it did not stop its workers in time"));
        rdzv_gone(r, out, m, DT_EVIDENCE_OFFLINE, how);
    }
    r->gathering.fault.node_lost = node_lost;
}

static bool all_stopped(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    const size_t *stopping = r->members.counts[DT_MEMBER_STOPPING];
    if (stopping[DT_LINK_ONLINE] + stopping[DT_LINK_SUSPECT] == 0)
        return true;
    if (r->now < r->gathering.stop_deadline)
        return false;
    give_up_stuck(r, out);
    return true;
}

/* Whether a node that has a seat is not heard of just now: it will be back, or counts as lost,
 * soon. */
static bool someone_suspect(const struct dt_rdzv *r)
{
    if (!r->had_world || r->members.counts[DT_MEMBER_WAITING][DT_LINK_SUSPECT] == 0)
        return false;
    dt_list_each(&r->members.all, n)
    {
        const struct dt_member *m = dt_container_of(n, struct dt_member, in_all);
        if (m->doing == DT_MEMBER_WAITING && m->link == DT_LINK_SUSPECT && m->seat >= 0)
            return true;
    }
    return false;
}

size_t rdzv_count_awaited(const struct dt_rdzv *r)
{
    size_t count = 0;
    for (size_t i = 0; i < r->seats_len; i++)
        count += r->seats[i].holder == 0 && r->seats[i].gone == 0 && !r->seats[i].done;
    return count;
}

/* Whether anybody may come that a moment's patience would get us. After the first round all who
 * could are known: back, or gone. */
static bool others_may_come(const struct dt_rdzv *r)
{
    return !r->had_world && (r->expected == 0 || r->members.count < (size_t)r->expected);
}

static bool is_time(struct dt_rdzv *r)
{
    size_t fallback, ready = count_ready(r, &fallback);
    size_t min = (size_t)r->spec.min_nodes;
    if (ready >= rdzv_target(r))
        return true;
    if (ready + fallback < min) {
        r->gathering.last_call = 0;
        return false;
    }
    if (r->gathering.last_call == 0)
        r->gathering.last_call = dt_clock_after(r->now, r->spec.last_call);
    return r->now >= r->gathering.last_call || !others_may_come(r);
}

/* Whether it came to something. */
static bool gathered(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    char text[DT_WHY_MAX];
    if (!all_stopped(r, out) || someone_suspect(r) ||
        (r->gathering.recovery.until && rdzv_count_awaited(r) > 0))
        return false;
    r->gathering.stop_deadline = 0;
    rdzv_settle_fault(r, out);
    if (r->state != DT_RUN_GATHERING)
        return true;
    if (dt_rdzv_is_stopping(r)) {
        rdzv_close(r, out, DT_CLOSE_STOPPED, "%s", r->gathering.stopped);
        return true;
    }
    if (dt_rdzv_is_paused(r) || r->now < r->gathering.pause_until)
        return false;
    if (is_time(r)) {
        rdzv_make_world(r, out);
        return true;
    }
    if (r->gathering.last_call || r->now < patience_end(r))
        return false;
    rdzv_describe_wait(r, text, sizeof text);
    rdzv_close(r, out, DT_CLOSE_TIMEOUT, "%s, after %d s (join_timeout)", text,
               dt_clock_seconds(r->spec.join_timeout));
    return true;
}

/* Once for each gathering, and not before those are known who may be back. */
static void tell_short(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    size_t left;
    if (r->gathering.told_short || r->gathering.recovery.until || dt_rdzv_is_stopping(r) ||
        !dt_rdzv_is_short(r, &left))
        return;
    r->gathering.told_short = true;
    rdzv_tell(r, out, DT_EVENT_BELOW_MIN, NULL,
              "%zu node%s left, and the job needs %d: no round begins before others come", left,
              left == 1 ? " is" : "s are", r->spec.min_nodes);
}

void rdzv_gather(struct dt_rdzv *r, struct dt_rdzv_actions *out)
{
    tell_short(r, out);
    if (r->state == DT_RUN_GATHERING && r->members.count > 0 && !gathered(r, out))
        note(r, out);
}

dt_ms rdzv_gather_next(const struct dt_rdzv *r)
{
    dt_ms end = r->gathering.last_call ? r->gathering.last_call : patience_end(r);
    const dt_ms times[] = {r->gathering.stop_deadline, r->gathering.recovery.until,
                           r->gathering.pause_until, end, r->gathering.next_note};
    dt_ms next = DT_FOREVER;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i] > r->now && times[i] < next)
            next = times[i]; /* what was due has been looked at, and waits for something else */
    return next;
}
