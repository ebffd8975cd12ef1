/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/ckpt/upload/errand.h"

#include "worker_runtime/ckpt/inside.h"

#include <assert.h>
#include <sys/resource.h>
#include <unistd.h>

#define NICE 15 /* the step has the right of way: of a busy processor it gives away 3 % */

static void *run(void *errand)
{
    struct dt_errand *e = errand;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    e->rc = e->work(e->arg, &e->why);
    atomic_store_explicit(&e->over, true, memory_order_release);
    return NULL;
}

int dt_errand_begin(struct dt_errand *e, int (*work)(void *arg, struct dt_err *err), void *arg,
                    struct dt_err *err)
{
    assert(!e->begun);
    atomic_store(&e->stop, false);
    atomic_store(&e->over, false);
    e->work = work;
    e->arg = arg;
    int rc = dt_ckpt_thread(&e->thread, run, e);
    if (rc)
        return dt_err_errno(err, DT_E_RUNTIME, rc, "cannot start the thread that uploads");
    e->begun = true;
    return 0;
}

int dt_errand_ask(struct dt_errand *e, struct dt_err *err)
{
    if (!e->begun)
        return 1;
    if (!atomic_load_explicit(&e->over, memory_order_acquire))
        return 0;
    pthread_join(e->thread, NULL);
    e->begun = false;
    if (e->rc < 0 && err)
        *err = e->why;
    return e->rc < 0 ? -1 : 1;
}

void dt_errand_stop(struct dt_errand *e)
{
    atomic_store(&e->stop, true);
}

void dt_errand_finish(struct dt_errand *e)
{
    dt_errand_stop(e);
    if (e->begun)
        pthread_join(e->thread, NULL);
    e->begun = false;
}
