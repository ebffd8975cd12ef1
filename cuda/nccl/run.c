/* SPDX-License-Identifier: Apache-2.0 */
/* A collective, put beside the compute stream: its lane waits for what compute has done so far,
 * NCCL's work goes on the lane, and compute waits for the lane where the caller waits for the
 * collective. All-gathers have a lane of their own. NCCL still runs the kernels of one communicator
 * one behind the other, in the order of the calls, so what the lanes let overlap is other groups'
 * work and the casts around sums. The host waits only while NCCL has not taken a call (the first
 * between two ranks connects them), and in barriers. */
#include "cuda/nccl/inside.h"

#include <time.h>

static cudaStream_t stream_of(const struct dt_nccl *n, enum dt_lane lane)
{
    return lane == DT_LANE_GATHER ? n->cuda->gather : n->cuda->reduce;
}

static dt_ms deadline_of(struct dt_nccl *n)
{
    return dt_clock_after(dt_clock_monotonic(), atomic_load(&n->watched.timeout));
}

/* -- how NCCL calls things -------------------------------------------------------------------- */

static const ncclDataType_t types[DT_DTYPES] = {
    [DT_F32] = ncclFloat32, [DT_BF16] = ncclBfloat16, [DT_F16] = ncclFloat16,
    [DT_F64] = ncclFloat64, [DT_I32] = ncclInt32,     [DT_I64] = ncclInt64,
    [DT_U8] = ncclUint8,    [DT_U16] = ncclUint8, /* moved as bytes, see as_nccl() */
};

static const ncclRedOp_t ops[] = {[DT_SUM] = ncclSum, [DT_MAX] = ncclMax, [DT_MIN] = ncclMin};

struct task { /* a call in NCCL's words */
    enum dt_coll_kind kind;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int peer;
    size_t part; /* bytes of count elements */
};

static struct task as_nccl(const struct dt_nccl *n, const struct dt_coll_call *c)
{
    struct task t = {.kind = c->kind, .send = c->send, .recv = c->recv, .peer = c->peer};
    t.count = c->type == DT_U16 ? 2 * c->count : c->count;
    t.type = types[c->type];
    t.op = ops[c->op];
    t.part = c->count * dt_dtype_size(c->type);
    if (c->kind == DT_BARRIER) {
        t.send = t.recv = n->token;
        t.count = 1;
        t.type = ncclFloat32;
    }
    return t;
}

static ncclResult_t all_to_all(const struct dt_nccl *n, const struct task *t, ncclComm_t comm,
                               cudaStream_t s)
{
    if (n->calls->all_to_all)
        return n->calls->all_to_all(t->send, t->recv, t->count, t->type, comm, s);
    ncclResult_t r = n->calls->group_start();
    for (int p = 0; p < n->size && r == ncclSuccess; p++) {
        size_t at = (size_t)p * t->part;
        r = n->calls->send((const char *)t->send + at, t->count, t->type, p, comm, s);
        if (r == ncclSuccess)
            r = n->calls->recv((char *)t->recv + at, t->count, t->type, p, comm, s);
    }
    ncclResult_t end = n->calls->group_end();
    return r == ncclSuccess ? end : r;
}

static ncclResult_t run(const struct dt_nccl *n, const struct task *t, ncclComm_t comm,
                        cudaStream_t s)
{
    const struct dt_nccl_calls *c = n->calls;
    switch (t->kind) {
    case DT_ALL_REDUCE:
    case DT_BARRIER:
        return c->all_reduce(t->send, t->recv, t->count, t->type, t->op, comm, s);
    case DT_REDUCE_SCATTER:
        return c->reduce_scatter(t->send, t->recv, t->count, t->type, t->op, comm, s);
    case DT_ALL_GATHER:
        return c->all_gather(t->send, t->recv, t->count, t->type, comm, s);
    case DT_ALL_TO_ALL:
        return all_to_all(n, t, comm, s);
    case DT_BROADCAST:
        return c->broadcast(t->recv, t->recv, t->count, t->type, t->peer, comm, s);
    case DT_SEND:
        return c->send(t->send, t->count, t->type, t->peer, comm, s);
    case DT_RECV:
        return c->recv(t->recv, t->count, t->type, t->peer, comm, s);
    case DT_COLL_KINDS:
        break;
    }
    return ncclInvalidArgument;
}

static bool sums(enum dt_coll_kind kind)
{
    return kind == DT_ALL_REDUCE || kind == DT_REDUCE_SCATTER;
}

/* -- sums of BF16 in float -------------------------------------------------------------------- */

static bool is_wide(const struct dt_nccl *n, const struct dt_coll_call *c)
{
    return n->cuda->wide_sums && sums(c->kind) && c->type == DT_BF16 && c->op == DT_SUM;
}

static size_t sent(const struct dt_nccl *n, const struct dt_coll_call *c)
{
    return c->kind == DT_REDUCE_SCATTER ? c->count * (size_t)n->size : c->count;
}

/* Before the lane waits for compute, where new memory is cleared. */
static int make_room(struct dt_nccl *n, const struct dt_coll_call *c, struct dt_err *err)
{
    size_t bytes = sent(n, c) * sizeof(float);
    if (bytes <= n->wide_bytes)
        return 0;
    cudaError_t e = n->calls->stream_sync(n->cuda->reduce);
    if (e != cudaSuccess)
        return dt_cuda_fail(e, "waiting for sums", err);
    dt_device_free(&n->cuda->device, n->wide);
    n->wide_bytes = 0;
    n->wide = dt_device_alloc(&n->cuda->device, bytes, "sums of bf16 in float", err);
    if (!n->wide)
        return -1;
    n->wide_bytes = bytes;
    return 0;
}

static struct dt_stream as_stream(const struct dt_nccl *n)
{
    struct dt_stream s = n->cuda->stream;
    s.compute = n->cuda->reduce;
    return s;
}

/* The task on floats instead. */
static int widen(struct dt_nccl *n, const struct dt_coll_call *c, struct task *t,
                 struct dt_err *err)
{
    struct dt_stream s = as_stream(n);
    cudaError_t e = n->calls->cast(sent(n, c), n->wide, DT_F32, c->send, DT_BF16, &s);
    size_t ours = c->kind == DT_REDUCE_SCATTER ? (size_t)n->rank * c->count : 0;
    t->send = n->wide;
    t->recv = (float *)n->wide + ours;
    t->type = ncclFloat32;
    return e == cudaSuccess ? 0 : dt_cuda_fail(e, "bf16 to float for a sum", err);
}

static int narrow(struct dt_nccl *n, const struct dt_coll_call *c, const struct task *t,
                  struct dt_err *err)
{
    struct dt_stream s = as_stream(n);
    cudaError_t e = n->calls->cast(c->count, c->recv, DT_BF16, t->recv, DT_F32, &s);
    return e == cudaSuccess ? 0 : dt_cuda_fail(e, "a sum in float to bf16", err);
}

/* -- starting --------------------------------------------------------------------------------- */

/* A group of one: what it gives is what it gets, in the order of compute. */
static int start_alone(struct dt_nccl *n, struct dt_coll_handle *h, struct dt_err *err)
{
    const struct dt_coll_call *c = &h->call;
    h->done = true;
    if (c->kind > DT_ALL_TO_ALL || c->send == c->recv || c->count == 0)
        return 0;
    cudaError_t e = n->calls->copy(c->recv, c->send, c->count * dt_dtype_size(c->type),
                                   cudaMemcpyDeviceToDevice, n->cuda->stream.compute);
    return e == cudaSuccess ? 0 : dt_cuda_fail(e, "a copy in a group of one rank", err);
}

/* A flight whose lane waits for what compute has been given so far. */
static struct dt_flight *depart(struct dt_nccl *n, const struct dt_coll_handle *h,
                                struct dt_err *err)
{
    enum dt_lane lane = h->call.kind == DT_ALL_GATHER ? DT_LANE_GATHER : DT_LANE_REDUCE;
    struct dt_flight *f = dt_flights_take(&n->flights, lane, err);
    if (!f)
        return NULL;
    f->kind = h->call.kind;
    f->sequence = h->sequence;
    cudaError_t e = n->calls->event_record(f->ready, n->cuda->stream.compute);
    if (e == cudaSuccess)
        e = n->calls->stream_wait(stream_of(n, lane), f->ready, 0);
    if (e == cudaSuccess)
        return f;
    dt_flights_drop(&n->flights, f);
    dt_cuda_fail(e, "putting a collective behind the work before it", err);
    return NULL;
}

/* Its work is all on the lane. */
static int begin(struct dt_nccl *n, struct dt_flight *f, struct dt_err *err)
{
    cudaError_t e = n->calls->event_record(f->done, stream_of(n, f->lane));
    if (e != cudaSuccess)
        return dt_cuda_fail(e, "marking the end of a collective", err);
    dt_flights_begin(&n->flights, f);
    return 0;
}

static int give_to_nccl(struct dt_nccl *n, const struct task *t, cudaStream_t s, struct dt_err *err)
{
    dt_ms deadline = deadline_of(n);
    if (dt_nccl_show(n, t->send, deadline, err) < 0 || dt_nccl_show(n, t->recv, deadline, err) < 0)
        return -1;
    ncclComm_t comm = dt_comm_enter(&n->comm, err);
    if (!comm)
        return -1;
    return dt_comm_leave(&n->comm, run(n, t, comm, s), "starting it", deadline, err);
}

static int launch(struct dt_nccl *n, struct dt_coll_handle *h, struct dt_err *err)
{
    struct dt_flight *f = h->state;
    struct task t = as_nccl(n, &h->call);
    bool wide = is_wide(n, &h->call);
    if ((wide && widen(n, &h->call, &t, err) < 0) ||
        give_to_nccl(n, &t, stream_of(n, f->lane), err) < 0 ||
        (wide && narrow(n, &h->call, &t, err) < 0))
        return -1;
    return begin(n, f, err);
}

/* -- sends and receives ----------------------------------------------------------------------- */

static ncclResult_t run_posted(struct dt_nccl *n, ncclComm_t comm)
{
    ncclResult_t r = n->calls->group_start();
    for (int i = 0; i < n->posts && r == ncclSuccess; i++) {
        struct task t = as_nccl(n, &n->posted[i].call);
        r = run(n, &t, comm, n->cuda->reduce);
    }
    ncclResult_t end = n->calls->group_end();
    return r == ncclSuccess ? end : r;
}

static void drop_from(struct dt_nccl *n, int from)
{
    for (int i = from; i < n->posts; i++)
        dt_flights_drop(&n->flights, n->posted[i].flight);
    n->posts = 0;
}

void dt_nccl_drop_posted(struct dt_nccl *n)
{
    drop_from(n, 0);
}

static int send_posted(struct dt_nccl *n, struct dt_err *err)
{
    int i = 0;
    if (n->posts == 0)
        return 0;
    ncclComm_t comm = dt_comm_enter(&n->comm, err);
    int rc = comm ? dt_comm_leave(&n->comm, run_posted(n, comm), "starting sends and receives",
                                  deadline_of(n), err)
                  : -1;
    while (rc == 0 && i < n->posts) {
        rc = begin(n, n->posted[i].flight, err);
        i += rc == 0;
    }
    drop_from(n, i);
    return rc;
}

static bool is_posted(const struct dt_nccl *n, const struct dt_flight *f)
{
    for (int i = 0; i < n->posts; i++)
        if (n->posted[i].flight == f)
            return true;
    return false;
}

/* -- the backend's two ------------------------------------------------------------------------ */

int dt_nccl_start(void *b, struct dt_coll_handle *h, struct dt_err *err)
{
    struct dt_nccl *n = b;
    const struct dt_coll_call *c = &h->call;
    dt_nccl_choose_gpu(n);
    if (n->size == 1)
        return start_alone(n, h, err);
    if (sums(c->kind) && c->type == DT_U16)
        return dt_err_set(err, DT_E_RUNTIME, "NCCL cannot sum numbers of type u16");
    if (c->count == 0 && c->kind != DT_BARRIER) {
        h->done = true;
        return dt_comm_check(&n->comm, err);
    }
    if (is_wide(n, c) && make_room(n, c, err) < 0)
        return -1;
    h->state = depart(n, h, err);
    if (!h->state)
        return -1;
    if (c->kind == DT_SEND || c->kind == DT_RECV) {
        n->posted[n->posts++] = (struct dt_nccl_post){*c, h->state};
        return dt_comm_check(&n->comm, err);
    }
    if (send_posted(n, err) == 0 && launch(n, h, err) == 0)
        return 0;
    dt_flights_drop(&n->flights, h->state);
    h->state = NULL;
    return -1;
}

int dt_nccl_rest(struct dt_nccl *n, dt_ms deadline, struct dt_err *err)
{
    while (dt_flights_any(&n->flights)) {
        if (dt_comm_check(&n->comm, err) < 0)
            return -1;
        if (dt_clock_monotonic() >= deadline)
            return dt_err_set(err, DT_E_TIMEOUT, "collectives that began before have not ended");
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return 0;
}

/* The host waits: for a barrier there is nothing on the device to wait for it. */
static int come_together(struct dt_nccl *n, const struct dt_flight *f, dt_ms deadline,
                         struct dt_err *err)
{
    cudaError_t e;
    while ((e = n->calls->event_query(f->done)) == cudaErrorNotReady) {
        if (dt_comm_check(&n->comm, err) < 0)
            return -1;
        if (dt_clock_monotonic() >= deadline)
            return dt_err_set(err, DT_E_TIMEOUT,
                              "a rank has not come to it, or work on this GPU "
                              "before it has not ended");
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    if (e != cudaSuccess)
        return dt_cuda_fail(e, "waiting for the other ranks", err);
    return dt_comm_check(&n->comm, err);
}

int dt_nccl_wait(void *b, struct dt_coll_handle *h, dt_ms deadline, struct dt_err *err)
{
    struct dt_nccl *n = b;
    dt_nccl_choose_gpu(n);
    /* The watchdog's too: the caller may have changed how long this group's calls may take. */
    dt_ms left = deadline - dt_clock_monotonic();
    atomic_store(&n->watched.timeout, left > 0 ? left : 1);
    struct dt_flight *f = h->state;
    if (is_posted(n, f) && send_posted(n, err) < 0)
        return -1;
    if (dt_comm_check(&n->comm, err) < 0)
        return -1;
    if (h->call.kind == DT_BARRIER && come_together(n, f, deadline, err) < 0)
        return -1;
    cudaError_t e = n->calls->stream_wait(n->cuda->stream.compute, f->done, 0);
    if (e != cudaSuccess)
        return dt_cuda_fail(e, "waiting for a collective", err);
    dt_flights_let_go(&n->flights, f);
    h->state = NULL;
    h->done = true;
    return 0;
}
