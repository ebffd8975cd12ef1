/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/backend/torchrun/delegate.h"

#include "base/list.h"

static struct dt_backend *other(struct dt_backend *b)
{
    return dt_container_of(b, struct dt_delegate, base)->to;
}

static void delegate_join(struct dt_backend *b)
{
    other(b)->ops->join(other(b));
}

static void delegate_barrier(struct dt_backend *b)
{
    other(b)->ops->barrier(other(b));
}

static void delegate_failed(struct dt_backend *b, const struct dt_result *result)
{
    other(b)->ops->failed(other(b), result);
}

static void delegate_leave(struct dt_backend *b, const char *why)
{
    other(b)->ops->leave(other(b), why);
}

static void delegate_tell(struct dt_backend *b, const struct dt_beat *facts)
{
    other(b)->ops->tell(other(b), facts);
}

void dt_delegate_to(struct dt_delegate *d, struct dt_backend *to)
{
    d->ops = (struct dt_backend_ops){
        .join = delegate_join,
        .barrier = delegate_barrier,
        .failed = to->ops->failed ? delegate_failed : NULL,
        .leave = to->ops->leave ? delegate_leave : NULL,
        .tell = to->ops->tell ? delegate_tell : NULL,
        .close = d->base.ops->close,
    };
    d->to = to;
    d->base.ops = &d->ops;
}
