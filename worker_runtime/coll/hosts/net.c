/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/coll/hosts/net.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A connection can be seen to break before the news that its other end sent last are read: they
 * may lie in the kernel, or travel beside on another connection. */
#define NEWS_GRACE ((dt_ms)20)
#define NEWS_TIME ((dt_ms)200)
#define LEAVE_TIME (5 * DT_SECOND)
#define FETCH_SLICE ((dt_ms)200) /* of waiting for an address, between looks at who is gone */
#define KEY_MAX 320

struct peer {
    bool connected, left;
    dt_ms broken_at; /* 0: not */
    struct dt_hosts_blame news;
    struct dt_wire_request *news_request;
};

struct dt_net {
    const struct dt_wire_ops *ops;
    struct dt_wire *wire;
    const struct dt_roster *roster;
    struct dt_board *board;
    struct dt_meeting *meeting;
    int64_t epoch;
    dt_ms timeout;
    char name[200];
    struct peer *peers;          /* by rank */
    bool lost;                   /* by BLAME, */
    struct dt_hosts_blame blame; /* which was heard once */
    struct pollfd *watch;        /* the wire, and behind it the ranks of this host */
};

static void make_key(const struct dt_net *n, const char *what, int rank, char out[KEY_MAX])
{
    snprintf(out, KEY_MAX, "coll/%lld/%s/%s/%d", (long long)n->epoch, n->name, what, rank);
}

static int show_address(struct dt_net *n, struct dt_err *err)
{
    char key[KEY_MAX], address[DT_WIRE_ADDRESS_MAX], digits[8];
    size_t len;
    if (n->ops->address(n->wire, address, &len, err) < 0)
        return -1;
    /* Text, as hosts may differ in their order of bytes. */
    snprintf(digits, sizeof digits, "%zu", len);
    for (size_t i = strlen(digits); i < sizeof digits; i++)
        digits[i] = '\0';
    make_key(n, "net-len", n->roster->rank, key);
    if (n->meeting->set(n->meeting, key, digits, sizeof digits, err) < 0)
        return -1;
    make_key(n, "net", n->roster->rank, key);
    return n->meeting->set(n->meeting, key, address, len, err);
}

struct dt_net *dt_net_open(const struct dt_coll_group *g, const struct dt_roster *roster,
                           struct dt_board *board, struct dt_meeting *m, struct dt_err *err)
{
    const struct dt_wire_ops *ops = dt_wire_load(err);
    struct dt_net *n = ops ? calloc(1, sizeof *n) : NULL;
    if (!n) {
        if (ops)
            dt_err_set(err, DT_E_MEMORY, "no memory for connections to other hosts");
        return NULL;
    }
    n->ops = ops;
    n->roster = roster;
    n->board = board;
    n->meeting = m;
    n->epoch = g->epoch;
    n->timeout = g->timeout;
    n->peers = calloc((size_t)g->size, sizeof *n->peers);
    n->watch = calloc((size_t)dt_roster_own(roster)->n + 1, sizeof *n->watch);
    if (!n->peers || !n->watch)
        dt_err_set(err, DT_E_MEMORY, "no memory for connections to other hosts");
    else if (snprintf(n->name, sizeof n->name, "%s", g->name) >= (int)sizeof n->name)
        dt_err_set(err, DT_E_RUNTIME, "the name of group %.100s is too long", g->name);
    else if ((n->wire = ops->open(roster->rank, err)) && show_address(n, err) == 0)
        return n;
    ops->close(n->wire);
    free(n->peers);
    free(n->watch);
    free(n);
    return NULL;
}

static void tell(struct dt_net *n, int rank, const struct dt_hosts_blame *news)
{
    struct dt_wire_request *r;
    struct peer *p = &n->peers[rank];
    if (p->connected && !p->left && p->broken_at == 0)
        n->ops->send(n->wire, rank, DT_NET_NEWS, news, sizeof *news, &r, NULL);
}

/* What a peer had to say: that it leaves, or why. */
static bool read_news(struct dt_net *n, int rank, struct dt_hosts_blame *blame)
{
    struct peer *p = &n->peers[rank];
    if (!p->news_request)
        return false;
    int rc = n->ops->test(n->wire, p->news_request, NULL);
    if (rc == 0)
        return false;
    p->news_request = NULL;
    if (rc < 0)
        return false;
    p->left = true;
    if (p->news.rank < 0 || p->news.rank >= n->roster->size)
        return false;
    *blame = p->news;
    blame->why[sizeof blame->why - 1] = '\0';
    if (blame->code <= DT_E_NONE || blame->code > DT_E_CANCELED)
        blame->code = DT_E_PROTOCOL;
    return true;
}

/* Whether a peer with whom we talked has not taken leave yet. */
static bool some_stay(struct dt_net *n)
{
    struct dt_hosts_blame ignored;
    bool stay = false;
    for (int r = 0; r < n->roster->size; r++) {
        read_news(n, r, &ignored);
        stay = stay || (n->peers[r].connected && !n->peers[r].left);
    }
    return stay;
}

/* Who closed first would break connections that others still need to hear the rest. */
static void take_leave(struct dt_net *n)
{
    dt_ms until = dt_clock_after(dt_clock_monotonic(), LEAVE_TIME);
    const char *why;
    while (some_stay(n) && n->ops->broken(n->wire, 0, &why) < 0 && dt_clock_monotonic() < until) {
        n->ops->progress(n->wire);
        dt_net_doze(n, 1);
    }
    if (some_stay(n))
        n->ops->abandon(n->wire);
    else
        n->ops->close(n->wire);
}

void dt_net_close(struct dt_net *n, const struct dt_hosts_blame *blame)
{
    if (!n)
        return;
    struct dt_hosts_blame bye = {.rank = -1}, news = blame ? *blame : bye;
    for (int r = 0; r < n->roster->size; r++)
        tell(n, r, &news);
    n->ops->flush(n->wire, blame ? NEWS_TIME : LEAVE_TIME);
    if (blame)
        n->ops->abandon(n->wire);
    else
        take_leave(n);
    free(n->peers);
    free(n->watch);
    free(n);
}

/* What a peer shows is there when it has come to the group; another that ends meanwhile is named
 * instead of waited for. */
static int fetch(struct dt_net *n, const char *key, void *value, size_t len, dt_ms deadline,
                 struct dt_err *err)
{
    for (;;) {
        struct dt_err why = {0};
        struct dt_hosts_blame blame;
        dt_ms left = deadline - dt_clock_monotonic();
        dt_ms slice = left < 1 ? 1 : left < FETCH_SLICE ? left : FETCH_SLICE;
        if (n->meeting->get(n->meeting, key, value, len, slice, &why) == 0)
            return 0;
        if (why.code != DT_E_TIMEOUT)
            return dt_err_set(err, why.code, "%s", why.text);
        if (dt_board_look(n->board, &blame) || dt_net_look(n, &blame))
            return dt_err_set(err, (enum dt_err_code)blame.code, "rank %d: %.*s",
                              n->roster->members[blame.rank].world_rank, DT_BLAME_WHY, blame.why);
        if (left <= slice)
            return dt_err_set(err, DT_E_TIMEOUT, "it did not come to the group in time");
    }
}

static int fetch_address(struct dt_net *n, int rank, char *address, size_t *len, struct dt_err *err)
{
    char key[KEY_MAX], digits[8];
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), n->timeout);
    make_key(n, "net-len", rank, key);
    if (fetch(n, key, digits, sizeof digits, deadline, err) < 0)
        return -1;
    digits[sizeof digits - 1] = '\0';
    *len = (size_t)atol(digits);
    if (*len == 0 || *len > DT_WIRE_ADDRESS_MAX)
        return dt_err_set(err, DT_E_PROTOCOL, "its address cannot be read (%.*s bytes)",
                          (int)strspn(digits, "-0123456789"), digits);
    make_key(n, "net", rank, key);
    return fetch(n, key, address, *len, deadline, err);
}

/* The receive for news is under way as long as the connection is. */
static int connect_to(struct dt_net *n, int rank, struct dt_err *err)
{
    struct peer *p = &n->peers[rank];
    char address[DT_WIRE_ADDRESS_MAX];
    size_t len;
    if (p->connected)
        return 0;
    if (fetch_address(n, rank, address, &len, err) < 0 ||
        n->ops->connect(n->wire, rank, address, len, err) < 0 ||
        n->ops->recv(n->wire, rank, DT_NET_NEWS, &p->news, sizeof p->news, &p->news_request, err) <
            0)
        return dt_err_wrap(err, "connecting to rank %d on another host",
                           n->roster->members[rank].world_rank);
    p->connected = true;
    return 0;
}

int dt_net_send(struct dt_net *n, int rank, enum dt_net_tag tag, const void *bytes, size_t len,
                struct dt_wire_request **out, struct dt_err *err)
{
    if (connect_to(n, rank, err) < 0)
        return -1;
    return n->ops->send(n->wire, rank, tag, bytes, len, out, err);
}

int dt_net_recv(struct dt_net *n, int rank, enum dt_net_tag tag, void *bytes, size_t len,
                struct dt_wire_request **out, struct dt_err *err)
{
    if (connect_to(n, rank, err) < 0)
        return -1;
    return n->ops->recv(n->wire, rank, tag, bytes, len, out, err);
}

int dt_net_test(struct dt_net *n, struct dt_wire_request *r, struct dt_err *err)
{
    return n->ops->test(n->wire, r, err);
}

/* A peer that called us and left before we had to do with it has said so too. */
static void hear(struct dt_net *n, int rank)
{
    struct peer *p = &n->peers[rank];
    if (p->connected)
        return;
    if (n->ops->recv(n->wire, rank, DT_NET_NEWS, &p->news, sizeof p->news, &p->news_request,
                     NULL) == 0)
        p->connected = true;
}

/* Whose connection broke without news. */
static bool judge_broken(struct dt_net *n, struct dt_hosts_blame *blame)
{
    const char *why;
    dt_ms now = 0;
    for (int r = n->ops->broken(n->wire, 0, &why); r >= 0;
         r = n->ops->broken(n->wire, r + 1, &why)) {
        if (r >= n->roster->size) /* as a peer may say that it is */
            continue;
        struct peer *p = &n->peers[r];
        if (p->left)
            continue;
        hear(n, r);
        now = now ? now : dt_clock_monotonic();
        p->broken_at = p->broken_at ? p->broken_at : now;
        if (now - p->broken_at < NEWS_GRACE)
            continue;
        *blame = (struct dt_hosts_blame){.rank = r, .code = DT_E_DISCONNECTED};
        snprintf(blame->why, sizeof blame->why, "its connection broke (%s)", why);
        return true;
    }
    return false;
}

bool dt_net_look(struct dt_net *n, struct dt_hosts_blame *blame)
{
    n->ops->progress(n->wire);
    for (int r = 0; r < n->roster->size && !n->lost; r++)
        n->lost = read_news(n, r, &n->blame);
    n->lost = n->lost || judge_broken(n, &n->blame);
    if (n->lost)
        *blame = n->blame;
    return n->lost;
}

void dt_net_doze(struct dt_net *n, int ms)
{
    int ranks = dt_roster_own(n->roster)->n, fd = n->ops->wait_fd(n->wire);
    if (fd < 0)
        return;
    n->watch[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    for (int place = 0; place < ranks; place++) /* poll() passes over -1 */
        n->watch[place + 1] =
            (struct pollfd){.fd = dt_board_wait_fd(n->board, place), .events = POLLIN};
    poll(n->watch, (nfds_t)ranks + 1, ms);
}
