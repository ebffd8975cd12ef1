/* SPDX-License-Identifier: Apache-2.0 */
/* Groups: what is the same whoever moves the bytes. Calls are checked and numbered here, get their
 * deadline, and failures get their name. A group that failed once stays so: its ranks no longer
 * agree about what has been called. */
#include "worker_runtime/coll/inside.h"

#include <stdio.h>
#include <string.h>

static const char *const kind_names[DT_COLL_KINDS] = {
    [DT_ALL_REDUCE] = "all-reduce", [DT_REDUCE_SCATTER] = "reduce-scatter",
    [DT_ALL_GATHER] = "all-gather", [DT_ALL_TO_ALL] = "all-to-all",
    [DT_BROADCAST] = "broadcast",   [DT_SEND] = "send",
    [DT_RECV] = "receive",          [DT_BARRIER] = "barrier",
};

int dt_coll_rank(const struct dt_coll *c)
{
    return c->group.rank;
}

int dt_coll_size(const struct dt_coll *c)
{
    return c->group.size;
}

bool dt_coll_lends_better(const struct dt_coll *c)
{
    return c->backend->lends_better && c->backend->lends_better(c->state);
}

bool dt_coll_shares_all(const struct dt_coll *c)
{
    return c->backend->shares_all(c->state);
}

int dt_coll_timeout_ms(struct dt_coll *c, int64_t ms)
{
    if (ms <= 0)
        return -1;
    atomic_store(&c->timeout, ms);
    return 0;
}

/* -- failing ---------------------------------------------------------------------------------- */

static bool has_peer(enum dt_coll_kind kind)
{
    return kind == DT_SEND || kind == DT_RECV;
}

static void name_call(const struct dt_coll *c, const struct dt_coll_handle *h, char out[160])
{
    int n = snprintf(out, 160, "%s number %llu of group %s", kind_names[h->call.kind],
                     (unsigned long long)h->sequence, c->group.name);
    if (has_peer(h->call.kind) && n > 0 && n < 120)
        snprintf(out + n, 160 - (size_t)n, " %s rank %d", h->call.kind == DT_SEND ? "to" : "from",
                 c->group.members[h->call.peer].world_rank);
}

/* What a failure of the backend means for the caller. */
static int fail(struct dt_coll *c, const struct dt_coll_handle *h, struct dt_err *why,
                struct dt_err *err)
{
    char name[160];
    name_call(c, h, name);
    if (atomic_load(&c->aborted) == 2)
        dt_err_set(why, DT_E_CANCELED, "%s", c->why);
    if (why->code == DT_E_TIMEOUT)
        dt_err_wrap(why, "%s (timeout %g s)", name, (double)atomic_load(&c->timeout) / 1e3);
    else
        dt_err_wrap(why, "%s", name);
    c->failed = *why;
    if (err)
        *err = *why;
    return -1;
}

static int check_usable(struct dt_coll *c, struct dt_err *err)
{
    if (atomic_load_explicit(&c->aborted, memory_order_acquire) == 2)
        return dt_err_set(err, DT_E_CANCELED, "group %s: %s", c->group.name, c->why);
    if (c->failed.code)
        return dt_err_set(err, c->failed.code, "group %s failed before: %s", c->group.name,
                          c->failed.text);
    return 0;
}

/* -- calls ------------------------------------------------------------------------------------ */

/* How many times COUNT elements a buffer that holds a part of each rank has. */
static int check_size(const struct dt_coll *c, const struct dt_coll_call *call, struct dt_err *err)
{
    size_t most = SIZE_MAX / 2 / dt_dtype_size(call->type) / (size_t)c->group.size;
    if (call->count > most)
        return dt_err_set(err, DT_E_RUNTIME, "%s of group %s: %zu elements do not fit in memory",
                          kind_names[call->kind], c->group.name, call->count);
    bool sends = call->kind != DT_BROADCAST && call->kind != DT_RECV;
    bool receives = call->kind != DT_SEND;
    if (call->count > 0 && ((sends && !call->send) || (receives && !call->recv)))
        return dt_err_set(err, DT_E_RUNTIME, "%s of group %s: %zu elements without a buffer",
                          kind_names[call->kind], c->group.name, call->count);
    if (call->kind == DT_ALL_TO_ALL && call->count > 0 && call->send == call->recv &&
        c->group.size > 1)
        return dt_err_set(err, DT_E_RUNTIME, "all-to-all of group %s: not possible in place",
                          c->group.name);
    return 0;
}

static int check_peer(const struct dt_coll *c, const struct dt_coll_call *call, struct dt_err *err)
{
    if (call->kind != DT_BROADCAST && !has_peer(call->kind))
        return 0;
    if (call->peer < 0 || call->peer >= c->group.size)
        return dt_err_set(err, DT_E_RUNTIME, "%s of group %s: no rank %d among %d",
                          kind_names[call->kind], c->group.name, call->peer, c->group.size);
    if (has_peer(call->kind) && call->peer == c->group.rank)
        return dt_err_set(err, DT_E_RUNTIME, "%s of group %s: rank %d to itself",
                          kind_names[call->kind], c->group.name, call->peer);
    return 0;
}

/* A call with nothing in it but what its kind looks at. Backends compare the calls of ranks. */
static struct dt_coll_call only_what_counts(const struct dt_coll_call *call)
{
    struct dt_coll_call plain = {.kind = call->kind};
    if (call->kind == DT_BARRIER)
        return plain;
    plain = *call;
    if (call->kind != DT_ALL_REDUCE && call->kind != DT_REDUCE_SCATTER)
        plain.op = DT_SUM;
    if (call->kind != DT_BROADCAST && !has_peer(call->kind))
        plain.peer = 0;
    if (call->kind == DT_BROADCAST || call->kind == DT_RECV)
        plain.send = NULL;
    return plain;
}

static int check(struct dt_coll *c, const struct dt_coll_call *call, struct dt_err *err)
{
    if (call->kind < 0 || call->kind >= DT_COLL_KINDS)
        return dt_err_set(err, DT_E_RUNTIME, "group %s: no collective of kind %d", c->group.name,
                          (int)call->kind);
    if (call->kind == DT_BARRIER)
        return 0;
    if (call->type < 0 || call->type >= DT_DTYPES || call->op < DT_SUM || call->op > DT_MIN)
        return dt_err_set(err, DT_E_RUNTIME, "%s of group %s: no type %d or operation %d",
                          kind_names[call->kind], c->group.name, (int)call->type, (int)call->op);
    if (check_peer(c, call, err) < 0)
        return -1;
    return check_size(c, call, err);
}

static uint64_t next_number(struct dt_coll *c, const struct dt_coll_call *call)
{
    if (call->kind == DT_SEND)
        return ++c->sends[call->peer];
    if (call->kind == DT_RECV)
        return ++c->recvs[call->peer];
    return ++c->collectives;
}

int dt_coll_start(struct dt_coll *c, const struct dt_coll_call *call, struct dt_coll_handle *h,
                  struct dt_err *err)
{
    struct dt_err why = {0};
    *h = (struct dt_coll_handle){0};
    struct dt_coll_call plain = only_what_counts(call);
    if (check_usable(c, err) < 0 || check(c, &plain, err) < 0)
        return -1;
    if (c->pending == DT_COLL_PENDING)
        return dt_err_set(err, DT_E_LIMIT,
                          "%s of group %s: %d are under way and none was waited for",
                          kind_names[call->kind], c->group.name, c->pending);
    h->call = plain;
    h->sequence = next_number(c, &plain);
    if (c->backend->start(c->state, h, &why) < 0)
        return fail(c, h, &why, err);
    c->pending++;
    return 0;
}

int dt_coll_wait(struct dt_coll *c, struct dt_coll_handle *h, struct dt_err *err)
{
    struct dt_err why = {0};
    if (check_usable(c, err) < 0)
        return -1;
    c->pending--;
    dt_ms timeout = atomic_load_explicit(&c->timeout, memory_order_relaxed);
    dt_ms deadline = dt_clock_after(dt_clock_monotonic(), timeout);
    if (!h->done && c->backend->wait(c->state, h, deadline, &why) < 0)
        return fail(c, h, &why, err);
    return 0;
}

static int call_now(struct dt_coll *c, struct dt_coll_call call, struct dt_err *err)
{
    struct dt_coll_handle h;
    return dt_coll_start(c, &call, &h, err) < 0 ? -1 : dt_coll_wait(c, &h, err);
}

int dt_coll_all_reduce(struct dt_coll *c, void *buf, size_t count, enum dt_dtype type,
                       enum dt_coll_op op, struct dt_err *err)
{
    return call_now(c,
                    (struct dt_coll_call){.kind = DT_ALL_REDUCE,
                                          .send = buf,
                                          .recv = buf,
                                          .count = count,
                                          .type = type,
                                          .op = op},
                    err);
}

int dt_coll_reduce_scatter(struct dt_coll *c, const void *send, void *recv, size_t count,
                           enum dt_dtype type, enum dt_coll_op op, struct dt_err *err)
{
    return call_now(c,
                    (struct dt_coll_call){.kind = DT_REDUCE_SCATTER,
                                          .send = send,
                                          .recv = recv,
                                          .count = count,
                                          .type = type,
                                          .op = op},
                    err);
}

int dt_coll_all_gather(struct dt_coll *c, const void *send, void *recv, size_t count,
                       enum dt_dtype type, struct dt_err *err)
{
    return call_now(
        c,
        (struct dt_coll_call){
            .kind = DT_ALL_GATHER, .send = send, .recv = recv, .count = count, .type = type},
        err);
}

int dt_coll_all_to_all(struct dt_coll *c, const void *send, void *recv, size_t count,
                       enum dt_dtype type, struct dt_err *err)
{
    return call_now(
        c,
        (struct dt_coll_call){
            .kind = DT_ALL_TO_ALL, .send = send, .recv = recv, .count = count, .type = type},
        err);
}

int dt_coll_broadcast(struct dt_coll *c, void *buf, size_t count, enum dt_dtype type, int root,
                      struct dt_err *err)
{
    return call_now(
        c,
        (struct dt_coll_call){
            .kind = DT_BROADCAST, .recv = buf, .count = count, .type = type, .peer = root},
        err);
}

int dt_coll_send(struct dt_coll *c, const void *buf, size_t count, enum dt_dtype type, int to,
                 struct dt_err *err)
{
    return call_now(c,
                    (struct dt_coll_call){
                        .kind = DT_SEND, .send = buf, .count = count, .type = type, .peer = to},
                    err);
}

int dt_coll_recv(struct dt_coll *c, void *buf, size_t count, enum dt_dtype type, int from,
                 struct dt_err *err)
{
    return call_now(c,
                    (struct dt_coll_call){
                        .kind = DT_RECV, .recv = buf, .count = count, .type = type, .peer = from},
                    err);
}

int dt_coll_barrier(struct dt_coll *c, struct dt_err *err)
{
    return call_now(c, (struct dt_coll_call){.kind = DT_BARRIER}, err);
}

void *dt_coll_alloc(struct dt_coll *c, size_t bytes, enum dt_coll_memory memory, struct dt_err *err)
{
    struct dt_err why = {0};
    if (check_usable(c, err) < 0)
        return NULL;
    void *at = c->backend->alloc(c->state, bytes, memory, &why);
    if (at)
        return at;
    dt_err_wrap(&why, "%zu bytes of memory of group %s", bytes, c->group.name);
    /* Short of memory on some rank all are told so and agree; of anything else they do not. */
    if (why.code != DT_E_MEMORY && why.code != DT_E_RUNTIME)
        c->failed = why;
    if (err)
        *err = why;
    return NULL;
}

void dt_coll_release(struct dt_coll *c, void *memory)
{
    if (memory)
        c->backend->release(c->state, memory);
}

void dt_coll_abort(struct dt_coll *c, const char *why)
{
    int none = 0;
    if (!atomic_compare_exchange_strong(&c->aborted, &none, 1))
        return;
    snprintf(c->why, sizeof c->why, "aborted: %s", why);
    atomic_store(&c->aborted, 2);
    c->backend->abort(c->state);
}
