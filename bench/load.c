/* SPDX-License-Identifier: Apache-2.0 */
/* See load.h. Answers come in order, so the operations in flight of a connection are a ring: an
 * answer belongs to the oldest. All connections share the buffer for reading; what is left of a
 * split answer (never a whole head) is carried in the connection, and bodies are skipped without
 * being stored. New requests are gathered in the connection's own buffer, which holds the longest
 * step once per operation in flight and so cannot overflow.
 *
 * Clock: one stamp per read serves as the end of the operations it completes and as the beginning
 * of those it sets off, so the time spent in this process between both counts against neither. */
#include "bench/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "bench/fill.h"

enum { READ_MAX = 256 * 1024, EVENTS = 256 };

enum phase { WARMING, MEASURING, DRAINING, DONE };

struct flight {
    uint64_t begun;
    uint32_t key;
    uint8_t plan, step;
};

struct conn {
    int fd;
    bool wants_write;
    uint32_t head, tail; /* of the ring; head is the oldest */
    uint64_t random;
    size_t skip; /* body bytes of the oldest answer still to come */
    size_t carry_len;
    size_t out_at, out_len;
    uint8_t *out;
    struct flight *ring;
    uint8_t carry[WIRE_HEAD_MAX];
};

struct engine {
    const struct load *l;
    const struct wire *wire;
    struct load_result *r;
    struct plan_set plans;
    int epoll;
    struct conn *conns;
    struct flight *rings;
    uint8_t *outs;
    size_t out_size;
    uint32_t ring_mask;
    enum phase phase;
    uint64_t began, phase_ends, last_answer;
    uint64_t begun;  /* operations that count towards the requests */
    uint64_t flying; /* operations without an end */
    uint8_t *in;     /* WIRE_HEAD_MAX for a carry, then READ_MAX */
};

uint64_t load_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t next_random(struct conn *c)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return c->random;
}

/* Appends the request of the flight's step and puts the flight at the end of the ring. */
static void depart(struct engine *e, struct conn *c, struct flight fl)
{
    const struct out *text = &e->plans.plan[fl.plan].step[fl.step].text;
    uint8_t *at = c->out + c->out_len;
    memcpy(at, text->text.at, text->text.len);
    for (unsigned i = 0; i < text->keys; i++)
        key_put_digits(at + text->key_at[i], e->l->key.digits, fl.key);
    c->out_len += text->text.len;
    c->ring[c->tail++ & e->ring_mask] = fl;
}

static void begin(struct engine *e, struct conn *c, uint64_t now)
{
    bool enough = e->phase == MEASURING && e->l->requests && e->begun >= e->l->requests;
    if (enough || e->phase > MEASURING)
        return;
    uint64_t random = next_random(c);
    struct flight fl = {
        .begun = now,
        .key = (uint32_t)(((random >> 32) * e->l->keys) >> 32),
        .plan = (uint8_t)(random & (e->plans.plans - 1)),
    };
    e->begun++;
    e->flying++;
    depart(e, c, fl);
}

/* The oldest answer is complete: the next step of its operation, or its end and a new one. */
static void arrive(struct engine *e, struct conn *c, uint64_t now)
{
    struct flight fl = c->ring[c->head++ & e->ring_mask];
    if (++fl.step < e->plans.plan[fl.plan].steps) {
        depart(e, c, fl);
        return;
    }
    e->flying--;
    if (e->phase != WARMING)
        hist_add(&e->r->latency, now - fl.begun);
    if (e->phase == MEASURING)
        e->r->done++;
    begin(e, c, now);
}

static int lost(struct engine *e, ssize_t n, struct dt_err *err)
{
    if (n == 0)
        return dt_err_set(err, DT_E_RUNTIME, "%s closed a connection under load", e->l->dial->name);
    return dt_err_set(err, DT_E_RUNTIME, "%s: %s under load", e->l->dial->name, strerror(errno));
}

static int watch(struct engine *e, struct conn *c, bool write)
{
    if (c->wants_write == write)
        return 0;
    c->wants_write = write;
    struct epoll_event ev = {.events = EPOLLIN | (write ? EPOLLOUT : 0u), .data.ptr = c};
    return epoll_ctl(e->epoll, EPOLL_CTL_MOD, c->fd, &ev);
}

static int flush(struct engine *e, struct conn *c, struct dt_err *err)
{
    if (c->out_at == c->out_len)
        return 0;
    ssize_t n = send(c->fd, c->out + c->out_at, c->out_len - c->out_at, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN)
        return lost(e, n, err);
    if (n > 0)
        c->out_at += (size_t)n;
    bool rest = c->out_at < c->out_len;
    if (!rest)
        c->out_at = c->out_len = 0;
    return watch(e, c, rest) < 0 ? lost(e, -1, err) : 0;
}

/* Makes room for what this read may set off: drops the part that has been sent. */
static void settle(struct conn *c)
{
    if (c->out_at == 0)
        return;
    memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
    c->out_len -= c->out_at;
    c->out_at = 0;
}

/* Takes all complete answers from P; what remains is carried. */
static int take(struct engine *e, struct conn *c, const uint8_t *p, size_t n, uint64_t now,
                struct dt_err *err)
{
    while (n > 0) {
        if (c->skip == 0) {
            if (c->head == c->tail)
                return dt_err_set(err, DT_E_RUNTIME, "%s sent an answer to no request",
                                  e->l->dial->name);
            const struct flight *fl = &c->ring[c->head & e->ring_mask];
            const struct step *step = &e->plans.plan[fl->plan].step[fl->step];
            struct answer a;
            enum answer_state got = e->wire->answer(step->answer, p, n, &a);
            if (got == ANSWER_MORE && n <= WIRE_HEAD_MAX) {
                memcpy(c->carry, p, n);
                c->carry_len = n;
                return 0;
            }
            if (got != ANSWER_DONE)
                return dt_err_set(err, DT_E_RUNTIME, "%s sent an answer that is none: \"%.*s\"",
                                  e->l->dial->name, n < 60 ? (int)n : 60, (const char *)p);
            if (step->answer == ANSWER_VALUE && a.value != step->value)
                return dt_err_set(err, DT_E_RUNTIME, "%s sent a value of %zu bytes instead of %zu",
                                  e->l->dial->name, a.value, step->value);
            p += a.head;
            n -= a.head;
            c->skip = a.body;
        }
        size_t here = c->skip < n ? c->skip : n;
        p += here;
        n -= here;
        c->skip -= here;
        if (c->skip == 0)
            arrive(e, c, now);
    }
    return 0;
}

static int on_readable(struct engine *e, struct conn *c, struct dt_err *err)
{
    ssize_t n = recv(c->fd, e->in + WIRE_HEAD_MAX, READ_MAX, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return lost(e, n, err);
    uint64_t now = load_now();
    e->last_answer = now;
    size_t carry = c->carry_len;
    uint8_t *p = e->in + WIRE_HEAD_MAX - carry;
    memcpy(p, c->carry, carry);
    c->carry_len = 0;
    settle(c);
    if (take(e, c, p, (size_t)n + carry, now, err) < 0)
        return -1;
    return flush(e, c, err);
}

static int open_conns(struct engine *e, struct dt_err *err)
{
    for (unsigned i = 0; i < e->l->connections; i++) {
        struct conn *c = &e->conns[i];
        c->fd = dial_open(e->l->dial, err);
        if (c->fd < 0)
            return -1;
        dial_nonblocking(c->fd);
        c->random = 0x9e3779b97f4a7c15u * (i + 1);
        c->ring = e->rings + (size_t)i * (e->ring_mask + 1);
        c->out = e->outs + (size_t)i * e->out_size;
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
        if (epoll_ctl(e->epoll, EPOLL_CTL_ADD, c->fd, &ev) < 0)
            return lost(e, -1, err);
    }
    return 0;
}

static int engine_init(struct engine *e, const struct load *l, struct load_result *r,
                       struct dt_err *err)
{
    *e = (struct engine){.l = l, .wire = l->dial->wire, .r = r, .ring_mask = 1};
    e->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (plan_set_init(&e->plans, l->op, e->wire, l->key, l->value_size, err) < 0)
        return -1;
    while (e->ring_mask + 1 < l->depth)
        e->ring_mask = e->ring_mask * 2 + 1;
    e->out_size = e->plans.longest * l->depth;
    if (e->out_size > ((size_t)1 << 32) / l->connections)
        return dt_err_set(err, DT_E_USAGE,
                          "%u connections with %u requests of %zu bytes in flight are over 4 GiB",
                          l->connections, l->depth, e->plans.longest);
    e->conns = calloc(l->connections, sizeof(*e->conns));
    e->rings = calloc((size_t)l->connections * (e->ring_mask + 1), sizeof(*e->rings));
    e->outs = malloc(e->out_size * l->connections);
    e->in = malloc(WIRE_HEAD_MAX + READ_MAX);
    if (!e->conns || !e->rings || !e->outs || !e->in)
        return dt_err_set(err, DT_E_RUNTIME, "out of memory for %u connections", l->connections);
    for (unsigned i = 0; i < l->connections; i++)
        e->conns[i].fd = -1;
    return dial_room_for(l->connections, err);
}

static void engine_finish(struct engine *e)
{
    for (unsigned i = 0; e->conns && i < e->l->connections; i++)
        dial_close(e->conns[i].fd);
    plan_set_finish(&e->plans);
    free(e->conns);
    free(e->rings);
    free(e->outs);
    free(e->in);
    close(e->epoll);
}

static void enter(struct engine *e, enum phase phase, uint64_t now)
{
    double seconds = phase == WARMING ? e->l->warmup : e->l->seconds;
    if (e->phase == MEASURING)
        e->r->seconds = (double)(now - e->began) / 1e9;
    if (phase == MEASURING)
        e->begun = e->flying; /* what the warm-up left in flight is measured, too */
    e->phase = phase;
    e->began = now;
    e->phase_ends = now + (uint64_t)(seconds * 1e9);
}

static void on_clock(struct engine *e, uint64_t now)
{
    if (e->phase == WARMING && now >= e->phase_ends)
        enter(e, MEASURING, now);
    else if (e->phase == MEASURING &&
             (now >= e->phase_ends || (e->l->requests && e->r->latency.count >= e->l->requests)))
        enter(e, DRAINING, now);
    if (e->phase == DRAINING && e->flying == 0)
        enter(e, DONE, now);
    /* Whatever else arrives, an operation begun in time has the stall time to end. */
    if (now > e->last_answer + (uint64_t)(e->l->stall * 1e9) ||
        (e->phase == DRAINING && now > e->began + (uint64_t)(e->l->stall * 1e9))) {
        e->r->frozen = true;
        enter(e, DONE, now);
    }
}

/* What never ended counts with the age it reached. */
static void count_unended(struct engine *e, uint64_t now)
{
    for (unsigned i = 0; i < e->l->connections; i++) {
        struct conn *c = &e->conns[i];
        for (; c->head != c->tail; c->head++) {
            const struct flight *fl = &c->ring[c->head & e->ring_mask];
            hist_add(&e->r->latency, now - fl->begun);
        }
    }
}

static int start(struct engine *e, struct dt_err *err)
{
    uint64_t now = e->last_answer = load_now();
    enter(e, e->l->warmup > 0 ? WARMING : MEASURING, now);
    for (unsigned i = 0; i < e->l->connections; i++) {
        for (unsigned j = 0; j < e->l->depth; j++)
            begin(e, &e->conns[i], load_now());
        if (flush(e, &e->conns[i], err) < 0)
            return -1;
    }
    return 0;
}

static int loop(struct engine *e, struct dt_err *err)
{
    struct epoll_event events[EVENTS];
    while (e->phase != DONE) {
        int n = epoll_wait(e->epoll, events, EVENTS, 50);
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            if ((events[i].events & EPOLLOUT) && flush(e, c, err) < 0)
                return -1;
            if ((events[i].events & ~(uint32_t)EPOLLOUT) && on_readable(e, c, err) < 0)
                return -1;
        }
        on_clock(e, load_now());
    }
    count_unended(e, load_now());
    return 0;
}

int load_run(const struct load *l, struct load_result *r, struct dt_err *err)
{
    struct engine e;
    int rc = engine_init(&e, l, r, err);
    if (rc == 0 && e.plans.reads_values)
        rc = fill_values(l->dial, l->key, l->keys, l->value_size, err);
    if (rc == 0)
        rc = open_conns(&e, err);
    if (rc == 0)
        rc = start(&e, err);
    if (rc == 0)
        rc = loop(&e, err);
    engine_finish(&e);
    return rc;
}
