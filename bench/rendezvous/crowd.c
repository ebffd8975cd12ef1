/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/rendezvous/crowd.h"

#include "base/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RUN "crowd"
#define WORKERS 8
#define EVENTS 512
#define READ_SIZE (64u << 10)
#define PATIENCE (120 * INT64_C(1000000000)) /* for all of a crowd to hear something */
#define PORTS_OF_AN_ADDRESS 20000            /* the kernel gives away somewhat more */

struct agent {
    int fd; /* -1: gone */
    bool greeted;
    uint64_t incarnation;
    int round;                  /* of its last world; -1: none */
    enum dt_message_type heard; /* last, but for beats and notes; DT_MSG_TYPES: nothing */
    struct dt_buf next;         /* the frame that it sends next */
    struct dt_buf in;           /* of a frame that has not all come */
    struct dt_buf told;         /* the frame of `heard` */
};

struct crowd {
    struct dt_addr server;
    int epoll;
    struct agent *agents;
    unsigned count, left;
    unsigned hearing[DT_MSG_TYPES + 1]; /* how many `heard` that last */
    int64_t first[DT_MSG_TYPES];        /* when hearing[] was 0 last */
    struct dt_buf greeting;
    struct crowd_counts counts;
    bool beating;
    uint64_t echoed;
    uint8_t bytes[READ_SIZE];
};

/* -- frames ----------------------------------------------------------------------------------- */

/* What dtrun says without options, but for the number of nodes. */
static const struct dt_run_spec usual = {
    .max_restarts = 3,
    .max_node_losses = -1,
    .no_progress = 3,
    .strikes = 3,
    .quarantine = 600 * DT_SECOND,
    .join_timeout = 600 * DT_SECOND,
    .last_call = 30 * DT_SECOND,
    .beat = 5 * DT_SECOND,
    .beats = 3,
    .reconnect_grace = 100,
    .stop_bound = 40 * DT_SECOND,
    .restart_reset = 3600 * DT_SECOND,
    .command = 0x6c65747320676f21,
    .job = "4242",
};

static void make_join(const struct crowd *c, struct agent *a)
{
    char name[32], addr[32];
    unsigned i = (unsigned)(a - c->agents);
    snprintf(name, sizeof name, "node%05u", i);
    snprintf(addr, sizeof addr, "10.%u.%u.%u", i >> 16, (i >> 8) & 255, i & 255);
    struct dt_message m = {
        .type = DT_MSG_JOIN,
        .run = RUN,
        .round = a->round,
        .incarnation = a->incarnation,
        .join = {.spec = usual,
                 .node = {.name = name,
                          .boot = "1f0c3a52-6f0e-4a6b-9d0c-2f6f4d1c9b11",
                          .domain = "",
                          .addr = addr,
                          .port = 29500,
                          .role = "default",
                          .workers = WORKERS,
                          .order = -1},
                 .claim = {.seat = -1, .first_rank = -1}},
    };
    m.join.spec.min_nodes = c->count > 1 ? (int)c->count - 1 : 1;
    m.join.spec.max_nodes = (int)c->count;
    dt_buf_clear(&a->next);
    dt_message_encode(&a->next, &m);
}

static void make_beat(struct agent *a)
{
    struct dt_message m = {.type = DT_MSG_BEAT,
                           .run = RUN,
                           .round = a->round,
                           .incarnation = a->incarnation,
                           .beat = {.seq = 1, .step = 1000, .running = WORKERS}};
    dt_buf_clear(&a->next);
    dt_message_encode(&a->next, &m);
}

static void make_greeting(struct crowd *c)
{
    struct dt_message hello = {.type = DT_MSG_HELLO,
                               .hello = {.version = DT_CONTROL_VERSION, .program = "rdzv_crowd"}};
    dt_control_put_preamble(&c->greeting);
    dt_message_encode(&c->greeting, &hello);
}

/* Without reading all of it: every frame begins with its type. */
static enum dt_message_type type_of(const uint8_t *json, size_t len)
{
    static const char begin[] = "{\"type\":\"";
    size_t at = sizeof begin - 1;
    if (len < at || memcmp(json, begin, at) != 0)
        return DT_MSG_TYPES;
    for (int t = 0; t < DT_MSG_TYPES; t++) {
        const char *name = dt_message_name((enum dt_message_type)t);
        size_t n = strlen(name);
        if (len > at + n && json[at + n] == '"' && memcmp(json + at, name, n) == 0)
            return (enum dt_message_type)t;
    }
    return DT_MSG_TYPES;
}

/* -- beginning and end ------------------------------------------------------------------------ */

static int make_agents(struct crowd *c, struct dt_err *err)
{
    c->agents = calloc(c->count, sizeof *c->agents);
    if (!c->agents)
        return dt_err_set(err, DT_E_RUNTIME, "no memory for %u agents", c->count);
    for (unsigned i = 0; i < c->count; i++) {
        c->agents[i] = (struct agent){
            .fd = -1, .incarnation = (UINT64_C(1) << 60) + i, .round = -1, .heard = DT_MSG_TYPES};
        make_join(c, &c->agents[i]);
    }
    return 0;
}

struct crowd *crowd_open(const char *server, unsigned agents, struct dt_err *err)
{
    struct crowd *c = calloc(1, sizeof *c);
    if (!c) {
        dt_err_set(err, DT_E_RUNTIME, "no memory");
        return NULL;
    }
    c->count = c->left = agents;
    c->hearing[DT_MSG_TYPES] = agents;
    make_greeting(c);
    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    size_t found;
    if (dt_addr_resolve(server, 0, &c->server, 1, &found, err) < 0 || make_agents(c, err) < 0) {
        crowd_close(c);
        return NULL;
    }
    return c;
}

void crowd_close(struct crowd *c)
{
    /* With a reset, so that ten thousand leave nothing behind in the kernel. */
    struct linger reset = {.l_onoff = 1};
    for (unsigned i = 0; c->agents && i < c->count; i++) {
        struct agent *a = &c->agents[i];
        if (a->fd >= 0) {
            setsockopt(a->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
            close(a->fd);
        }
        dt_buf_finish(&a->next);
        dt_buf_finish(&a->in);
        dt_buf_finish(&a->told);
    }
    dt_buf_finish(&c->greeting);
    close(c->epoll);
    free(c->agents);
    free(c);
}

const struct crowd_counts *crowd_counts(const struct crowd *c)
{
    return &c->counts;
}

/* -- out -------------------------------------------------------------------------------------- */

static int send_bytes(struct crowd *c, struct agent *a, const struct dt_buf *b, struct dt_err *err)
{
    ssize_t n = send(a->fd, b->at, b->len, MSG_NOSIGNAL);
    if (n != (ssize_t)b->len)
        return dt_err_set(err, DT_E_RUNTIME, "agent %d could not send %zu bytes: %s",
                          (int)(a - c->agents), b->len,
                          n < 0 ? strerror(errno) : "nobody reads what it said before");
    c->counts.frames_up++;
    c->counts.bytes_up += b->len;
    return 0;
}

/* Loopback is a whole network of addresses, each with ports of its own. */
static void choose_source(const struct crowd *c, const struct agent *a)
{
    unsigned i = (unsigned)(a - c->agents) / PORTS_OF_AN_ADDRESS;
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + i)};
    int on = 1;
    if (i == 0 || c->server.sa.ss_family != AF_INET || !dt_addr_is_local(&c->server))
        return;
    setsockopt(a->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    (void)!bind(a->fd, (struct sockaddr *)&from, sizeof from);
}

static int connect_agent(struct crowd *c, struct agent *a, struct dt_err *err)
{
    int on = 1;
    a->fd = socket(c->server.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (a->fd < 0)
        return dt_err_set(err, DT_E_RUNTIME, "no socket: %s", strerror(errno));
    setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    choose_source(c, a);
    if (connect(a->fd, (struct sockaddr *)&c->server.sa, c->server.len) < 0 && errno != EINPROGRESS)
        return dt_err_set(err, DT_E_RUNTIME, "no connection: %s", strerror(errno));
    struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = a};
    epoll_ctl(c->epoll, EPOLL_CTL_ADD, a->fd, &ev);
    return 0;
}

int crowd_connect(struct crowd *c, struct dt_err *err)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < c->count; i++)
        rc = connect_agent(c, &c->agents[i], err);
    return rc;
}

void crowd_kill_one(struct crowd *c)
{
    struct agent *a = &c->agents[c->count - 1];
    close(a->fd);
    a->fd = -1;
    c->left--;
    c->hearing[a->heard]--;
}

void crowd_prepare(struct crowd *c)
{
    for (unsigned i = 0; i < c->count; i++)
        make_join(c, &c->agents[i]);
}

static int send_all(struct crowd *c, struct dt_err *err)
{
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < c->count; i++)
        if (c->agents[i].fd >= 0)
            rc = send_bytes(c, &c->agents[i], &c->agents[i].next, err);
    return rc;
}

int crowd_rejoin(struct crowd *c, struct dt_err *err)
{
    return send_all(c, err);
}

/* -- in --------------------------------------------------------------------------------------- */

static int take_frame(struct crowd *c, struct agent *a, const uint8_t *frame, size_t len,
                      struct dt_err *err)
{
    enum dt_message_type type = type_of(frame + sizeof(uint32_t), len - sizeof(uint32_t));
    c->counts.frames_down++;
    c->counts.bytes_down += len;
    switch (type) {
    case DT_MSG_NOTE:
        return 0;
    case DT_MSG_BEAT:
        c->echoed++;
        return c->beating ? send_bytes(c, a, &a->next, err) : 0;
    case DT_MSG_HELLO:
        return send_bytes(c, a, &a->next, err);
    case DT_MSG_WORLD:
    case DT_MSG_STOP:
        break;
    default:
        return dt_err_set(err, DT_E_RUNTIME, "agent %d was told: %.*s", (int)(a - c->agents),
                          (int)(len < 204 ? len - 4 : 200), (const char *)frame + 4);
    }
    dt_buf_clear(&a->told);
    dt_buf_put(&a->told, frame, len);
    c->hearing[a->heard]--;
    a->heard = type;
    if (c->hearing[type]++ == 0)
        c->first[type] = dt_clock_monotonic_ns();
    return 0;
}

/* Takes whole frames off the front of BYTES; *USED: how many bytes those were. */
static int take_frames(struct crowd *c, struct agent *a, const uint8_t *bytes, size_t len,
                       size_t *used, struct dt_err *err)
{
    *used = 0;
    for (;;) {
        struct dt_reader r = dt_reader_over(bytes + *used, len - *used);
        uint32_t size = dt_read_u32(&r);
        if (r.bad || dt_reader_left(&r) < size)
            return 0;
        if (take_frame(c, a, bytes + *used, sizeof size + size, err) < 0)
            return -1;
        *used += sizeof size + size;
    }
}

static int take_bytes(struct crowd *c, struct agent *a, size_t len, struct dt_err *err)
{
    size_t used;
    if (a->in.len == 0) {
        if (take_frames(c, a, c->bytes, len, &used, err) < 0)
            return -1;
        dt_buf_put(&a->in, c->bytes + used, len - used);
        return 0;
    }
    dt_buf_put(&a->in, c->bytes, len);
    if (take_frames(c, a, a->in.at, a->in.len, &used, err) < 0)
        return -1;
    dt_buf_consume(&a->in, used);
    return 0;
}

static int read_agent(struct crowd *c, struct agent *a, struct dt_err *err)
{
    for (;;) {
        ssize_t n = recv(a->fd, c->bytes, sizeof c->bytes, 0);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return dt_err_set(err, DT_E_RUNTIME, "the connection of agent %d ended: %s",
                              (int)(a - c->agents), n < 0 ? strerror(errno) : "it was closed");
        if (take_bytes(c, a, (size_t)n, err) < 0)
            return -1;
        if ((size_t)n < sizeof c->bytes)
            return 0; /* what comes now is another event */
    }
}

static int handle(struct crowd *c, const struct epoll_event *ev, struct dt_err *err)
{
    struct agent *a = ev->data.ptr;
    if (!a->greeted && (ev->events & EPOLLOUT) && !(ev->events & EPOLLERR)) {
        a->greeted = true;
        if (send_bytes(c, a, &c->greeting, err) < 0)
            return -1;
    }
    return ev->events & (EPOLLIN | EPOLLERR | EPOLLHUP) ? read_agent(c, a, err) : 0;
}

static int turn(struct crowd *c, int wait_ms, struct dt_err *err)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(c->epoll, events, EVENTS, wait_ms), rc = 0;
    for (int i = 0; rc == 0 && i < n; i++)
        rc = handle(c, &events[i], err);
    return rc;
}

int crowd_await(struct crowd *c, enum dt_message_type type, int64_t *first, struct dt_err *err)
{
    int64_t end = dt_clock_monotonic_ns() + PATIENCE;
    while (c->hearing[type] < c->left) {
        if (turn(c, 1000, err) < 0)
            return -1;
        if (dt_clock_monotonic_ns() > end)
            return dt_err_set(err, DT_E_RUNTIME, "only %u of %u agents heard %s in time",
                              c->hearing[type], c->left, dt_message_name(type));
    }
    if (first)
        *first = c->first[type];
    return 0;
}

static int check_world(struct crowd *c, struct agent *a, bool *taken, struct dt_err *err)
{
    struct dt_message m;
    struct dt_err why;
    size_t used;
    if (dt_message_decode(a->told.at, a->told.len, DT_FRAME_MAX, &m, &used, &why) != DT_DONE)
        return dt_err_set(err, DT_E_RUNTIME, "agent %d: %.200s", (int)(a - c->agents), why.text);
    const struct dt_world_message *w = &m.world;
    bool good = m.type == DT_MSG_WORLD && w->seats == (int)c->left && w->seat < w->seats &&
                w->size == w->seats * WORKERS && !taken[w->seat];
    if (good)
        taken[w->seat] = true;
    a->round = m.round;
    dt_message_finish(&m);
    return good ? 0
                : dt_err_set(err, DT_E_RUNTIME, "agent %d has a wrong world", (int)(a - c->agents));
}

int crowd_check_worlds(struct crowd *c, struct dt_err *err)
{
    bool *taken = calloc(c->count, sizeof *taken);
    int rc = taken ? 0 : dt_err_set(err, DT_E_RUNTIME, "no memory"), round = -1;
    for (unsigned i = 0; rc == 0 && i < c->count; i++) {
        struct agent *a = &c->agents[i];
        if (a->fd < 0)
            continue;
        rc = check_world(c, a, taken, err);
        if (rc == 0 && round >= 0 && a->round != round)
            rc =
                dt_err_set(err, DT_E_RUNTIME, "round %d and round %d run at once", round, a->round);
        round = a->round;
    }
    free(taken);
    return rc;
}

int crowd_beat(struct crowd *c, double seconds, uint64_t *echoed, struct dt_err *err)
{
    for (unsigned i = 0; i < c->count; i++)
        make_beat(&c->agents[i]);
    c->beating = true;
    c->echoed = 0;
    int64_t end = dt_clock_monotonic_ns() + (int64_t)(seconds * 1e9);
    int rc = send_all(c, err);
    while (rc == 0 && dt_clock_monotonic_ns() < end)
        rc = turn(c, 10, err);
    c->beating = false;
    *echoed = c->echoed;
    return rc;
}
