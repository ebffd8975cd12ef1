/* SPDX-License-Identifier: Apache-2.0 */
/* A run as bytes, for the journal: what nodes agreed on, who sits where, what was charged. Who is
 * connected, and what time is left, are found out anew. */
#include "rendezvous/rdzv/inside.h"

#include <stdio.h>
#include <stdlib.h>

/* Since 3 the spec has its length in front, since 4 history is there, since 5 why it is paused,
 * since 6 who began it, and with which key, since 7 that a person ends it. */
#define RECORD_VERSION 7
#define V1_SPEC_ROWS 20      /* what a spec had then: up to "job" ... */
#define V2_SPEC_ROWS 22      /* ... and up to "user"; "mixed" followed, as one byte */
#define COUNT_MOST (3 << 29) /* nothing of ours ever counted so far, and it may be counted on */

/* -- a member --------------------------------------------------------------------------------- */

/* clang-format off */
#define NUMBER(member, least, most) \
    {.name = #member, .kind = DT_FIELD_INT, .at = offsetof(struct dt_member, member), .min = least, .max = most}
#define TEXT(member) \
    {.name = #member, .kind = DT_FIELD_TEXT, .at = offsetof(struct dt_member, member), \
     .max = sizeof((struct dt_member *)0)->member - 1}
/* clang-format on */

static const struct dt_field member_fields[] = {
    TEXT(said_name),
    TEXT(boot),
    TEXT(role),
    TEXT(addr),
    NUMBER(port, 0, UINT16_MAX),
    NUMBER(workers, 1, DT_WORKERS_MOST),
    NUMBER(order, -1, INT32_MAX),
    NUMBER(expected, 0, DT_NODES_WISHED_MOST),
    NUMBER(round, -1, INT32_MAX),
    NUMBER(first_rank, 0, DT_RANKS_MOST - 1),
    NUMBER(size, 0, DT_RANKS_MOST),
    NUMBER(first_role_rank, 0, DT_RANKS_MOST - 1),
    NUMBER(role_size, 0, DT_RANKS_MOST),
    NUMBER(prev_rank, -1, DT_RANKS_MOST - 1),
    NUMBER(prev_size, 0, DT_RANKS_MOST),
    {.name = "doing",
     .kind = DT_FIELD_ENUM,
     .at = offsetof(struct dt_member, doing),
     .max = DT_MEMBER_DOINGS},
    {0},
};

/* -- writing ---------------------------------------------------------------------------------- */

/* Whose job it is stands there, too: a node of another is refused after a restart as before. */
static void put_spec(struct dt_buf *out, const struct dt_run_spec *s)
{
    size_t start = out->len;
    dt_buf_put_u32(out, 0);
    dt_fields_pack(out, s, dt_spec_fields);
    if (!out->bad)
        dt_buf_set_u32(out, start, (uint32_t)(out->len - start - sizeof(uint32_t)));
}

static void put_member(struct dt_buf *out, const struct dt_member *m)
{
    dt_buf_put_u8(out, m != NULL);
    if (m)
        dt_fields_pack(out, m, member_fields);
}

static void put_seat(struct dt_buf *out, const struct dt_rdzv *r, const struct dt_seat *s)
{
    dt_buf_put_u64(out, s->holder);
    dt_buf_put_text(out, s->name);
    dt_buf_put_text(out, s->domain);
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
    dt_buf_put_text(out, f->node);
    dt_buf_put_text(out, f->text);
    dt_buf_put_text(out, f->signature);
}

void dt_rdzv_save(const struct dt_rdzv *r, struct dt_buf *out)
{
    const struct dt_budget *b = &r->budget;
    if (!r->begun)
        return;
    dt_buf_put_u8(out, RECORD_VERSION);
    put_spec(out, &r->spec);
    dt_buf_put_u8(out, (uint8_t)r->state);
    dt_buf_put_u8(out, r->had_world);
    const int64_t numbers[] = {r->round,    r->size,           r->master_port, r->closed.kind,
                               b->restarts, b->spent,          b->losses,      b->stuck,
                               b->step,     b->step_at_failure};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dt_buf_put_i64(out, numbers[i]);
    dt_buf_put_text(out, r->master_addr);
    dt_buf_put_text(out, r->closed.why);
    put_fault(out, &r->gathering.fault);
    dt_history_save(&r->history, out);
    dt_buf_put_text(out, r->gathering.paused);
    dt_buf_put_i64(out, r->beginning.wall_us);
    dt_buf_put_text(out, r->beginning.node);
    dt_buf_put_text(out, r->key);
    dt_buf_put_text(out, r->gathering.stopped);
    dt_buf_put_u32(out, (uint32_t)r->seats_len);
    for (size_t i = 0; i < r->seats_len; i++)
        put_seat(out, r, &r->seats[i]);
}

/* -- reading ---------------------------------------------------------------------------------- */

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

static void read_spec(struct dt_reader *in, uint8_t version, struct dt_run_spec *s)
{
    if (version < 3) {
        dt_fields_unpack(in, s, dt_spec_fields, version > 1 ? V2_SPEC_ROWS : V1_SPEC_ROWS);
        s->mixed = version > 1 && dt_read_u8(in) != 0;
    } else {
        uint32_t len = dt_read_u32(in);
        const uint8_t *at = dt_read_bytes(in, len);
        struct dt_reader rows = dt_reader_over(at, at ? len : 0);
        dt_fields_unpack(&rows, s, dt_spec_fields, SIZE_MAX);
        in->bad = in->bad || rows.bad;
    }
    in->bad = in->bad || s->max_nodes < s->min_nodes;
}

/* S is what stands in the record. */
static void add_saved(struct dt_rdzv *r, struct dt_seat *seat, const struct dt_member *s)
{
    struct dt_node_info info = {
        .name = seat->name, /* made unique then, and known to people and the exclude table */
        .boot = s->boot,
        .domain = seat->domain,
        .addr = s->addr,
        .port = s->port,
        .role = s->role,
        .workers = s->workers,
        .order = s->order,
        .expected = s->expected,
    };
    struct dt_member *m = dt_members_add(&r->members, seat->holder, &info, r->now);
    if (!m) {
        seat->holder = 0; /* no memory: it counts as gone */
        return;
    }
    snprintf(m->said_name, sizeof m->said_name, "%s", s->said_name);
    if (strcmp(m->name.text, s->said_name) != 0 && r->members.crowd < 2)
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
    struct dt_member saved;
    seat->holder = dt_read_u64(in);
    dt_read_text(in, seat->name, sizeof seat->name);
    dt_read_text(in, seat->domain, sizeof seat->domain);
    seat->done = dt_read_u8(in) != 0;
    bool there = dt_read_u8(in) != 0;
    if (there)
        dt_fields_unpack(in, &saved, member_fields, SIZE_MAX);
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
    dt_read_text(in, f->node, sizeof f->node);
    dt_read_text(in, f->text, sizeof f->text);
    dt_read_text(in, f->signature, sizeof f->signature);
    f->suspect.rank = -1; /* what was suspected is not in the record */
}

static void read_beginning(struct dt_reader *in, struct dt_rdzv *r)
{
    r->beginning.wall_us = read_between(in, 0, INT64_MAX);
    dt_read_text(in, r->beginning.node, sizeof r->beginning.node);
    dt_read_text(in, r->key, sizeof r->key);
}

/* A record may hold what belongs to another state, and that is not used. */
static void enter_saved(struct dt_rdzv *r, enum dt_run_state state, const struct dt_closed *closed,
                        const struct dt_gathering *gathering)
{
    rdzv_enter(r, state);
    if (state == DT_RUN_CLOSED)
        r->closed = *closed;
    if (state != DT_RUN_GATHERING)
        return;
    r->gathering.fault = gathering->fault;
    memcpy(r->gathering.paused, gathering->paused, sizeof gathering->paused);
    memcpy(r->gathering.stopped, gathering->stopped, sizeof gathering->stopped);
}

static bool read_run(struct dt_reader *in, struct dt_rdzv *r)
{
    struct dt_budget *b = &r->budget;
    struct dt_closed closed = {0};
    struct dt_gathering gathering = {0};
    uint8_t version = dt_read_u8(in);
    if (version < 1 || version > RECORD_VERSION)
        return false;
    read_spec(in, version, &r->spec);
    uint8_t state = dt_read_u8(in);
    r->had_world = dt_read_u8(in) != 0;
    r->round = read_count(in);
    r->size = read_int(in, 0);
    r->master_port = (int)read_between(in, 0, UINT16_MAX);
    closed.kind = (enum dt_close_kind)read_between(in, 0, DT_CLOSE_KINDS - 1);
    b->restarts = (int)read_between(in, 0, DT_RESTARTS_MOST);
    b->spent = read_count(in);
    b->losses = read_count(in);
    b->stuck = read_count(in);
    b->step = read_between(in, -1, INT64_MAX);
    b->step_at_failure = read_between(in, -1, INT64_MAX);
    dt_read_text(in, r->master_addr, sizeof r->master_addr);
    dt_read_text(in, closed.why, sizeof closed.why);
    read_fault(in, &gathering.fault);
    if (version > 3)
        dt_history_restore(&r->history, in);
    if (version > 4)
        dt_read_text(in, gathering.paused, sizeof gathering.paused);
    if (version > 5)
        read_beginning(in, r);
    if (version > 6)
        dt_read_text(in, gathering.stopped, sizeof gathering.stopped);
    if (in->bad || state > DT_RUN_CLOSED)
        return false;
    enter_saved(r, (enum dt_run_state)state, &closed, &gathering);
    return read_seats(in, r);
}

/* Whether what a node does can be, in a run of that state. */
static bool is_likely(const struct dt_rdzv *r, const struct dt_member *m)
{
    bool works = m->doing == DT_MEMBER_RUNNING || m->doing == DT_MEMBER_DONE;
    if (r->state == DT_RUN_GATHERING)
        return !works;
    return r->state == DT_RUN_CLOSED || (works && m->round == r->round &&
                                         r->seats[m->seat].done == (m->doing == DT_MEMBER_DONE));
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
