/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of a job of one node: there is nobody to find, and the store is empty in each
 * attempt. */
#include "agent/backend/backend.h"
#include "agent/backend/store_host.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop/ending.h"

#include <stdio.h>
#include <stdlib.h>

enum wish { NOTHING, WORLD, BARRIER };

struct local {
    struct dt_backend base;
    const struct dt_backend_events *events;
    void *arg;
    struct dt_store_server *server; /* NULL once it is closed */
    struct dt_world world;          /* of the next round */
    uv_timer_t soon;                /* what was asked for is told from the loop */
    enum wish wish;
    struct dt_ending ending;
};

/* -- what is asked for ------------------------------------------------------------------------ */

/* Each attempt but the first, which has a new store anyway, finds it empty again. */
static void give_world(struct local *l)
{
    struct dt_err err;
    struct dt_world world = l->world;
    if (world.round > 0 && dt_store_server_renew(l->server, &err) < 0) {
        l->events->on_failed(l->arg, &err);
        return;
    }
    l->world.round++;
    l->events->on_world(l->arg, &world);
}

static void on_soon(uv_timer_t *t)
{
    struct local *l = dt_container_of(t, struct local, soon);
    enum wish wish = l->wish;
    l->wish = NOTHING;
    if (wish == WORLD)
        give_world(l);
    else if (wish == BARRIER)
        l->events->on_barrier_over(l->arg, NULL);
}

static void wish_for(struct dt_backend *b, enum wish wish)
{
    struct local *l = dt_container_of(b, struct local, base);
    l->wish = wish;
    uv_timer_start(&l->soon, on_soon, 0, 0);
}

static void local_join(struct dt_backend *b)
{
    wish_for(b, WORLD);
}

static void local_barrier(struct dt_backend *b)
{
    wish_for(b, BARRIER);
}

/* -- beginning and end ------------------------------------------------------------------------ */

static void on_server_closed(void *arg)
{
    dt_container_of(arg, struct local, ending)->server = NULL;
    dt_ending_step(arg);
}

static void local_close(struct dt_backend *b, bool hurry, void (*on_closed)(void *arg), void *arg)
{
    struct local *l = dt_container_of(b, struct local, base);
    if (l->ending.begun) {
        if (l->server)
            dt_store_host_close(l->server, false, hurry, NULL, NULL);
        return;
    }
    dt_ending_begin(&l->ending, free, l, on_closed, arg);
    dt_ending_close(&l->ending, &l->soon);
    dt_store_host_close(l->server, false, hurry, on_server_closed, dt_ending_add(&l->ending));
}

static const struct dt_backend_ops local_ops = {
    .join = local_join,
    .barrier = local_barrier,
    .close = local_close,
};

static const char *master_of(const struct dt_plan *plan)
{
    if (plan->backend == DT_BACKEND_STATIC)
        return plan->endpoint_host;
    return plan->local_addr ? plan->local_addr : "127.0.0.1";
}

struct dt_backend *dt_backend_local_open(uv_loop_t *loop, const struct dt_plan *plan,
                                         const struct dt_backend_events *events, void *arg,
                                         struct dt_err *err)
{
    struct local *l = calloc(1, sizeof *l);
    struct dt_addr bound;
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a job");
        return NULL;
    }
    l->server = dt_store_host_open(loop, plan, master_of(plan), &bound, err);
    if (!l->server) {
        free(l);
        return NULL;
    }
    l->base.ops = &local_ops;
    l->events = events;
    l->arg = arg;
    l->world = (struct dt_world){.group_size = 1,
                                 .size = plan->nproc,
                                 .role_size = plan->nproc,
                                 .master_port = dt_store_host_port(&bound),
                                 .store_is_served = true,
                                 .prev_first_rank = -1};
    snprintf(l->world.master_addr, sizeof l->world.master_addr, "%s", master_of(plan));
    uv_timer_init(loop, &l->soon);
    return &l->base;
}
