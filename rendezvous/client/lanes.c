/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/client/lanes.h"

#include <stdlib.h>

#define IDLE_LANES 4 /* kept for the next wait */

struct dt_store_lane {
    struct dt_node in_pool; /* unlinked: it is closing */
    struct dt_store_lanes *pool;
    struct dt_wire wire;
    enum dt_c10d_dialect dialect;
    struct dt_store_link link;
    struct dt_c10d_request ask;
    dt_store_lane_done_fn *done; /* NULL: idle, or `canceling` */
    void *arg;
    bool canceling; /* the answer to a CANCEL_WAIT is awaited */
    dt_ms deadline; /* to connect, or for that answer; DT_FOREVER */
};

static dt_ms now(const struct dt_store_lanes *p)
{
    return (dt_ms)uv_now(p->loop);
}

/* Its connection frees it. */
static void lane_close(struct dt_store_lane *l)
{
    dt_list_remove(&l->in_pool);
    l->done = NULL;
    dt_wire_close(&l->wire);
}

static bool lane_idle(const struct dt_store_lane *l)
{
    return l->link.up && !l->done && !l->canceling;
}

static void lane_fail(struct dt_store_lane *l, const struct dt_err *why)
{
    dt_store_lane_done_fn *done = l->done;
    struct dt_err err;
    dt_err_set(&err, why->code, "store %s: %s", l->pool->config->addr, why->text);
    lane_close(l);
    if (done)
        done(l->arg, &err);
}

/* -- deadlines -------------------------------------------------------------------------------- */

static void on_lanes_timer(uv_timer_t *t);

static void watch(struct dt_store_lane *l)
{
    struct dt_store_lanes *p = l->pool;
    dt_ms allowed = p->config->attempt_timeout;
    l->deadline = dt_clock_after(now(p), allowed);
    if (!uv_is_active((uv_handle_t *)&p->timer)) /* else it comes sooner, and looks again */
        uv_timer_start(&p->timer, on_lanes_timer, (uint64_t)allowed, 0);
}

/* One lane a time: what its callback does may change the list. */
static void on_lanes_timer(uv_timer_t *t)
{
    static const struct dt_err late = {.code = DT_E_TIMEOUT,
                                       .text = "no further connection could be made to wait on"};
    struct dt_store_lanes *p = dt_container_of(t, struct dt_store_lanes, timer);
    struct dt_store_lane *first = NULL;
    dt_list_each(&p->lanes, n)
    {
        struct dt_store_lane *l = dt_container_of(n, struct dt_store_lane, in_pool);
        if (!first || l->deadline < first->deadline)
            first = l;
    }
    if (!first || first->deadline == DT_FOREVER)
        return;
    dt_ms left = first->deadline - now(p);
    uv_timer_start(t, on_lanes_timer, left > 0 ? (uint64_t)left : 0, 0);
    if (left <= 0)
        lane_fail(first, &late);
}

/* -- one lane --------------------------------------------------------------------------------- */

static int lane_ask(struct dt_store_lane *l, struct dt_err *err)
{
    l->deadline = DT_FOREVER;
    return dt_store_link_send(&l->link, &l->ask, err);
}

/* Keeps some idle lanes for the next wait. */
static void lane_rest(struct dt_store_lane *l)
{
    int idle = 0;
    l->deadline = DT_FOREVER;
    dt_list_each(&l->pool->lanes, n) idle +=
        lane_idle(dt_container_of(n, struct dt_store_lane, in_pool));
    if (idle > IDLE_LANES)
        lane_close(l);
}

static void lane_begin(struct dt_store_lane *l)
{
    struct dt_err err;
    if (!l->done)
        lane_rest(l); /* canceled while it connected */
    else if (lane_ask(l, &err) < 0)
        lane_fail(l, &err);
}

/* One answer. A wait's may be on its way when the wait is canceled and then comes before the
 * cancel's own. */
static bool lane_take(struct dt_store_lane *l, int64_t answer)
{
    dt_store_lane_done_fn *done = l->done;
    if (l->canceling) {
        if (answer == DT_C10D_CANCELED) {
            l->canceling = false;
            lane_rest(l);
        }
        return true;
    }
    if (!done || answer != DT_C10D_READY)
        return false;
    l->done = NULL;
    lane_rest(l);
    done(l->arg, NULL);
    return true;
}

static void lane_hear(struct dt_store_lane *l)
{
    struct dt_err err = {.code = DT_E_PROTOCOL, .text = "the server sent what nobody asked for"};
    struct dt_wire *w = &l->wire;
    while (!w->closing && w->in.len > 0) {
        struct dt_c10d_reply reply;
        size_t used;
        dt_c10d_answer_expect(&l->link.answers, DT_C10D_WAIT, 1);
        enum dt_decoded got =
            dt_c10d_answer_decode(&l->link.answers, w->in.at, w->in.len, &reply, &used, &err);
        if (got == DT_DONE) /* a byte is never too few */
            dt_buf_consume(&w->in, used);
        if (got != DT_DONE || !lane_take(l, reply.number)) {
            lane_fail(l, &err);
            return;
        }
    }
}

/* -- its connection --------------------------------------------------------------------------- */

static struct dt_store_lane *lane_of(struct dt_wire *w)
{
    return dt_container_of(w, struct dt_store_lane, wire);
}

static void on_lane_connected(struct dt_wire *w)
{
    struct dt_store_lane *l = lane_of(w);
    struct dt_err err;
    if (dt_store_link_greet(&l->link, w, l->dialect, &err) < 0)
        lane_fail(l, &err);
}

static void on_lane_came(struct dt_wire *w)
{
    struct dt_store_lane *l = lane_of(w);
    struct dt_err err;
    if (!l->link.up) {
        enum dt_decoded got = dt_store_link_hear_greeting(&l->link, &err);
        if (got == DT_BAD)
            lane_fail(l, &err);
        if (got != DT_DONE)
            return;
        lane_begin(l);
    }
    lane_hear(l);
}

static void on_lane_lost(struct dt_wire *w, const struct dt_err *why)
{
    lane_fail(lane_of(w), why);
}

static void on_lane_closed(struct dt_wire *w)
{
    struct dt_store_lane *l = lane_of(w);
    struct dt_store_lanes *p = l->pool;
    free(l); /* the only free of a lane */
    dt_ending_step(&p->ending);
}

static const struct dt_wire_events lane_events = {
    .connected = on_lane_connected,
    .came = on_lane_came,
    .lost = on_lane_lost,
    .closed = on_lane_closed,
};

static struct dt_store_lane *lane_create(struct dt_store_lanes *p, const struct dt_addr *at,
                                         enum dt_c10d_dialect dialect, struct dt_err *err)
{
    struct dt_store_lane *l = calloc(1, sizeof *l);
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "no memory to wait");
        return NULL;
    }
    l->pool = p;
    l->dialect = dialect;
    dt_node_init(&l->in_pool);
    dt_ending_add(&p->ending);
    if (dt_wire_open(&l->wire, p->loop, at, &lane_events, err) < 0)
        return NULL; /* freed when it is closed */
    dt_list_append(&p->lanes, &l->in_pool);
    watch(l);
    return l;
}

/* -- the pool --------------------------------------------------------------------------------- */

static struct dt_store_lane *find_idle(const struct dt_store_lanes *p)
{
    dt_list_each(&p->lanes, n)
    {
        struct dt_store_lane *l = dt_container_of(n, struct dt_store_lane, in_pool);
        if (lane_idle(l))
            return l;
    }
    return NULL;
}

struct dt_store_lane *dt_store_lanes_wait(struct dt_store_lanes *p, const struct dt_addr *at,
                                          enum dt_c10d_dialect dialect,
                                          const struct dt_c10d_request *ask,
                                          dt_store_lane_done_fn *done, void *arg,
                                          struct dt_err *err)
{
    struct dt_store_lane *l = find_idle(p);
    if (!l && !(l = lane_create(p, at, dialect, err)))
        return NULL;
    l->ask = *ask;
    l->done = done;
    l->arg = arg;
    if (l->link.up && lane_ask(l, err) < 0) {
        lane_close(l);
        return NULL;
    }
    return l;
}

void dt_store_lane_cancel(struct dt_store_lane *l)
{
    static const struct dt_c10d_request cancel = {.op = DT_C10D_CANCEL_WAIT};
    l->done = NULL;
    if (!l->link.up)
        return; /* it still connects, and rests then */
    l->canceling = true;
    watch(l);
    if (dt_store_link_send(&l->link, &cancel, NULL) < 0)
        lane_close(l);
}

void dt_store_lanes_drop(struct dt_store_lanes *p)
{
    dt_list_each(&p->lanes, n) lane_close(dt_container_of(n, struct dt_store_lane, in_pool));
}

void dt_store_lanes_open(struct dt_store_lanes *p, uv_loop_t *loop,
                         const struct dt_store_client_config *config)
{
    *p = (struct dt_store_lanes){.loop = loop, .config = config};
    dt_list_init(&p->lanes);
    uv_timer_init(loop, &p->timer);
}

void dt_store_lanes_close(struct dt_store_lanes *p, void (*on_closed)(void *arg), void *arg)
{
    dt_ending_begin(&p->ending, NULL, NULL, on_closed, arg);
    dt_store_lanes_drop(p);
    dt_ending_close(&p->ending, &p->timer);
}
