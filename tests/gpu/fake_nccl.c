/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/fake_nccl.h"

struct ncclComm {
    bool ended;
};

struct CUevent_st {
    bool on_lane; /* recorded behind a collective */
};

struct fake fake;

static char lanes[3]; /* addresses that serve as streams: compute, gather, reduce */

static cudaStream_t stream(int i)
{
    return (cudaStream_t)(void *)&lanes[i];
}

/* Not of check.h, which counts for one thread. */
static void must(bool so)
{
    if (!so)
        abort();
}

static void say(const char *what)
{
    pthread_mutex_lock(&fake.lock);
    size_t n = strlen(fake.log);
    snprintf(fake.log + n, sizeof fake.log - n, "%s ", what);
    pthread_mutex_unlock(&fake.lock);
}

/* -- NCCL ------------------------------------------------------------------------------------- */

static ncclResult_t fake_version(int *version)
{
    *version = fake.version_is;
    return fake.version;
}

static ncclResult_t fake_unique_id(ncclUniqueId *id)
{
    memset(id, 'i', sizeof *id);
    return fake.unique_id;
}

static const char *fake_result_text(ncclResult_t r)
{
    static const char *const texts[] = {
        "no error",
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "internal error",
        "invalid argument",
        "invalid usage",
        "remote process exited or there was a network error",
        "in progress"};
    return texts[r];
}

static const char *fake_last_error(ncclComm_t comm)
{
    (void)comm;
    return fake.text;
}

static ncclComm_t make(void)
{
    fake.comms++;
    return calloc(1, sizeof(struct ncclComm));
}

static void unmake(ncclComm_t comm)
{
    must(comm && !comm->ended);
    fake.comms--;
    free(comm);
}

/* Where calls are stuck, not before an abort or the end. */
static void come_back(void)
{
    pthread_mutex_lock(&fake.lock);
    fake.waiting++;
    while (fake.stuck && fake.aborts == 0)
        pthread_cond_wait(&fake.aborted, &fake.lock);
    fake.waiting--;
    pthread_mutex_unlock(&fake.lock);
}

static void fake_give_up(void *arg, const struct dt_err *why)
{
    (void)arg;
    pthread_mutex_lock(&fake.lock);
    fake.gave_up = *why;
    fake.stuck = false;
    fake.give_ups++;
    pthread_cond_broadcast(&fake.aborted);
    pthread_mutex_unlock(&fake.lock);
}

const struct dt_comm_last fake_last = {.give_up = fake_give_up};

static ncclResult_t fake_init(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                              ncclConfig_t *c)
{
    (void)rank;
    fake.blocking = c->blocking;
    must(size > 0);
    must(id.internal[0] == 'i');
    fake.inits++;
    say("init");
    if (fake.init == ncclSuccess || fake.init == ncclInProgress)
        *comm = make();
    come_back();
    return fake.init;
}

static ncclResult_t fake_async_error(ncclComm_t comm, ncclResult_t *error)
{
    must(comm && !comm->ended);
    fake.asked++;
    *error = fake.polls > 0 ? ncclInProgress : (ncclResult_t)fake.async;
    if (fake.polls > 0)
        fake.polls--;
    return ncclSuccess;
}

static ncclResult_t fake_finalize(ncclComm_t comm)
{
    must(comm != NULL);
    fake.finalizes++;
    say("finalize");
    return fake.finalize;
}

static ncclResult_t fake_destroy(ncclComm_t comm)
{
    fake.destroys++;
    say("destroy");
    unmake(comm);
    return ncclSuccess;
}

static _Thread_local int group_depth, aborts_in_group;

static void end_aborts(int n)
{
    pthread_mutex_lock(&fake.lock);
    fake.aborts += n;
    fake.hang = false;
    pthread_cond_broadcast(&fake.aborted);
    pthread_mutex_unlock(&fake.lock);
}

static ncclResult_t fake_abort(ncclComm_t comm)
{
    say("abort");
    unmake(comm);
    if (group_depth > 0)
        aborts_in_group++;
    else
        end_aborts(1);
    return ncclSuccess;
}

/* What a call answers, maybe not before it is aborted. */
static ncclResult_t answer(const char *what)
{
    say(what);
    must(fake.polls == 0); /* NCCL refuses what comes before it has done the last thing */
    come_back();
    return fake.call;
}

static ncclResult_t fake_group_start(void)
{
    say("(");
    group_depth++;
    return ncclSuccess;
}

static ncclResult_t fake_group_end(void)
{
    say(")");
    must(group_depth > 0);
    if (--group_depth == 0 && aborts_in_group > 0) {
        end_aborts(aborts_in_group);
        aborts_in_group = 0;
    }
    return fake.call;
}

static ncclResult_t fake_all_reduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                                    ncclRedOp_t op, ncclComm_t comm, cudaStream_t s)
{
    (void)send, (void)recv, (void)count, (void)op, (void)comm;
    must(s == stream(2));
    return answer(type == ncclBfloat16 ? "all-reduce-bf16" : "all-reduce");
}

static ncclResult_t fake_reduce_scatter(const void *send, void *recv, size_t count,
                                        ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                        cudaStream_t s)
{
    (void)send, (void)recv, (void)count, (void)op, (void)comm;
    must(s == stream(2));
    return answer(type == ncclBfloat16 ? "reduce-scatter-bf16" : "reduce-scatter");
}

static ncclResult_t fake_all_gather(const void *send, void *recv, size_t count, ncclDataType_t type,
                                    ncclComm_t comm, cudaStream_t s)
{
    (void)send, (void)recv, (void)count, (void)type, (void)comm;
    must(!s || s == stream(1));
    return answer("all-gather");
}

static ncclResult_t fake_broadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   int root, ncclComm_t comm, cudaStream_t s)
{
    (void)send, (void)recv, (void)count, (void)type, (void)root, (void)comm, (void)s;
    return answer("broadcast");
}

static ncclResult_t fake_send(const void *send, size_t count, ncclDataType_t type, int peer,
                              ncclComm_t comm, cudaStream_t s)
{
    (void)send, (void)count, (void)type, (void)peer, (void)comm, (void)s;
    say("send");
    return ncclSuccess;
}

static ncclResult_t fake_recv(void *recv, size_t count, ncclDataType_t type, int peer,
                              ncclComm_t comm, cudaStream_t s)
{
    (void)recv, (void)count, (void)type, (void)peer, (void)comm, (void)s;
    say("recv");
    return ncclSuccess;
}

static ncclResult_t fake_split(ncclComm_t comm, int colour, int key, ncclComm_t *part,
                               ncclConfig_t *c)
{
    (void)key, (void)c;
    must(comm && colour >= 0 && !fake.hang); /* its work has ended */
    say("split");
    come_back();
    if (fake.split == ncclSuccess || fake.split == ncclInProgress)
        *part = make();
    return fake.split;
}

static ncclResult_t fake_reg(ncclComm_t comm, void *at, size_t bytes, void **handle)
{
    must(comm && at && bytes > 0);
    fake.registered++;
    say("register");
    *handle = at;
    return ncclSuccess;
}

static ncclResult_t fake_unreg(ncclComm_t comm, void *handle)
{
    must(comm && handle && !fake.hang); /* nothing uses it any more */
    fake.registered--;
    return ncclSuccess;
}

static ncclResult_t fake_mem_alloc(void **at, size_t bytes)
{
    if (fake.mem_alloc != ncclSuccess)
        return fake.mem_alloc;
    fake.lent++;
    *at = malloc(bytes);
    return ncclSuccess;
}

static ncclResult_t fake_mem_free(void *at)
{
    must(at && fake.windows < fake.lent); /* what goes is no window any more */
    fake.lent--;
    free(at);
    return ncclSuccess;
}

/* It is there when the communicator says that nothing is in progress. */
static ncclResult_t fake_window(ncclComm_t comm, void *at, size_t bytes, void **window, int flags)
{
    must(comm && at && bytes > 0 && flags == DT_NCCL_SYMMETRIC && fake.polls == 0);
    say("window");
    if (fake.window != ncclSuccess)
        return fake.window;
    fake.windows++;
    fake.polls = 3;
    *window = at;
    return ncclSuccess;
}

static ncclResult_t fake_unwindow(ncclComm_t comm, void *window)
{
    must(comm && window && !fake.hang);
    fake.windows--;
    return ncclSuccess;
}

static ncclResult_t fake_all_to_all(const void *send, void *recv, size_t count, ncclDataType_t type,
                                    ncclComm_t comm, cudaStream_t s)
{
    (void)send, (void)recv, (void)count, (void)type, (void)comm, (void)s;
    return answer("all-to-all");
}

/* -- CUDA ------------------------------------------------------------------------------------- */

static cudaError_t fake_set_device(int ordinal)
{
    must(ordinal == 0);
    return cudaSuccess;
}

static cudaError_t fake_event_create(cudaEvent_t *e, unsigned flags)
{
    must(flags == cudaEventDisableTiming);
    fake.events++;
    *e = calloc(1, sizeof **e);
    return cudaSuccess;
}

static cudaError_t fake_event_destroy(cudaEvent_t e)
{
    fake.events--;
    free(e);
    return cudaSuccess;
}

static cudaError_t fake_event_record(cudaEvent_t e, cudaStream_t s)
{
    e->on_lane = s != stream(0);
    return fake.event_record;
}

static cudaError_t fake_event_query(cudaEvent_t e)
{
    return e->on_lane && fake.hang ? cudaErrorNotReady : cudaSuccess;
}

static cudaError_t fake_stream_wait(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
    (void)e;
    must(flags == 0);
    say(s == stream(0) ? "compute-waits" : s == stream(1) ? "gather-waits" : "reduce-waits");
    return cudaSuccess;
}

static cudaError_t fake_stream_sync(cudaStream_t s)
{
    (void)s;
    return cudaSuccess;
}

static cudaError_t fake_clear(void *at, int byte, size_t bytes, cudaStream_t s)
{
    must(s == stream(0));
    memset(at, byte, bytes);
    return cudaSuccess;
}

static cudaError_t fake_copy_bytes(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t s)
{
    must(s == stream(0) && kind == cudaMemcpyDeviceToDevice);
    memmove(to, from, bytes);
    say("copy");
    return cudaSuccess;
}

static const char *fake_cuda_text(cudaError_t e)
{
    return e == cudaSuccess ? "no error" : "a CUDA error";
}

static cudaError_t fake_cast(size_t n, void *out, enum dt_dtype out_type, const void *x,
                             enum dt_dtype type, struct dt_stream *s)
{
    (void)n, (void)out, (void)x, (void)type;
    must(s->compute == stream(2));
    say(out_type == DT_F32 ? "to-float" : "to-bf16");
    return cudaSuccess;
}

static const struct dt_nccl_calls all = {
    .version = fake_version,
    .unique_id = fake_unique_id,
    .result_text = fake_result_text,
    .last_error = fake_last_error,
    .init = fake_init,
    .async_error = fake_async_error,
    .finalize = fake_finalize,
    .destroy = fake_destroy,
    .abort = fake_abort,
    .group_start = fake_group_start,
    .group_end = fake_group_end,
    .all_reduce = fake_all_reduce,
    .reduce_scatter = fake_reduce_scatter,
    .all_gather = fake_all_gather,
    .broadcast = fake_broadcast,
    .send = fake_send,
    .recv = fake_recv,
    .split = fake_split,
    .reg = fake_reg,
    .unreg = fake_unreg,
    .all_to_all = fake_all_to_all,
    .mem_alloc = fake_mem_alloc,
    .mem_free = fake_mem_free,
    .window = fake_window,
    .unwindow = fake_unwindow,
    .set_device = fake_set_device,
    .event_create = fake_event_create,
    .event_destroy = fake_event_destroy,
    .event_record = fake_event_record,
    .event_query = fake_event_query,
    .stream_wait = fake_stream_wait,
    .stream_sync = fake_stream_sync,
    .clear = fake_clear,
    .copy = fake_copy_bytes,
    .cuda_text = fake_cuda_text,
    .cast = fake_cast,
};

struct dt_nccl_calls fake_copy(void)
{
    return all;
}

const struct dt_nccl_calls *fake_calls(void)
{
    return &all;
}

const struct dt_nccl_calls *dt_nccl_linked(void)
{
    return fake_calls();
}

void fake_reset(void)
{
    memset(&fake, 0, sizeof fake);
    pthread_mutex_init(&fake.lock, NULL);
    pthread_cond_init(&fake.aborted, NULL);
    fake.version_is = 22809;
    fake.text = "";
}

/* -- the device ------------------------------------------------------------------------------- */

static void *gpu_alloc(struct dt_device *d, size_t bytes, const char *what, struct dt_err *err)
{
    (void)d, (void)what, (void)err;
    fake.blocks++;
    return calloc(1, bytes + 1);
}

static void gpu_free(struct dt_device *d, void *memory)
{
    (void)d;
    fake.blocks--;
    free(memory);
}

static bool gpu_round_over(void *arg)
{
    (void)arg;
    return fake.round_over;
}

void fake_gpu(struct dt_cuda *c)
{
    static const struct dt_device_ops table = {.alloc = gpu_alloc, .free = gpu_free};
    memset(c, 0, sizeof *c);
    c->device.table = &table;
    c->stream.compute = stream(0);
    c->gather = stream(1);
    c->reduce = stream(2);
    c->round_over = gpu_round_over;
    c->give_up = fake_last.give_up;
}

void dt_cuda_device_lose(struct dt_cuda *c, const struct dt_err *why)
{
    (void)c;
    pthread_mutex_lock(&fake.lock);
    if (!fake.is_lost)
        fake.lost = *why;
    pthread_mutex_unlock(&fake.lock);
    fake.is_lost = true;
}

int dt_cuda_fail(cudaError_t e, const char *what, struct dt_err *err)
{
    return dt_err_set(err, DT_E_RUNTIME, "%s: CUDA error %d", what, (int)e);
}
