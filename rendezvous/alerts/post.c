/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/alerts/post.h"

#include "base/backoff.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/aside.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTEMPTS 8                     /* some five minutes */
#define DELIVERY_MOST (30 * DT_SECOND) /* however it trickles */

struct letter {
    struct dt_node in_queue;
    struct dt_buf body;
    int attempts;
    dt_post_tried_fn *on_tried;
    void *arg;
};

enum post_state {
    POST_IDLE,
    POST_DELIVERING, /* a thread has the first of the queue; the timer ends it */
    POST_WAITING,    /* the timer begins the next attempt */
    POST_CLOSING,
    POST_STATES,
};

struct dt_post {
    uv_loop_t *loop;
    struct dt_receiver receiver;
    char *target; /* the receiver's */
    const char *server;
    enum post_state state;
    struct dt_list queue;
    size_t queued;
    uv_timer_t timer;
    struct dt_backoff backoff;
    struct dt_post_counters counters;
    struct dt_log_limit complaints;
    void (*on_closed)(void *arg);
    void *arg;
    bool thread_is_out; /* the members below are the thread's */
    struct dt_aside delivery;
    struct letter *letter;
    atomic_bool stop;
    enum dt_delivery outcome;
    struct dt_err why;
};

static void enter(struct dt_post *p, enum post_state next)
{
    static const bool legal[POST_STATES][POST_STATES] = {
        [POST_IDLE] = {[POST_DELIVERING] = true, [POST_CLOSING] = true},
        [POST_DELIVERING] = {[POST_IDLE] = true, [POST_WAITING] = true, [POST_CLOSING] = true},
        [POST_WAITING] = {[POST_DELIVERING] = true, [POST_IDLE] = true, [POST_CLOSING] = true},
    };
    if (!legal[p->state][next])
        dt_bug("a post of alerts goes from state %d to %d", p->state, next);
    p->state = next;
}

struct dt_post *dt_post_open(uv_loop_t *loop, const struct dt_receiver *receiver,
                             const char *server)
{
    struct dt_post *p = calloc(1, sizeof *p);
    char *target = strdup(receiver->target); /* options are read anew at a reload */
    if (!p || !target) {
        free(p);
        free(target);
        return NULL;
    }
    p->loop = loop;
    p->receiver = *receiver;
    p->receiver.target = p->target = target;
    p->server = server;
    p->backoff =
        (struct dt_backoff){.first = DT_SECOND,
                            .most = 60 * DT_SECOND,
                            .seed = (uint64_t)dt_clock_monotonic_ns() ^ (uint64_t)getpid()};
    p->complaints = (struct dt_log_limit){.burst = 5, .every = 60 * DT_SECOND};
    dt_list_init(&p->queue);
    uv_timer_init(loop, &p->timer);
    uv_unref((uv_handle_t *)&p->timer);
    return p;
}

struct dt_post_counters dt_post_counters(const struct dt_post *p)
{
    struct dt_post_counters c = p->counters;
    c.waiting = p->queued;
    return c;
}

/* -- letters ---------------------------------------------------------------------------------- */

static struct letter *first(struct dt_post *p)
{
    return dt_container_of(dt_list_first(&p->queue), struct letter, in_queue);
}

static void tell_tried(struct letter *l, const char *outcome, bool delivered)
{
    dt_post_tried_fn *on_tried = l->on_tried;
    l->on_tried = NULL;
    if (on_tried)
        on_tried(l->arg, outcome, delivered);
}

static void drop(struct dt_post *p, struct letter *l)
{
    dt_list_remove(&l->in_queue);
    p->queued--;
    dt_buf_finish(&l->body);
    free(l);
}

static void complain(struct dt_post *p, const char *what, const char *why)
{
    uint64_t held_back;
    if (dt_log_limit_pass(&p->complaints, dt_clock_monotonic(), &held_back))
        dt_warn("%s: %s: %s", p->receiver.name, what, why);
}

/* -- one delivery ----------------------------------------------------------------------------- */

static void start(struct dt_post *p);

static void on_pause_over(uv_timer_t *t)
{
    start(dt_container_of(t, struct dt_post, timer));
}

static void on_too_long(uv_timer_t *t)
{
    atomic_store(&dt_container_of(t, struct dt_post, timer)->stop, true);
}

static void work(struct dt_aside *a)
{
    struct dt_post *p = dt_container_of(a, struct dt_post, delivery);
    struct dt_bytes body = {p->letter->body.at, p->letter->body.len};
    p->outcome = dt_receiver_deliver(&p->receiver, body, &p->stop, &p->why);
}

static void finish_close(struct dt_post *p);

static void next_letter(struct dt_post *p)
{
    if (p->queued > 0)
        start(p);
    else if (p->state != POST_IDLE)
        enter(p, POST_IDLE);
}

static void wait_for_next_attempt(struct dt_post *p)
{
    complain(p, "an alert will be sent again", p->why.text);
    if (p->state != POST_WAITING)
        enter(p, POST_WAITING);
    uv_timer_start(&p->timer, on_pause_over, (uint64_t)dt_backoff_next(&p->backoff), 0);
}

/* L, which is the first, is to be tried again. Tests that came meanwhile do not wait for that. */
static bool let_tests_pass(struct dt_post *p, struct letter *l)
{
    struct dt_list tests;
    dt_list_init(&tests);
    dt_list_remove(&l->in_queue);
    while (!dt_list_empty(&p->queue) && first(p)->on_tried)
        dt_list_append(&tests, dt_list_pop(&p->queue));
    bool some = !dt_list_empty(&tests);
    dt_list_append(&tests, &l->in_queue);
    dt_list_move(&tests, &p->queue);
    dt_list_move(&p->queue, &tests);
    return some;
}

static void then(struct dt_aside *a)
{
    struct dt_post *p = dt_container_of(a, struct dt_post, delivery);
    struct letter *l = p->letter;
    p->thread_is_out = false;
    if (p->state == POST_CLOSING) {
        finish_close(p);
        return;
    }
    uv_timer_stop(&p->timer);
    if (a->status < 0) {
        p->outcome = DT_DELIVERY_AGAIN;
        dt_err_set(&p->why, DT_E_RUNTIME, "no thread can be had: %s", uv_strerror(a->status));
    }
    l->attempts++;
    bool was_test = l->on_tried != NULL;
    tell_tried(l, p->outcome == DT_DELIVERED ? "delivered" : p->why.text,
               p->outcome == DT_DELIVERED);
    if (p->outcome == DT_DELIVERY_AGAIN && !was_test && l->attempts < ATTEMPTS) {
        if (let_tests_pass(p, l))
            start(p);
        else
            wait_for_next_attempt(p);
        return;
    }
    if (p->outcome == DT_DELIVERED) {
        p->counters.delivered++;
    } else {
        p->counters.failed++;
        complain(p, "an alert is given up", p->why.text);
    }
    dt_backoff_reset(&p->backoff);
    drop(p, l);
    next_letter(p);
}

static void start(struct dt_post *p)
{
    p->letter = first(p);
    p->why = (struct dt_err){0};
    atomic_store(&p->stop, false);
    if (p->state != POST_DELIVERING)
        enter(p, POST_DELIVERING);
    int rc = dt_aside_run(&p->delivery, p->loop, work, then);
    if (rc < 0) {
        dt_err_set(&p->why, DT_E_RUNTIME, "no thread can be had: %s", uv_strerror(rc));
        wait_for_next_attempt(p);
        return;
    }
    p->thread_is_out = true;
    uv_timer_start(&p->timer, on_too_long, DELIVERY_MOST, 0);
}

/* A test does not wait for others to be tried again. The first may be in a thread's hands. */
static void put_in_queue(struct dt_post *p, struct letter *l)
{
    struct dt_list later;
    dt_list_init(&later);
    if (l->on_tried) {
        struct dt_node *stays = p->state == POST_DELIVERING ? dt_list_pop(&p->queue) : NULL;
        dt_list_move(&later, &p->queue);
        if (stays)
            dt_list_append(&p->queue, stays);
    }
    dt_list_append(&p->queue, &l->in_queue);
    dt_list_move(&p->queue, &later);
    p->queued++;
}

void dt_post_add(struct dt_post *p, const struct dt_notice *n, dt_post_tried_fn *on_tried,
                 void *arg)
{
    struct letter *l = p->state == POST_CLOSING ? NULL : calloc(1, sizeof *l);
    if (l)
        dt_alert_body(&l->body, p->receiver.format, n, p->server, p->receiver.target);
    if (!l || l->body.bad) {
        if (l)
            dt_buf_finish(&l->body);
        free(l);
        p->counters.failed++;
        if (on_tried)
            on_tried(arg, "no memory", false);
        return;
    }
    l->on_tried = on_tried;
    l->arg = arg;
    put_in_queue(p, l);
    if (p->state == POST_IDLE || (p->state == POST_WAITING && on_tried)) {
        uv_timer_stop(&p->timer);
        start(p);
    } else if (p->queued > DT_POST_MOST) {
        /* The first may be in a thread's hands. */
        struct letter *second = dt_container_of(first(p)->in_queue.next, struct letter, in_queue);
        p->counters.dropped++;
        complain(p, "an alert is dropped", "too many wait for this receiver");
        tell_tried(second, "too many alerts wait for this receiver", false);
        drop(p, second);
    }
}

/* -- the end ---------------------------------------------------------------------------------- */

static void on_timer_closed(uv_handle_t *h)
{
    struct dt_post *p = dt_container_of((uv_timer_t *)h, struct dt_post, timer);
    if (p->on_closed)
        p->on_closed(p->arg);
    free(p->target);
    free(p);
}

static void finish_close(struct dt_post *p)
{
    if (p->queued > 0)
        dt_warn("%s: %zu alerts are not delivered, as the server ends", p->receiver.name,
                p->queued);
    while (p->queued > 0) {
        tell_tried(first(p), "the server ends", false);
        drop(p, first(p));
    }
    uv_close((uv_handle_t *)&p->timer, on_timer_closed);
}

void dt_post_close(struct dt_post *p, void (*on_closed)(void *arg), void *arg)
{
    p->on_closed = on_closed;
    p->arg = arg;
    enter(p, POST_CLOSING);
    if (p->thread_is_out)
        atomic_store(&p->stop, true);
    else
        finish_close(p);
}
