/* SPDX-License-Identifier: Apache-2.0 */
/* A run as bytes, for the journal: what nodes agreed on, who sits where, what was charged. Who is
 * connected, and what time is left, are found out anew. */
#include "rendezvous/rdzv/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define RECORD_VERSION 2     /* 1 lacks what put_owner() writes */
#define NODES_MAX (1 << 20)  /* that may be wished for */
#define COUNT_MOST (3 << 29) /* nothing of ours ever counted so far, and it may be counted on */
#define WORKERS_MOST (1 << 14)

/* -- writing ---------------------------------------------------------------------------------- */

static void put_string(struct dt_buf *out, const char *s)
{
    size_t len = strlen(s);
    dt_buf_put_u32(out, (uint32_t)len);
    dt_buf_put(out, s, len);
}

static void put_spec(struct dt_buf *out, const struct dt_run_spec *s)
{
    const int64_t numbers[] = {
        s->min_nodes,    s->max_nodes,       s->spares,       s->fixed_world, s->torchrun_ranks,
        s->max_restarts, s->max_node_losses, s->no_progress,  s->strikes,     s->quarantine,
        s->join_timeout, s->last_call,       s->beat,         s->beats,       s->reconnect_grace,
        s->stop_bound,   s->grow_interval,   s->restart_reset};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dt_buf_put_i64(out, numbers[i]);
    dt_buf_put_u64(out, s->command);
}

/* Whose job it is: a node of another is refused after a restart, too. */
static void put_owner(struct dt_buf *out, const struct dt_rdzv *r)
{
    put_string(out, r->script);
    put_string(out, r->user);
    dt_buf_put_u8(out, r->spec.mixed);
}

static void put_member(struct dt_buf *out, const struct dt_member *m)
{
    dt_buf_put_u8(out, m != NULL);
    if (!m)
        return;
    put_string(out, m->said_name);
    put_string(out, m->boot);
    put_string(out, m->role);
    put_string(out, m->addr);
    const int64_t numbers[] = {m->port,      m->workers,    m->order,     m->expected,
                               m->round,     m->first_rank, m->size,      m->first_role_rank,
                               m->role_size, m->prev_rank,  m->prev_size, m->doing};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dt_buf_put_i64(out, numbers[i]);
}

static void put_seat(struct dt_buf *out, const struct dt_rdzv *r, const struct dt_seat *s)
{
    dt_buf_put_u64(out, s->holder);
    put_string(out, s->name);
    put_string(out, s->domain);
    dt_buf_put_u8(out, s->done);
    put_member(out, s->holder ? dt_members_find(&r->members, s->holder) : NULL);
}

/* A failure that nobody has paid for yet must not be forgiven by our end. */
static void put_fault(struct dt_buf *out, const struct dt_fault *f)
{
    dt_buf_put_u8(out, f->pending);
    if (!f->pending)
        return;
    dt_buf_put_u8(out, (uint8_t)(f->node_lost | f->newcomer << 1));
    dt_buf_put_u8(out, (uint8_t)f->evidence);
    put_string(out, f->node);
    put_string(out, f->text);
    put_string(out, f->signature);
}

void dt_rdzv_save(const struct dt_rdzv *r, struct dt_buf *out)
{
    const struct dt_budget *b = &r->budget;
    if (!r->begun)
        return;
    dt_buf_put_u8(out, RECORD_VERSION);
    put_spec(out, &r->spec);
    put_string(out, r->job);
    put_owner(out, r);
    dt_buf_put_u8(out, (uint8_t)r->state);
    dt_buf_put_u8(out, r->had_world);
    const int64_t numbers[] = {r->round,    r->size,           r->master_port, r->closed.kind,
                               b->restarts, b->spent,          b->losses,      b->stuck,
                               b->step,     b->step_at_failure};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dt_buf_put_i64(out, numbers[i]);
    put_string(out, r->master_addr);
    put_string(out, r->closed.why);
    put_fault(out, &r->gathering.fault);
    dt_buf_put_u32(out, (uint32_t)r->seats_len);
    for (size_t i = 0; i < r->seats_len; i++)
        put_seat(out, r, &r->seats[i]);
}

/* -- reading ---------------------------------------------------------------------------------- */

static void read_string(struct dt_reader *in, char *out, size_t size)
{
    uint32_t len = dt_read_u32(in);
    const uint8_t *at = dt_read_bytes(in, len);
    *out = '\0';
    if (!at || len >= size || memchr(at, '\0', len)) {
        in->bad = true;
        return;
    }
    memcpy(out, at, len);
    out[len] = '\0';
}

static int64_t read_between(struct dt_reader *in, int64_t min, int64_t max)
{
    int64_t v = dt_read_i64(in);
    if (v < min || v > max) {
        in->bad = true;
        return min;
    }
    return v;
}

static int read_int(struct dt_reader *in, int min)
{
    return (int)read_between(in, min, INT32_MAX);
}

static int read_count(struct dt_reader *in)
{
    return (int)read_between(in, 0, COUNT_MOST);
}

static dt_ms read_time(struct dt_reader *in)
{
    return read_between(in, 0, DT_FOREVER);
}

static void read_spec(struct dt_reader *in, struct dt_run_spec *s)
{
    s->min_nodes = (int)read_between(in, 1, NODES_MAX);
    s->max_nodes = (int)read_between(in, s->min_nodes, NODES_MAX);
    s->spares = read_int(in, 0);
    s->fixed_world = read_between(in, 0, 1);
    s->torchrun_ranks = read_between(in, 0, 1);
    s->max_restarts = read_int(in, 0);
    s->max_node_losses = read_int(in, -1);
    s->no_progress = read_int(in, 0);
    s->strikes = read_int(in, 0);
    s->quarantine = read_time(in);
    s->join_timeout = read_time(in);
    s->last_call = read_time(in);
    s->beat = read_between(in, DT_BEAT_LEAST, DT_BEAT_MOST);
    s->beats = (int)read_between(in, 1, DT_BEATS_MOST);
    s->reconnect_grace = read_between(in, 0, DT_RECONNECT_GRACE_MOST);
    s->stop_bound = read_time(in);
    s->grow_interval = read_time(in);
    s->restart_reset = read_time(in);
    s->command = dt_read_u64(in);
}

static void read_owner(struct dt_reader *in, struct dt_rdzv *r)
{
    read_string(in, r->script, sizeof r->script);
    read_string(in, r->user, sizeof r->user);
    r->spec.mixed = dt_read_u8(in) != 0;
}

/* What stands in a record of a member. */
struct saved {
    char name[DT_NODE_NAME_MAX], boot[sizeof((struct dt_member *)0)->boot];
    char role[DT_ROLE_MAX], addr[DT_NODE_ADDR_MAX];
    struct dt_node_info info;
    int round, first_rank, size, first_role_rank, role_size, prev_rank, prev_size;
    enum dt_doing doing;
};

static void read_member(struct dt_reader *in, struct saved *s, const char *domain)
{
    read_string(in, s->name, sizeof s->name);
    read_string(in, s->boot, sizeof s->boot);
    read_string(in, s->role, sizeof s->role);
    read_string(in, s->addr, sizeof s->addr);
    s->info = (struct dt_node_info){
        .name = s->name, .boot = s->boot, .domain = domain, .addr = s->addr, .role = s->role};
    s->info.port = read_int(in, 0);
    s->info.workers = (int)read_between(in, 1, WORKERS_MOST);
    s->info.order = read_int(in, -1);
    s->info.expected = read_int(in, 0);
    s->round = read_int(in, -1);
    s->first_rank = read_int(in, 0);
    s->size = read_int(in, 0);
    s->first_role_rank = read_int(in, 0);
    s->role_size = read_int(in, 0);
    s->prev_rank = read_int(in, -1);
    s->prev_size = read_int(in, 0);
    s->doing = (enum dt_doing)read_between(in, 0, DT_DOINGS - 1);
}

static void add_saved(struct dt_rdzv *r, struct dt_seat *seat, struct saved *s)
{
    s->info.name = seat->name; /* made unique then, and known to people and the exclude table */
    struct dt_member *m = dt_members_add(&r->members, seat->holder, &s->info, r->now);
    if (!m) {
        seat->holder = 0; /* no memory: it counts as gone */
        return;
    }
    snprintf(m->said_name, sizeof m->said_name, "%s", s->name);
    if (strcmp(m->name.text, s->name) != 0 && r->members.crowd < 2)
        r->members.crowd = 2; /* it was not the only agent of its host */
    m->seat = (int)(seat - r->seats);
    m->command = r->spec.command;
    m->round = s->round;
    m->first_rank = s->first_rank;
    m->size = s->size;
    m->first_role_rank = s->first_role_rank;
    m->role_size = s->role_size;
    m->prev_rank = s->prev_rank;
    m->prev_size = s->prev_size;
    dt_members_set_doing(&r->members, m, s->doing);
    dt_members_mark_restored(&r->members, m, r->now);
}

static void read_seat(struct dt_reader *in, struct dt_rdzv *r, struct dt_seat *seat)
{
    struct saved saved;
    seat->holder = dt_read_u64(in);
    read_string(in, seat->name, sizeof seat->name);
    read_string(in, seat->domain, sizeof seat->domain);
    seat->done = dt_read_u8(in) != 0;
    bool there = dt_read_u8(in) != 0;
    if (there)
        read_member(in, &saved, seat->domain);
    if (there && dt_members_find(&r->members, seat->holder))
        in->bad = true; /* nobody sits twice */
    if (in->bad)
        return;
    if (there && seat->holder)
        add_saved(r, seat, &saved);
    else
        seat->holder = 0;
    if (!seat->holder && seat->done && r->state == DT_RUN_GATHERING)
        in->bad = true; /* the round is over, and nobody is done with the next */
    if (!seat->holder && seat->done && r->state == DT_RUN_RUNNING)
        r->running.done_gone++;
    if (!seat->holder && (seat->done || r->state != DT_RUN_RUNNING))
        seat->gone = r->now; /* else it is yet to come back */
}

static bool read_seats(struct dt_reader *in, struct dt_rdzv *r)
{
    uint32_t count = dt_read_u32(in);
    if (in->bad || count > DT_NODES_MOST || count > dt_reader_left(in))
        return false;
    r->seats = calloc(count ? count : 1, sizeof *r->seats);
    if (!r->seats)
        return false;
    r->seats_len = count;
    for (uint32_t i = 0; i < count && !in->bad; i++)
        read_seat(in, r, &r->seats[i]);
    return !in->bad && dt_reader_left(in) == 0;
}

static void read_fault(struct dt_reader *in, struct dt_fault *f)
{
    f->pending = dt_read_u8(in) != 0;
    if (!f->pending)
        return;
    uint8_t flags = dt_read_u8(in); /* older servers write the first only, and take any for it */
    f->node_lost = flags & 1;
    f->newcomer = flags & 2;
    in->bad = in->bad || flags > 3;
    uint8_t evidence = dt_read_u8(in);
    in->bad = in->bad || evidence >= DT_EVIDENCES;
    f->evidence = (enum dt_evidence)evidence;
    read_string(in, f->node, sizeof f->node);
    read_string(in, f->text, sizeof f->text);
    read_string(in, f->signature, sizeof f->signature);
}

/* A record may hold what belongs to another state, and that is not used. */
static void enter_saved(struct dt_rdzv *r, enum dt_run_state state, const struct dt_closed *closed,
                        const struct dt_fault *fault)
{
    rdzv_enter(r, state);
    if (state == DT_RUN_CLOSED)
        r->closed = *closed;
    if (state == DT_RUN_GATHERING)
        r->gathering.fault = *fault;
}

static bool read_run(struct dt_reader *in, struct dt_rdzv *r)
{
    struct dt_budget *b = &r->budget;
    struct dt_closed closed = {0};
    struct dt_fault fault = {0};
    uint8_t version = dt_read_u8(in);
    if (version < 1 || version > RECORD_VERSION)
        return false;
    read_spec(in, &r->spec);
    read_string(in, r->job, sizeof r->job);
    if (version > 1)
        read_owner(in, r);
    r->spec.job = r->job;
    r->spec.script = r->script;
    r->spec.user = r->user;
    uint8_t state = dt_read_u8(in);
    r->had_world = dt_read_u8(in) != 0;
    r->round = read_count(in);
    r->size = read_int(in, 0);
    r->master_port = read_int(in, 0);
    closed.kind = (enum dt_close_kind)read_between(in, 0, DT_CLOSE_KINDS - 1);
    b->restarts = read_count(in);
    b->spent = read_count(in);
    b->losses = read_count(in);
    b->stuck = read_count(in);
    b->step = read_between(in, -1, INT64_MAX);
    b->step_at_failure = read_between(in, -1, INT64_MAX);
    read_string(in, r->master_addr, sizeof r->master_addr);
    read_string(in, closed.why, sizeof closed.why);
    read_fault(in, &fault);
    if (in->bad || state > DT_RUN_CLOSED)
        return false;
    enter_saved(r, (enum dt_run_state)state, &closed, &fault);
    return read_seats(in, r);
}

/* Whether what a node does can be, in a run of that state. */
static bool is_likely(const struct dt_rdzv *r, const struct dt_member *m)
{
    bool works = m->doing == DT_DOING_RUNNING || m->doing == DT_DOING_DONE;
    if (r->state == DT_RUN_GATHERING)
        return !works;
    return r->state == DT_RUN_CLOSED ||
           (works && m->round == r->round && r->seats[m->seat].done == (m->doing == DT_DOING_DONE));
}

/* A record whose parts contradict each other is not ours. */
static bool is_whole(const struct dt_rdzv *r)
{
    dt_list_each(&r->members.all, n)
    {
        if (!is_likely(r, dt_container_of(n, struct dt_member, in_all)))
            return false;
    }
    return r->state != DT_RUN_RUNNING || (r->had_world && r->seats_len > 0);
}

/* What stood in the record was true when it was written. */
static void resume(struct dt_rdzv *r)
{
    r->begun = true;
    if (r->state == DT_RUN_GATHERING)
        r->gathering.stop_deadline = dt_clock_after(r->now + rdzv_patience(r), r->spec.stop_bound);
    if (r->state == DT_RUN_RUNNING && r->members.count + r->running.done_gone < r->seats_len)
        rdzv_await_seats(r);
}

struct dt_rdzv *dt_rdzv_restore(const char *id, struct dt_exclude *exclude, uint64_t seed,
                                struct dt_bytes record, dt_ms now)
{
    struct dt_reader in = dt_reader_over(record.at, record.len);
    struct dt_rdzv *r = dt_rdzv_create(id, exclude, seed);
    if (!r)
        return NULL;
    r->now = now;
    if (!read_run(&in, r) || !is_whole(r)) {
        dt_rdzv_destroy(r);
        return NULL;
    }
    resume(r);
    return r;
}
