/* SPDX-License-Identifier: Apache-2.0 */
/* A small NCCL between processes or threads of one host, enough for groups of GPUs and whole
 * training runs. Each call is sends and receives between all pairs of ranks, put on the stream
 * like a kernel; sums are taken in the order of ranks, the same on all. A peer that dies or makes
 * no such call leaves the others' streams waiting, as NCCL does, until they abort. Groups that are
 * not to block are "in progress" at least DT_EMULATOR_NCCL_POLLS (2) times. */
#include "tests/gpu/emulator/memory.h"
#include "tests/gpu/emulator/nccl_transfer.h"
#include "tests/gpu/emulator/stream.h"

#pragma GCC visibility push(default) /* newer calls are looked up by name */
#include <nccl.h>
#pragma GCC visibility pop

#include <algorithm>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

using namespace dt_emulator;

namespace
{

/* What work on streams keeps alive. */
struct bond {
    std::unique_ptr<wire> w;
    std::atomic<bool> aborted{false};
};

struct split_wish {
    std::shared_ptr<bond> parent;
    unsigned number;
    int colour, key;
};

enum class phase { SPLITTING, CONNECTING, READY, FINALIZING, FAILED };

} // namespace

struct ncclComm {
    std::mutex lock;
    phase now = phase::CONNECTING;
    bool blocking = true;
    size_t polls = 0;
    std::shared_ptr<bond> l = std::make_shared<bond>();
    split_wish split = {};
    unsigned splits = 0;
    cudaEvent_t last = nullptr; /* behind all work so far */
    std::string error;
};

namespace
{

/* One call, before the group that it is in has ended. */
struct call {
    ncclComm_t comm;
    cudaStream_t stream;
    std::function<void(transfer &)> plan;
};

thread_local int group_depth;
thread_local std::vector<call> group;
thread_local std::string last_error;

ncclResult_t fail(ncclComm_t c, ncclResult_t r, const std::string &why)
{
    last_error = why;
    if (c)
        c->error = why;
    return r;
}

/* -- making groups ---------------------------------------------------------------------------- */

bool connect(ncclComm *c, const std::string &name, int ranks, int rank)
{
    c->l->w.reset(wire::open(name, ranks, rank));
    c->now = c->l->w ? phase::CONNECTING : phase::FAILED;
    return c->l->w != nullptr;
}

/* When all ranks have said what they want: those of one colour, by key, then by rank. */
bool join_split(ncclComm *c)
{
    wire &parent = *c->split.parent->w;
    std::vector<std::pair<int, int>> members;
    for (int r = 0; r < parent.ranks; r++) {
        int colour, key;
        if (!parent.split_of(c->split.number, r, &colour, &key))
            return false;
        if (colour == c->split.colour)
            members.push_back({key, r});
    }
    std::sort(members.begin(), members.end());
    int rank = 0;
    while (members[size_t(rank)].second != parent.rank)
        rank++;
    connect(c,
            parent.name + "_" + std::to_string(c->split.number) + "." +
                std::to_string(c->split.colour),
            int(members.size()), rank);
    return true;
}

ncclResult_t poll(ncclComm *c)
{
    std::lock_guard<std::mutex> hold(c->lock);
    if (c->polls > 0) {
        c->polls--;
        return ncclInProgress;
    }
    if (c->now == phase::SPLITTING && !join_split(c))
        return ncclInProgress;
    if (c->now == phase::CONNECTING && c->l->w->all_here())
        c->now = phase::READY;
    if (c->now == phase::FINALIZING && cudaEventQuery(c->last) == cudaSuccess)
        return ncclSuccess;
    return c->now == phase::FAILED  ? fail(c, ncclSystemError, "no shared memory")
           : c->now == phase::READY ? ncclSuccess
                                    : ncclInProgress;
}

/* A real one would wait for ever; a test is better off with an end. */
ncclResult_t wait_for_peers(ncclComm *c)
{
    for (int i = 0; i < 60000; i++) {
        ncclResult_t r = poll(c);
        if (r != ncclInProgress)
            return r;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return fail(c, ncclSystemError, "peers did not come within a minute");
}

ncclResult_t begin(ncclComm *c, const ncclConfig_t *config)
{
    if (config)
        c->blocking = config->blocking != 0; /* not said is 1, too */
    c->blocking = number_from("NCCL_COMM_BLOCKING", c->blocking) != 0;
    cudaEventCreateWithFlags(&c->last, cudaEventDisableTiming);
    if (c->blocking)
        return wait_for_peers(c);
    c->polls = number_from("DT_EMULATOR_NCCL_POLLS", 2);
    return ncclInProgress;
}

/* -- arithmetic ------------------------------------------------------------------------------- */

size_t size_of(ncclDataType_t t)
{
    switch (t) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
        return 8;
    default:
        return 4;
    }
}

template <class T> T combine(T a, T b, ncclRedOp_t op)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return a > b ? a : b;
    case ncclMin:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

/* T: what stands in memory; S: what is counted in. PARTS: one array of each rank. */
template <class T, class S>
void reduce_as(void *to, const std::vector<const void *> &parts, size_t n, ncclRedOp_t op)
{
    for (size_t i = 0; i < n; i++) {
        S sum = S(static_cast<const T *>(parts[0])[i]);
        for (size_t r = 1; r < parts.size(); r++)
            sum = combine(sum, S(static_cast<const T *>(parts[r])[i]), op);
        static_cast<T *>(to)[i] = T(op == ncclAvg ? sum / S(parts.size()) : sum);
    }
}

bool reduce(ncclDataType_t t, void *to, const std::vector<const void *> &parts, size_t n,
            ncclRedOp_t op)
{
    switch (t) {
    case ncclFloat32:
        return reduce_as<float, float>(to, parts, n, op), true;
    case ncclBfloat16:
        return reduce_as<__nv_bfloat16, float>(to, parts, n, op), true;
    case ncclFloat16:
        return reduce_as<__half, float>(to, parts, n, op), true;
    case ncclFloat64:
        return reduce_as<double, double>(to, parts, n, op), true;
    case ncclInt8:
        return reduce_as<int8_t, int>(to, parts, n, op), true;
    case ncclUint8:
        return reduce_as<uint8_t, unsigned>(to, parts, n, op), true;
    case ncclInt32:
        return reduce_as<int32_t, int64_t>(to, parts, n, op), true;
    case ncclUint32:
        return reduce_as<uint32_t, uint64_t>(to, parts, n, op), true;
    case ncclInt64:
        return reduce_as<int64_t, int64_t>(to, parts, n, op), true;
    case ncclUint64:
        return reduce_as<uint64_t, uint64_t>(to, parts, n, op), true;
    default:
        return false;
    }
}

/* -- calls ------------------------------------------------------------------------------------ */

enum call_number : uint32_t {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    MESSAGE,
    ALL_TO_ALL
};

/* Puts all calls of C in CALLS on their stream as one. */
ncclResult_t enqueue(ncclComm_t c, const std::vector<call> &calls)
{
    cudaStream_t stream = nullptr;
    auto t = std::make_shared<transfer>(c->l->w->rank);
    bool first = true;
    for (const call &each : calls) {
        if (each.comm != c)
            continue;
        if (!first && each.stream != stream)
            return fail(c, ncclInvalidUsage, "one group of calls on two streams");
        first = false;
        stream = each.stream;
        each.plan(*t);
    }
    cudaStreamWaitEvent(stream, c->last, 0);
    put(stream, [t, l = c->l] {
        device_work now;
        return l->aborted || t->step(*l->w);
    });
    cudaEventRecord(c->last, stream);
    return ncclSuccess;
}

ncclResult_t make(ncclComm_t c, cudaStream_t stream, std::function<void(transfer &)> plan)
{
    if (c->now != phase::READY || c->polls > 0)
        return fail(c, ncclInvalidUsage, "the group is not ready, or was finalized");
    group.push_back({c, stream, std::move(plan)});
    if (group_depth > 0)
        return ncclSuccess;
    std::vector<call> alone;
    alone.swap(group);
    return enqueue(c, alone);
}

bool fits(ncclComm_t c, const void *at, size_t bytes)
{
    if (bytes == 0 || device_holds(at, bytes))
        return true;
    fail(c, ncclInvalidArgument, "a buffer is not memory of the device, or too small");
    return false;
}

typedef std::shared_ptr<std::vector<unsigned char>> room;

unsigned char *bytes_at(void *at, size_t offset)
{
    return static_cast<unsigned char *>(at) + offset;
}

const unsigned char *bytes_at(const void *at, size_t offset)
{
    return static_cast<const unsigned char *>(at) + offset;
}

/* Each rank sends each other one a part of SEND, and reduces what it gets and its own part. With
 * SCATTERED, the part of rank r is the rth; else it is all. */
void plan_reduction(transfer &t, const wire &w, heading h, const void *send, void *recv,
                    size_t count, ncclDataType_t type, ncclRedOp_t op, bool scattered)
{
    auto got = std::make_shared<std::vector<room>>();
    std::vector<const void *> parts;
    for (int r = 0; r < w.ranks; r++) {
        got->push_back(std::make_shared<std::vector<unsigned char>>(h.bytes));
        void *to = got->back()->data();
        parts.push_back(r == w.rank ? bytes_at(send, scattered ? size_t(r) * h.bytes : 0) : to);
        if (r == w.rank)
            continue;
        t.send(r, h, bytes_at(send, scattered ? size_t(r) * h.bytes : 0));
        t.receive(r, h, to);
    }
    /* RECV may be within SEND: what is reduced goes elsewhere first. */
    size_t rank = size_t(w.rank);
    t.then([=] {
        std::vector<unsigned char> &own = *(*got)[rank];
        reduce(type, own.data(), parts, count, op);
        memcpy(recv, own.data(), own.size());
    });
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    std::random_device random;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "/dt_emulator_%08x%08x%08x", random(), random(),
             random());
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return size_t(r) < sizeof texts / sizeof *texts ? texts[r] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t c)
{
    return c ? c->error.c_str() : last_error.c_str();
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    *comm = nullptr;
    if (ranks < 1 || rank < 0 || rank >= ranks || id.internal[0] != '/')
        return fail(nullptr, ncclInvalidArgument, "no such rank, or an id that is none");
    ncclComm *c = new ncclComm();
    *comm = c;
    connect(c, id.internal, ranks, rank);
    return begin(c, config);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int colour, int key, ncclComm_t *comm,
                           ncclConfig_t *config)
{
    *comm = nullptr;
    if (parent->now != phase::READY)
        return fail(parent, ncclInvalidUsage, "the group is not ready, or was finalized");
    unsigned number = parent->splits++;
    parent->l->w->say_split(number, colour, key);
    if (colour == NCCL_SPLIT_NOCOLOR)
        return ncclSuccess;
    ncclComm *c = new ncclComm();
    *comm = c;
    c->now = phase::SPLITTING;
    c->blocking = parent->blocking;
    c->split = {parent->l, number, colour, key};
    return begin(c, config);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *error)
{
    *error = poll(c);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
    c->now = phase::FINALIZING;
    if (!c->blocking)
        return poll(c);
    cudaEventSynchronize(c->last);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
    if (!c)
        return ncclSuccess;
    cudaEventSynchronize(c->last);
    cudaEventDestroy(c->last);
    delete c;
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
    if (!c)
        return ncclSuccess;
    c->l->aborted = true;
    cudaEventDestroy(c->last);
    delete c;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t c, int *n)
{
    *n = c->l->w->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t c, int *rank)
{
    *rank = c->l->w->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t, int *device)
{
    return cudaGetDevice(device) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclCommRegister(const ncclComm_t c, void *at, size_t bytes, void **handle)
{
    *handle = at;
    return fits(c, at, bytes) ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommDeregister(const ncclComm_t, void *)
{
    return ncclSuccess;
}

/* Of all ranks, but nothing here waits for them: what they agree about is real NCCL's to check. */
ncclResult_t ncclCommWindowRegister(ncclComm_t c, void *at, size_t bytes, ncclWindow_t *window,
                                    int flags)
{
    *window = reinterpret_cast<ncclWindow_t>(at);
    if (flags != NCCL_WIN_COLL_SYMMETRIC || !fits(c, at, bytes))
        return ncclInvalidArgument;
    c->polls = c->blocking ? 0 : number_from("DT_EMULATOR_NCCL_POLLS", 2);
    return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t)
{
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **at, size_t bytes)
{
    return cudaMalloc(at, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *at)
{
    return cudaFree(at) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (group_depth == 0)
        return fail(nullptr, ncclInvalidUsage, "a group of calls ends that did not begin");
    if (--group_depth > 0)
        return ncclSuccess;
    std::vector<call> calls;
    calls.swap(group);
    std::vector<ncclComm_t> seen;
    ncclResult_t result = ncclSuccess;
    for (const call &each : calls) {
        if (std::find(seen.begin(), seen.end(), each.comm) != seen.end())
            continue;
        seen.push_back(each.comm);
        ncclResult_t r = enqueue(each.comm, calls);
        result = r == ncclSuccess ? result : r;
    }
    return result;
}

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    heading h = {ALL_REDUCE, uint32_t(type), count * size_of(type)};
    if (!fits(c, send, h.bytes) || !fits(c, recv, h.bytes))
        return ncclInvalidArgument;
    return make(c, s, [=](transfer &t) {
        plan_reduction(t, *c->l->w, h, send, recv, count, type, op, false);
    });
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    heading h = {REDUCE_SCATTER, uint32_t(type), count * size_of(type)};
    if (!fits(c, send, h.bytes * size_t(c->l->w->ranks)) || !fits(c, recv, h.bytes))
        return ncclInvalidArgument;
    return make(c, s, [=](transfer &t) {
        plan_reduction(t, *c->l->w, h, send, recv, count, type, op, true);
    });
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t c, cudaStream_t s)
{
    heading h = {ALL_GATHER, uint32_t(type), count * size_of(type)};
    if (!fits(c, send, h.bytes) || !fits(c, recv, h.bytes * size_t(c->l->w->ranks)))
        return ncclInvalidArgument;
    return make(c, s, [=](transfer &t) {
        const wire &w = *c->l->w;
        for (int r = 0; r < w.ranks; r++) {
            if (r == w.rank)
                continue;
            t.send(r, h, send);
            t.receive(r, h, bytes_at(recv, size_t(r) * h.bytes));
        }
        t.then([to = bytes_at(recv, size_t(w.rank) * h.bytes), send, h] {
            memmove(to, send, h.bytes);
        });
    });
}

ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type,
                          ncclComm_t c, cudaStream_t s)
{
    heading h = {ALL_TO_ALL, uint32_t(type), count * size_of(type)};
    size_t all = h.bytes * size_t(c->l->w->ranks);
    if (!fits(c, send, all) || !fits(c, recv, all) || (send == recv && all > 0))
        return ncclInvalidArgument;
    return make(c, s, [=](transfer &t) {
        const wire &w = *c->l->w;
        for (int r = 0; r < w.ranks; r++) {
            if (r == w.rank)
                continue;
            t.send(r, h, bytes_at(send, size_t(r) * h.bytes));
            t.receive(r, h, bytes_at(recv, size_t(r) * h.bytes));
        }
        size_t own = size_t(w.rank) * h.bytes;
        t.then([to = bytes_at(recv, own), from = bytes_at(send, own), h] {
            memcpy(to, from, h.bytes);
        });
    });
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t c, cudaStream_t s)
{
    heading h = {BROADCAST, uint32_t(type), count * size_of(type)};
    bool is_root = c->l->w && c->l->w->rank == root;
    if ((is_root && !fits(c, send, h.bytes)) || !fits(c, recv, h.bytes))
        return ncclInvalidArgument;
    return make(c, s, [=](transfer &t) {
        if (!is_root)
            return t.receive(root, h, recv);
        for (int r = 0; r < c->l->w->ranks; r++)
            if (r != root)
                t.send(r, h, send);
        t.then([=] { memmove(recv, send, h.bytes); });
    });
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    heading h = {MESSAGE, uint32_t(type), count * size_of(type)};
    if (!fits(c, send, h.bytes) || peer < 0 || peer >= c->l->w->ranks)
        return ncclInvalidArgument;
    return make(c, s, [=](transfer &t) { t.send(peer, h, send); });
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t c,
                      cudaStream_t s)
{
    heading h = {MESSAGE, uint32_t(type), count * size_of(type)};
    if (!fits(c, recv, h.bytes) || peer < 0 || peer >= c->l->w->ranks)
        return ncclInvalidArgument;
    return make(c, s, [=](transfer &t) { t.receive(peer, h, recv); });
}

} /* extern "C" */
