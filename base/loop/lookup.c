/* SPDX-License-Identifier: Apache-2.0 */
/* Not on libuv's own threads: a loop waits for these before it ends, and so would a process that
 * was told to end, for a name server that does not answer. */
#include "base/loop/lookup.h"

#include "base/list.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct dt_lookup {
    uv_async_t over;
    dt_lookup_fn *done; /* the loop's */
    void *arg;
    pthread_mutex_t lock;
    bool forgotten; /* under the lock: nobody is to be told */
    int holders;    /* under the lock: the loop, and the thread */
    struct dt_addr found[DT_LOOKUP_ADDRESSES];
    size_t count;
    int rc;
    struct dt_err err;
    uint16_t default_port;
    char name[];
};

static void let_go(struct dt_lookup *k)
{
    pthread_mutex_lock(&k->lock);
    bool last = --k->holders == 0;
    pthread_mutex_unlock(&k->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&k->lock);
    free(k); /* the only free of a look-up that was started */
}

static void *resolve(void *arg)
{
    struct dt_lookup *k = arg;
    k->rc = dt_addr_resolve(k->name, k->default_port, k->found, DT_LOOKUP_ADDRESSES, &k->count,
                            &k->err);
    pthread_mutex_lock(&k->lock);
    if (!k->forgotten)
        uv_async_send(&k->over);
    pthread_mutex_unlock(&k->lock);
    let_go(k);
    return NULL;
}

static void on_over_closed(uv_handle_t *h)
{
    let_go(dt_container_of((uv_async_t *)h, struct dt_lookup, over));
}

static void on_over(uv_async_t *over)
{
    struct dt_lookup *k = dt_container_of(over, struct dt_lookup, over);
    uv_close((uv_handle_t *)over, on_over_closed);
    k->done(k->arg, k->found, k->count, k->rc < 0 ? &k->err : NULL);
}

/* Signals are the main thread's. */
static int start_thread(struct dt_lookup *k)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, &detached, resolve, k);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return rc;
}

struct dt_lookup *dt_lookup_start(uv_loop_t *loop, const char *name, uint16_t default_port,
                                  dt_lookup_fn *done, void *arg)
{
    size_t len = strlen(name);
    struct dt_lookup *k = calloc(1, sizeof *k + len + 1);
    if (!k || uv_async_init(loop, &k->over, on_over) < 0) {
        free(k);
        return NULL;
    }
    k->done = done;
    k->arg = arg;
    k->holders = 2;
    k->default_port = default_port;
    memcpy(k->name, name, len);
    pthread_mutex_init(&k->lock, NULL);
    if (start_thread(k) == 0)
        return k;
    k->holders = 1;
    dt_lookup_forget(k);
    return NULL;
}

void dt_lookup_forget(struct dt_lookup *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->forgotten = true;
    pthread_mutex_unlock(&k->lock);
    uv_close((uv_handle_t *)&k->over, on_over_closed);
}
