/* SPDX-License-Identifier: Apache-2.0 */
/* See waitwake.h. A waiter has two answers to come per round: that its wait is registered, and that
 * it is over. The first comes before the set is sent, so both phases are the same loop: read until
 * each waiter has had one more answer. */
#include "bench/waitwake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/load.h"

enum { EVENTS = 512, TEXT_MAX = 512 };

struct waiter {
    int fd;
    size_t have;
    uint64_t answered; /* phases; equals waitwake.phase when there is nothing to wait for */
    uint8_t text[TEXT_MAX];
};

struct waitwake {
    const struct dial *d;
    int setter, epoll;
    unsigned waiters;
    struct key key;
    uint32_t round;
    uint64_t phase;
    struct out wait, wake, forget;
    struct waiter waiter[];
};

static int put_requests(struct waitwake *ww, struct dt_err *err)
{
    const struct wire *w = ww->d->wire;
    w->wait(w, &ww->wait, &ww->key);
    w->wake(w, &ww->wake, &ww->key, ww->waiters);
    w->forget(w, &ww->forget, &ww->key);
    if (ww->wait.text.bad || ww->wake.text.bad || ww->forget.text.bad)
        return dt_err_set(err, DT_E_RUNTIME, "out of memory for requests");
    return 0;
}

static int open_waiters(struct waitwake *ww, struct dt_err *err)
{
    for (unsigned i = 0; i < ww->waiters; i++) {
        struct waiter *x = &ww->waiter[i];
        x->fd = dial_open(ww->d, err);
        if (x->fd < 0)
            return -1;
        dial_nonblocking(x->fd);
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = x};
        if (epoll_ctl(ww->epoll, EPOLL_CTL_ADD, x->fd, &ev) < 0)
            return dt_err_set(err, DT_E_RUNTIME, "epoll: %s", strerror(errno));
    }
    ww->setter = dial_open(ww->d, err);
    return ww->setter < 0 ? -1 : 0;
}

struct waitwake *waitwake_open(const struct dial *d, struct key key, unsigned waiters,
                               struct dt_err *err)
{
    struct waitwake *ww = calloc(1, sizeof(*ww) + waiters * sizeof(ww->waiter[0]));
    if (!ww) {
        dt_err_set(err, DT_E_RUNTIME, "out of memory for %u waiters", waiters);
        return NULL;
    }
    ww->d = d;
    ww->key = key;
    ww->key.family = 'w';
    ww->setter = -1;
    for (; ww->waiters < waiters; ww->waiters++)
        ww->waiter[ww->waiters].fd = -1;
    ww->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (dial_room_for(waiters, err) < 0 || put_requests(ww, err) < 0 || open_waiters(ww, err) < 0) {
        waitwake_close(ww);
        return NULL;
    }
    return ww;
}

void waitwake_close(struct waitwake *ww)
{
    if (!ww)
        return;
    for (unsigned i = 0; i < ww->waiters; i++)
        dial_close(ww->waiter[i].fd);
    dial_close(ww->setter);
    close(ww->epoll);
    dt_buf_finish(&ww->wait.text);
    dt_buf_finish(&ww->wake.text);
    dt_buf_finish(&ww->forget.text);
    free(ww);
}

static void number_keys(const struct waitwake *ww, const struct out *o)
{
    uint32_t mask = ww->key.digits < 8 ? (1u << (4 * ww->key.digits)) - 1 : UINT32_MAX;
    for (unsigned i = 0; i < o->keys; i++)
        key_put_digits(o->text.at + o->key_at[i], ww->key.digits, ww->round & mask);
}

/* Reads what is there; 1 when the answer of this phase is complete, 0 when not yet. */
static int read_waiter(struct waitwake *ww, struct waiter *x, enum answer_kind kind,
                       struct dt_err *err)
{
    struct answer a;
    ssize_t n = recv(x->fd, x->text + x->have, TEXT_MAX - x->have, 0);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n <= 0)
        return dt_err_set(err, DT_E_RUNTIME, "%s closed a waiter's connection", ww->d->name);
    x->have += (size_t)n;
    enum answer_state got = ww->d->wire->answer(kind, x->text, x->have, &a);
    if (got == ANSWER_BAD || (x->answered == ww->phase) || x->have == TEXT_MAX)
        return dt_err_set(err, DT_E_RUNTIME, "%s sent a waiter an answer that is none",
                          ww->d->name);
    if (got == ANSWER_MORE || x->have < a.head + a.body)
        return 0;
    x->have = 0;
    x->answered = ww->phase;
    return 1;
}

/* Waits until every waiter has had its answer of a new phase; 1 when all have, 0 on a stall. */
static int gather(struct waitwake *ww, enum answer_kind kind, double stall, struct dt_err *err)
{
    struct epoll_event events[EVENTS];
    uint64_t last = load_now();
    for (unsigned left = ww->waiters; left > 0;) {
        int n = epoll_wait(ww->epoll, events, EVENTS, 50);
        for (int i = 0; i < n; i++) {
            int rc = read_waiter(ww, events[i].data.ptr, kind, err);
            if (rc < 0)
                return -1;
            left -= (unsigned)rc;
        }
        uint64_t now = load_now();
        if (n > 0)
            last = now;
        else if ((double)(now - last) / 1e9 > stall)
            return 0;
    }
    return 1;
}

int waitwake_round(struct waitwake *ww, double stall, uint64_t *nanoseconds, bool *frozen,
                   struct dt_err *err)
{
    struct answer a;
    ww->round++;
    number_keys(ww, &ww->wait);
    number_keys(ww, &ww->wake);
    number_keys(ww, &ww->forget);
    ww->phase++;
    for (unsigned i = 0; i < ww->waiters; i++)
        if (dial_send(ww->d, ww->waiter[i].fd, ww->wait.text.at, ww->wait.text.len, err) < 0)
            return -1;
    int rc = gather(ww, ANSWER_REGISTERED, stall, err);
    if (rc == 1) {
        ww->phase++;
        uint64_t set = load_now();
        if (dial_send(ww->d, ww->setter, ww->wake.text.at, ww->wake.text.len, err) < 0)
            return -1;
        rc = gather(ww, ANSWER_WOKEN, stall, err);
        *nanoseconds = load_now() - set;
    }
    *frozen = rc == 0;
    if (rc < 1)
        return rc;
    if (dial_send(ww->d, ww->setter, ww->forget.text.at, ww->forget.text.len, err) < 0)
        return -1;
    return dial_answers(ww->d, ww->setter, ANSWER_NUMBER, 1, &a, err);
}

int waitwake_run(const struct dial *d, struct key key, unsigned waiters, double warmup,
                 double seconds, uint64_t rounds, double stall, struct waitwake_result *r,
                 struct dt_err *err)
{
    struct waitwake *ww = waitwake_open(d, key, waiters, err);
    if (!ww)
        return -1;
    uint64_t start = load_now() + (uint64_t)(warmup * 1e9);
    uint64_t end = start + (uint64_t)(seconds * 1e9);
    int rc = 0;
    for (uint64_t now = load_now(); rc == 0 && !r->frozen && now < end;) {
        uint64_t took = 0;
        rc = waitwake_round(ww, stall, &took, &r->frozen, err);
        if (now >= start && rc == 0 && !r->frozen)
            hist_add(&r->latency, took);
        now = load_now();
        r->seconds = now > start ? (double)(now - start) / 1e9 : 0;
        if (rounds && r->latency.count >= rounds)
            break;
    }
    r->rounds = r->latency.count;
    waitwake_close(ww);
    return rc;
}
