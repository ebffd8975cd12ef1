/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over ranks, under way while backward goes on. A unit lies so that it can be summed where it
 * is, so units are neither copied together nor cut; reduce_bucket bounds how many elements are
 * under way at a time. What is pushed on one rank is pushed on all, in the same order. */
#include "base/clock.h"
#include "worker_runtime/zero/stage.h"

int dt_zero_start(struct dt_zero *z, const struct dt_coll_call *call, struct dt_coll_handle *h,
                  size_t unit, struct dt_err *err)
{
    int64_t from = dt_clock_monotonic_ns();
    int rc = dt_coll_start(z->coll, call, h, err);
    z->communication_ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    return rc < 0 ? dt_err_wrap(err, "unit %s", z->unit[unit].name) : 0;
}

int dt_zero_wait(struct dt_zero *z, struct dt_coll_handle *h, size_t unit, struct dt_err *err)
{
    int64_t from = dt_clock_monotonic_ns();
    int rc = dt_coll_wait(z->coll, h, err);
    z->communication_ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    return rc < 0 ? dt_err_wrap(err, "unit %s", z->unit[unit].name) : 0;
}

int dt_zero_barrier(struct dt_zero *z, struct dt_err *err)
{
    int64_t from = dt_clock_monotonic_ns();
    int rc = dt_coll_barrier(z->host, err);
    z->communication_ns += (uint64_t)(dt_clock_monotonic_ns() - from);
    return rc;
}

static bool full(const struct dt_zero *z, size_t more)
{
    const struct dt_queue *q = &z->queue;
    if (q->count == 0)
        return false;
    return q->count == DT_QUEUE_MAX ||
           (z->o.reduce_bucket != 0 && q->elements + more > z->o.reduce_bucket);
}

/* Floats that a device of fewer bits has added up stay what they are. */
int dt_queue_push(struct dt_zero *z, size_t unit, enum dt_coll_kind kind, void *buffer,
                  enum dt_dtype type, struct dt_err *err)
{
    const struct dt_layout_unit *u = &z->layout.unit[unit];
    struct dt_queue *q = &z->queue;
    while (full(z, u->padded))
        if (dt_queue_settle(z, err) < 0)
            return -1;
    if (z->elem == DT_F32 && z->o.comm_type != DT_F32)
        z->device->ops->round_to(u->padded, buffer, z->o.comm_type, z->device->stream);
    struct dt_reduction *r = &q->ring[(q->first + q->count) % DT_QUEUE_MAX];
    *r = (struct dt_reduction){.unit = unit, .elements = u->padded, .buffer = buffer};
    struct dt_coll_call call = {.kind = kind, .send = buffer, .type = type, .op = DT_SUM};
    call.recv = buffer;
    call.count = u->padded;
    if (kind == DT_REDUCE_SCATTER) {
        call.recv = (char *)buffer + z->rank * u->shard * dt_dtype_size(type);
        call.count = u->shard;
    }
    if (dt_zero_start(z, &call, &r->handle, unit, err) < 0)
        return -1;
    q->count++;
    q->elements += u->padded;
    return 0;
}

int dt_queue_settle(struct dt_zero *z, struct dt_err *err)
{
    struct dt_queue *q = &z->queue;
    struct dt_reduction *r = &q->ring[q->first];
    int rc = dt_zero_wait(z, &r->handle, r->unit, err);
    q->first = (q->first + 1) % DT_QUEUE_MAX;
    q->count--;
    q->elements -= r->elements;
    if (rc == 0 && z->stage->arrived)
        rc = z->stage->arrived(z, r->unit, r->buffer, err);
    return rc;
}

int dt_queue_drain(struct dt_zero *z, struct dt_err *err)
{
    while (z->queue.count > 0)
        if (dt_queue_settle(z, err) < 0)
            return -1;
    return 0;
}
