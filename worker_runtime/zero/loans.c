/* SPDX-License-Identifier: Apache-2.0 */
/* The largest unit, often the embedding, may be held while all others come and go, and may be far
 * larger than they are. So there is one buffer of its size, and a few that fit all others. */
#include "worker_runtime/zero/loans.h"

#include <assert.h>
#include <stdlib.h>

#include "worker_runtime/zero/offload.h"
#include "worker_runtime/zero/stage.h"

enum loan_state { FREE, HELD, LEAVING };

struct loan {
    void *memory;
    size_t capacity, unit; /* elements */
    enum loan_state state;
    bool private; /* from the device, because what the collectives lend is the same on all ranks */
};

struct dt_loans {
    struct dt_zero *z;
    struct loan *loan;
    size_t count;
};

static struct loan *grow(struct dt_loans *l, size_t capacity, bool private, struct dt_err *err)
{
    struct dt_zero *z = l->z;
    size_t bytes = capacity * dt_dtype_size(z->elem);
    struct loan *more = realloc(l->loan, (l->count + 1) * sizeof *more);
    if (!more) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a list of %zu buffers", l->count + 1);
        return NULL;
    }
    l->loan = more;
    void *memory = private ? dt_device_alloc(z->device, bytes, "gradients on their way", err)
                           : dt_coll_alloc(z->coll, bytes, DT_OWN, err);
    if (!memory) {
        dt_err_wrap(err, "buffer for the gradients of a unit");
        return NULL;
    }
    l->loan[l->count] = (struct loan){.memory = memory, .capacity = capacity, .private = private};
    return &l->loan[l->count++];
}

static void two_largest(const struct dt_layout *y, size_t *first, size_t *second)
{
    *first = *second = 0;
    for (size_t u = 0; u < y->units; u++) {
        size_t n = y->unit[u].padded;
        if (n > *first) {
            *second = *first;
            *first = n;
        } else if (n > *second) {
            *second = n;
        }
    }
}

struct dt_loans *dt_loans_create(struct dt_zero *z, size_t others, struct dt_err *err)
{
    struct dt_loans *l = calloc(1, sizeof *l);
    if (!l) {
        dt_err_set(err, DT_E_MEMORY, "no memory for lists of buffers");
        return NULL;
    }
    size_t first, second;
    l->z = z;
    two_largest(&z->layout, &first, &second);
    bool ok = grow(l, first, false, err) != NULL;
    for (size_t i = 0; ok && i < others && i + 1 < z->layout.units; i++)
        ok = grow(l, second, false, err) != NULL;
    if (ok)
        return l;
    dt_loans_destroy(l);
    return NULL;
}

void dt_loans_destroy(struct dt_loans *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < l->count; i++) {
        if (l->loan[i].private)
            dt_device_free(l->z->device, l->loan[i].memory);
        else
            dt_coll_release(l->z->coll, l->loan[i].memory);
    }
    free(l->loan);
    free(l);
}

static struct loan *held_by(struct dt_loans *l, size_t unit)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->loan[i].state == HELD && l->loan[i].unit == unit)
            return &l->loan[i];
    return NULL;
}

static struct loan *smallest_free(struct dt_loans *l, size_t need)
{
    struct loan *best = NULL;
    for (size_t i = 0; i < l->count; i++) {
        struct loan *n = &l->loan[i];
        if (n->state == FREE && n->capacity >= need && (!best || n->capacity < best->capacity))
            best = n;
    }
    return best;
}

void *dt_loans_take(struct dt_loans *l, size_t unit, struct dt_err *err)
{
    struct dt_zero *z = l->z;
    size_t need = z->layout.unit[unit].padded;
    struct loan *n = held_by(l, unit);
    if (n)
        return n->memory;
    while (!(n = smallest_free(l, need)) && z->queue.count > 0)
        if (dt_queue_settle(z, err) < 0)
            return NULL;
    if (!n && z->offload) { /* what is fetched from a buffer comes, and ends its loan */
        if (dt_offload_settle(z->offload, err) < 0)
            return NULL;
        n = smallest_free(l, need);
    }
    if (!n) /* of a GPU's memory a rank may take more by itself, and NCCL wants it from one source
             */
        n = grow(l, need, !z->device->coll, err);
    if (!n)
        return NULL;
    n->state = HELD;
    n->unit = unit;
    z->device->table->clear(z->device, n->memory, need * dt_dtype_size(z->elem));
    return n->memory;
}

void *dt_loans_held(struct dt_loans *l, size_t unit)
{
    struct loan *n = held_by(l, unit);
    return n ? n->memory : NULL;
}

void dt_loans_leave(struct dt_loans *l, size_t unit)
{
    struct loan *n = held_by(l, unit);
    assert(n);
    n->state = LEAVING;
}

void dt_loans_end(struct dt_loans *l, void *buffer)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->loan[i].memory == buffer)
            l->loan[i].state = FREE;
}

size_t dt_loans_bytes(const struct dt_loans *l)
{
    size_t bytes = 0;
    for (size_t i = 0; l && i < l->count; i++)
        bytes += l->loan[i].capacity * dt_dtype_size(l->z->elem);
    return bytes;
}
