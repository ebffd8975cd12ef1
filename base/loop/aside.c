/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop/aside.h"

#include "base/list.h"

#include <pthread.h>

/* The thread and the loop both leave WORKING, and the first one decides. */
enum { WORKING, DONE, DISOWNED };

static bool leave_working(struct dt_aside *a, int to)
{
    int from = WORKING;
    return atomic_compare_exchange_strong(&a->phase, &from, to);
}

static void on_closed(uv_handle_t *h)
{
    struct dt_aside *a = dt_container_of((uv_async_t *)h, struct dt_aside, done);
    a->then(a);
}

static void on_done(uv_async_t *done)
{
    uv_thread_join(&dt_container_of(done, struct dt_aside, done)->thread);
    uv_close((uv_handle_t *)done, on_closed);
}

static void run(void *arg)
{
    struct dt_aside *a = arg;
    a->work(a);
    if (leave_working(a, DONE))
        uv_async_send(&a->done);
}

int dt_aside_run(struct dt_aside *a, uv_loop_t *loop, void (*work)(struct dt_aside *a),
                 void (*then)(struct dt_aside *a))
{
    a->work = work;
    a->then = then;
    atomic_init(&a->phase, WORKING);
    int rc = uv_async_init(loop, &a->done, on_done);
    if (rc < 0)
        return rc;
    a->status = uv_thread_create(&a->thread, run, a);
    if (a->status < 0 && leave_working(a, DONE))
        uv_close((uv_handle_t *)&a->done, on_closed);
    return 0;
}

bool dt_aside_disown(struct dt_aside *a)
{
    if (!leave_working(a, DISOWNED))
        return false;
    pthread_detach(a->thread);
    uv_close((uv_handle_t *)&a->done, NULL);
    return true;
}
