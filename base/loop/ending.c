/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop/ending.h"

#include <assert.h>

struct dt_ending *dt_ending_add(struct dt_ending *e)
{
    e->open++;
    return e;
}

void dt_ending_step(void *ending)
{
    struct dt_ending *e = ending;
    assert(e->open > 0);
    if (--e->open > 0 || !e->begun)
        return;
    void (*on_closed)(void *) = e->on_closed;
    void *arg = e->arg;
    if (e->release)
        e->release(e->owner);
    if (on_closed)
        on_closed(arg);
}

static void on_handle_closed(uv_handle_t *h)
{
    dt_ending_step(h->data);
}

void dt_ending_close(struct dt_ending *e, void *handle)
{
    uv_handle_t *h = handle;
    h->data = dt_ending_add(e);
    uv_close(h, on_handle_closed);
}

void dt_ending_begin(struct dt_ending *e, void (*release)(void *owner), void *owner,
                     void (*on_closed)(void *arg), void *arg)
{
    assert(!e->begun);
    e->begun = true;
    e->release = release;
    e->owner = owner;
    e->on_closed = on_closed;
    e->arg = arg;
}
