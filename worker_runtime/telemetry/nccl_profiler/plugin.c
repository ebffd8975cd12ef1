/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl-profiler-dtrun.so: NCCL's profiler interface, one table for each of its versions, onto
 * the ledger. NCCL asks for the newest that it knows.
 *
 * Whatever happens, a job must go on: each function says that all is well. One that refused its
 * init would make some versions of NCCL unload this library twice.
 *
 * A handle is no pointer but a number: what it stands for, whose it is, and which collective. So
 * none has to be kept anywhere, and one that comes too late is harmless. */
#include "worker_runtime/telemetry/nccl_profiler/abi.h"
#include "worker_runtime/telemetry/nccl_profiler/ledger.h"

#include "base/plugin.h"
#include "rendezvous/protocol/page.h"

#include <stdlib.h>
#include <string.h>

#define NAME "dtrun"

_Static_assert(sizeof(void *) == 8, "handles have 64 bits; NCCL is there for no other machine");

/* -- handles ---------------------------------------------------------------------------------- */

enum handle_kind {
    HANDLE_NONE, /* as NULL */
    /* Some versions tell of no collective in a group without a handle. */
    HANDLE_GROUP,
    HANDLE_COLL,    /* collective NUMBER */
    HANDLE_CHANNEL, /* ... on one channel */
};

struct handle {
    enum handle_kind kind;
    int comm;
    uint64_t number;
};

static void *pack(struct handle h)
{
    return (void *)(uintptr_t)(h.number << 16 | (unsigned)h.comm << 8 | h.kind);
}

static struct handle unpack(const void *packed)
{
    uint64_t bits = (uintptr_t)packed;
    return (struct handle){.kind = bits & 0xff, .comm = bits >> 8 & 0xff, .number = bits >> 16};
}

static void *group_handle(void)
{
    return pack((struct handle){.kind = HANDLE_GROUP});
}

static void *coll_handle(const struct dt_ledger_comm *c, uint64_t number)
{
    if (number == 0)
        return NULL;
    return pack((struct handle){HANDLE_COLL, dt_ledger_comm_index(c), number});
}

/* Of a channel that is at work for the collective of PARENT. */
static void *channel_handle(const void *parent)
{
    struct handle h = unpack(parent);
    if (h.kind != HANDLE_COLL)
        return NULL;
    h.kind = HANDLE_CHANNEL;
    return pack(h);
}

/* -- all versions ----------------------------------------------------------------------------- */

/* To hear of the ends NCCL adds work of its own to each collective, so a person has to ask. */
static bool wants_ends(void)
{
    const char *events = getenv(DT_NCCL_EVENTS_ENV);
    return events && strcmp(events, DT_NCCL_EVENTS_KERNELS) == 0;
}

/* The mask is the whole process's: a communicator that found no place must not silence others. */
static void choose(int *mask, int events)
{
    __atomic_store_n(mask, dt_ledger_is_kept() ? events : 0, __ATOMIC_RELAXED);
}

static int stop(void *handle)
{
    struct handle h = unpack(handle);
    if (h.kind == HANDLE_CHANNEL)
        dt_ledger_comm_channel_ended(dt_ledger_comm_at(h.comm), h.number);
    return DT_NCCL_SUCCESS;
}

static int record(void *handle, int state, void *args)
{
    (void)handle;
    (void)state;
    (void)args;
    return DT_NCCL_SUCCESS;
}

static int finalize(void *context)
{
    dt_ledger_comm_close(context);
    return DT_NCCL_SUCCESS;
}

/* -- v1, v2, v3: a call says on which communicator it is -------------------------------------- */

static int init_v1(void **context, int *mask)
{
    *context = dt_ledger_comm_open(NULL, 0, -1, 0, false);
    choose(mask, DT_NCCL_COLL | DT_NCCL_P2P);
    return DT_NCCL_SUCCESS;
}

static const char *function_of(uint8_t number)
{
    static const char *const names[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                        "AllReduce", "SendRecv", "Send",      "Recv"};
    return number < sizeof names / sizeof *names ? names[number] : NULL;
}

static const char *datatype_of(uint8_t number)
{
    static const char *const names[] = {"Int8",   "Uint8",   "Int32",   "Uint32",  "Int64",
                                        "Uint64", "Float16", "Float32", "Float64", "Bfloat16"};
    return number < sizeof names / sizeof *names ? names[number] : NULL;
}

static int start_v1(void *context, void **handle, struct dt_nccl_event_v1 *e)
{
    *handle = e->type == DT_NCCL_GROUP ? group_handle() : NULL;
    if (e->type == DT_NCCL_COLL) {
        struct dt_ledger_call call = {function_of(e->coll.function), datatype_of(e->coll.datatype),
                                      e->coll.count};
        dt_ledger_comm_name(context, e->coll.name, e->coll.hash, e->rank);
        *handle = coll_handle(context, dt_ledger_comm_enter(context, &call));
    } else if (e->type == DT_NCCL_P2P) {
        struct dt_ledger_call call = {function_of(e->p2p.function), datatype_of(e->p2p.datatype),
                                      e->p2p.count};
        dt_ledger_comm_name(context, e->p2p.name, e->p2p.hash, e->rank);
        dt_ledger_comm_exchange(context, &call, e->p2p.peer);
    }
    return DT_NCCL_SUCCESS;
}

static int start_v2(void *context, void **handle, struct dt_nccl_event_v2 *e)
{
    *handle = e->type == DT_NCCL_GROUP ? group_handle() : NULL;
    if (e->type == DT_NCCL_COLL) {
        struct dt_ledger_call call = {e->coll.function, e->coll.datatype, e->coll.count};
        dt_ledger_comm_name(context, e->coll.name, e->coll.hash, e->rank);
        *handle = coll_handle(context, dt_ledger_comm_enter(context, &call));
    } else if (e->type == DT_NCCL_P2P) {
        struct dt_ledger_call call = {e->p2p.function, e->p2p.datatype, e->p2p.count};
        dt_ledger_comm_name(context, e->p2p.name, e->p2p.hash, e->rank);
        dt_ledger_comm_exchange(context, &call, e->p2p.peer);
    }
    return DT_NCCL_SUCCESS;
}

/* -- v4 --------------------------------------------------------------------------------------- */

static void exchange(struct dt_ledger_comm *c, const struct dt_nccl_p2p *p2p)
{
    struct dt_ledger_call call = {p2p->function, p2p->datatype, p2p->count};
    dt_ledger_comm_exchange(c, &call, p2p->peer);
}

static int init_v4(void **context, int *mask, const char *comm_name, uint64_t hash, int nodes,
                   int ranks, int rank, void (*log)(void))
{
    bool ends = wants_ends();
    (void)nodes;
    (void)log;
    *context = dt_ledger_comm_open(comm_name, hash, rank, ranks, ends);
    choose(mask, DT_NCCL_COLL | DT_NCCL_P2P | (ends ? DT_NCCL_KERNEL_CH : 0));
    return DT_NCCL_SUCCESS;
}

static int start_v4(void *context, void **handle, struct dt_nccl_event_v4 *e)
{
    *handle = NULL;
    if (e->type == DT_NCCL_COLL) {
        struct dt_ledger_call call = {e->coll.function, e->coll.datatype, e->coll.count};
        uint64_t number = dt_ledger_comm_enter(context, &call);
        dt_ledger_comm_expect(context, number, e->coll.channels);
        *handle = coll_handle(context, number);
    } else if (e->type == DT_NCCL_P2P) {
        exchange(context, &e->p2p);
    } else if (e->type == DT_NCCL_KERNEL_CH) {
        *handle = channel_handle(e->parent);
    } else if (e->type == DT_NCCL_GROUP) {
        *handle = group_handle();
    }
    return DT_NCCL_SUCCESS;
}

/* -- v5, v6: a collective is entered when the program calls it, and launched later ------------ */

static int init_v5(void **context, uint64_t hash, int *mask, const char *comm_name, int nodes,
                   int ranks, int rank, void (*log)(void))
{
    bool ends = wants_ends();
    (void)nodes;
    (void)log;
    *context = dt_ledger_comm_open(comm_name, hash, rank, ranks, ends);
    choose(mask, DT_NCCL_COLL_API | DT_NCCL_P2P | (ends ? DT_NCCL_COLL | DT_NCCL_KERNEL_CH : 0));
    return DT_NCCL_SUCCESS;
}

/* The parent of a launch is the call that it is for; it has the call's number. */
static void *launch(void *parent, unsigned channels)
{
    struct handle h = unpack(parent);
    if (h.kind != HANDLE_COLL)
        return NULL;
    dt_ledger_comm_expect(dt_ledger_comm_at(h.comm), h.number, channels);
    return parent;
}

static int start_v5(void *context, void **handle, struct dt_nccl_event_v5 *e)
{
    *handle = NULL;
    if (e->type == DT_NCCL_COLL_API) {
        struct dt_ledger_call call = {e->api.function, e->api.datatype, e->api.count};
        *handle = coll_handle(context, dt_ledger_comm_enter(context, &call));
    } else if (e->type == DT_NCCL_COLL) {
        *handle = launch(e->parent, e->coll.channels);
    } else if (e->type == DT_NCCL_P2P) {
        exchange(context, &e->p2p);
    } else if (e->type == DT_NCCL_KERNEL_CH) {
        *handle = channel_handle(e->parent);
    } else if (e->type == DT_NCCL_GROUP) {
        *handle = group_handle();
    }
    return DT_NCCL_SUCCESS;
}

/* -- what NCCL looks up ----------------------------------------------------------------------- */

DT_PLUGIN_EXPORT extern const struct dt_nccl_profiler_v1 ncclProfiler_v1;
DT_PLUGIN_EXPORT extern const struct dt_nccl_profiler_v2 ncclProfiler_v2, ncclProfiler_v3;
DT_PLUGIN_EXPORT extern const struct dt_nccl_profiler_v4 ncclProfiler_v4;
DT_PLUGIN_EXPORT extern const struct dt_nccl_profiler_v5 ncclProfiler_v5, ncclProfiler_v6;

const struct dt_nccl_profiler_v1 ncclProfiler_v1 = {NAME, init_v1, start_v1,
                                                    stop, record,  finalize};
const struct dt_nccl_profiler_v2 ncclProfiler_v2 = {NAME, init_v1, start_v2,
                                                    stop, record,  finalize};
const struct dt_nccl_profiler_v2 ncclProfiler_v3 = {NAME, init_v1, start_v2,
                                                    stop, record,  finalize};
const struct dt_nccl_profiler_v4 ncclProfiler_v4 = {NAME, init_v4, start_v4,
                                                    stop, record,  finalize};
const struct dt_nccl_profiler_v5 ncclProfiler_v5 = {NAME, init_v5, start_v5,
                                                    stop, record,  finalize};
const struct dt_nccl_profiler_v5 ncclProfiler_v6 = {NAME, init_v5, start_v5,
                                                    stop, record,  finalize};
