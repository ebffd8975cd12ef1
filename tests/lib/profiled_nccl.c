/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/profiled_nccl.h"

#include "worker_runtime/telemetry/nccl_profiler/abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* NCCL tells of calls in a group, and of what is launched, when anything below them is wanted. */
#define BELOW_COLL (DT_NCCL_PROXY_OP | DT_NCCL_KERNEL_CH)
#define BELOW_GROUP (DT_NCCL_COLL | DT_NCCL_P2P | BELOW_COLL)

int profiled_nccl_open(struct profiled_nccl *n, const char *path, int version, struct dt_err *err)
{
    char symbol[32];
    *n = (struct profiled_nccl){.version = version};
    n->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return dt_err_set(err, DT_E_RUNTIME, "%s", dlerror());
    snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
    n->table = dlsym(n->library, symbol);
    if (n->table)
        return 0;
    dlclose(n->library);
    return dt_err_set(err, DT_E_RUNTIME, "%s has no %s", path, symbol);
}

void profiled_nccl_close(struct profiled_nccl *n)
{
    dlclose(n->library);
}

/* -- the tables ------------------------------------------------------------------------------- */

static const struct dt_nccl_profiler_v1 *v1(const struct profiled_nccl *n)
{
    return n->table;
}

static const struct dt_nccl_profiler_v2 *v2(const struct profiled_nccl *n)
{
    return n->table;
}

static const struct dt_nccl_profiler_v4 *v4(const struct profiled_nccl *n)
{
    return n->table;
}

static const struct dt_nccl_profiler_v5 *v5(const struct profiled_nccl *n)
{
    return n->table;
}

/* An event, as whichever version describes it. */
union event {
    struct dt_nccl_event_v1 v1;
    struct dt_nccl_event_v2 v2;
    struct dt_nccl_event_v4 v4;
    struct dt_nccl_event_v5 v5;
};

static union event event_of(const struct profiled_comm *c, unsigned type, void *parent)
{
    union event e = {0};
    if (c->nccl->version >= 5)
        e.v5.type = type;
    else
        e.v1.type = (uint8_t)type;
    e.v1.parent = parent;
    e.v1.rank = c->rank;
    return e;
}

static void *start(struct profiled_comm *c, union event *e)
{
    static const char never_set;
    void *handle = (void *)&never_set;
    switch (c->nccl->version) {
    case 1:
        v1(c->nccl)->start(c->context, &handle, &e->v1);
        break;
    case 2:
    case 3:
        v2(c->nccl)->start(c->context, &handle, &e->v2);
        break;
    case 4:
        v4(c->nccl)->start(c->context, &handle, &e->v4);
        break;
    default:
        v5(c->nccl)->start(c->context, &handle, &e->v5);
    }
    return handle;
}

/* The tables differ in what they are called with, but for these. */
static void stop(const struct profiled_comm *c, void *handle)
{
    if (handle)
        v1(c->nccl)->stop(handle);
}

static void record(const struct profiled_comm *c, void *handle, int state)
{
    if (handle)
        v1(c->nccl)->record(handle, state, NULL);
}

/* -- communicators ---------------------------------------------------------------------------- */

void profiled_comm_open(struct profiled_nccl *n, struct profiled_comm *c)
{
    const int nodes = 1;
    c->nccl = n;
    if (n->version < 4)
        v1(n)->init(&c->context, &n->mask);
    else if (n->version == 4)
        v4(n)->init(&c->context, &n->mask, c->name, c->hash, nodes, c->ranks, c->rank, NULL);
    else
        v5(n)->init(&c->context, c->hash, &n->mask, c->name, nodes, c->ranks, c->rank, NULL);
}

void profiled_comm_close(struct profiled_comm *c)
{
    if (c->context)
        v1(c->nccl)->finalize(c->context);
}

/* -- calls ------------------------------------------------------------------------------------ */

static uint8_t number_of(const char *text, const char *const *words)
{
    for (uint8_t i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0)
            return i;
    return 0xff;
}

static const char *const functions[] = {
    "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "", "Send", "Recv", NULL};
static const char *const datatypes[] = {"ncclInt8",    "ncclUint8",    "ncclInt32",   "ncclUint32",
                                        "ncclInt64",   "ncclUint64",   "ncclFloat16", "ncclFloat32",
                                        "ncclFloat64", "ncclBfloat16", NULL};

static union event coll_event(const struct profiled_comm *c, const struct profiled_call *call,
                              void *parent)
{
    union event e = event_of(c, DT_NCCL_COLL, parent);
    switch (c->nccl->version) {
    case 1:
        e.v1.coll.name = c->name;
        e.v1.coll.hash = c->hash;
        e.v1.coll.function = number_of(call->function, functions);
        e.v1.coll.datatype = number_of(call->datatype, datatypes);
        e.v1.coll.count = call->count;
        break;
    case 2:
    case 3:
        e.v2.coll.name = c->name;
        e.v2.coll.hash = c->hash;
        e.v2.coll.function = call->function;
        e.v2.coll.datatype = call->datatype;
        e.v2.coll.count = call->count;
        break;
    default: /* v5 has the same behind its wider type */
        e.v4.coll.function = call->function;
        e.v4.coll.datatype = call->datatype;
        e.v4.coll.count = call->count;
        e.v4.coll.channels = (uint8_t)call->channels;
    }
    return e;
}

static union event p2p_event(const struct profiled_comm *c, const struct profiled_call *call)
{
    union event e = event_of(c, DT_NCCL_P2P, NULL);
    switch (c->nccl->version) {
    case 1:
        e.v1.p2p.name = c->name;
        e.v1.p2p.hash = c->hash;
        e.v1.p2p.function = number_of(call->function, functions);
        e.v1.p2p.datatype = number_of(call->datatype, datatypes);
        e.v1.p2p.count = call->count;
        e.v1.p2p.peer = call->peer;
        break;
    case 2:
    case 3:
        e.v2.p2p.name = c->name;
        e.v2.p2p.hash = c->hash;
        e.v2.p2p.function = call->function;
        e.v2.p2p.datatype = call->datatype;
        e.v2.p2p.count = call->count;
        e.v2.p2p.peer = call->peer;
        break;
    default:
        e.v4.p2p.function = call->function;
        e.v4.p2p.datatype = call->datatype;
        e.v4.p2p.count = call->count;
        e.v4.p2p.peer = call->peer;
    }
    return e;
}

static void *api_starts(struct profiled_comm *c, const struct profiled_call *call, unsigned type,
                        void *group)
{
    union event e = event_of(c, type, group);
    e.v5.api.function = call->function;
    e.v5.api.datatype = call->datatype;
    e.v5.api.count = call->count;
    return start(c, &e);
}

/* What the program calls, from v5 on: a group around a call. BELOW: the events for whose sake NCCL
 * tells of it. The call's handle. */
static void *call_api(struct profiled_comm *c, const struct profiled_call *call, unsigned type,
                      int below)
{
    enum { GROUP_STARTED = 23, GROUP_ENDS = 24 };
    if (c->nccl->version < 5 || !(c->nccl->mask & (below | (int)type)))
        return NULL;
    union event e = event_of(c, DT_NCCL_GROUP_API, NULL);
    void *group = start(c, &e);
    record(c, group, GROUP_STARTED);
    void *api = api_starts(c, call, type, group);
    stop(c, api);
    record(c, group, GROUP_ENDS);
    stop(c, group);
    return api;
}

static void *group_starts(struct profiled_comm *c)
{
    union event e = event_of(c, DT_NCCL_GROUP, NULL);
    return c->nccl->mask & BELOW_GROUP ? start(c, &e) : NULL;
}

struct profiled_work profiled_comm_collective(struct profiled_comm *c,
                                              const struct profiled_call *call)
{
    const int version = c->nccl->version;
    struct profiled_work work = {NULL, call->channels};
    void *api = call_api(c, call, DT_NCCL_COLL_API, DT_NCCL_COLL | BELOW_COLL);
    void *group = group_starts(c);
    bool told = c->nccl->mask & (DT_NCCL_COLL | BELOW_COLL);
    /* Before v5 nothing is told of a group that has no handle. */
    if (told && (version >= 5 || group)) {
        union event e = coll_event(c, call, version >= 5 ? api : group);
        work.handle = start(c, &e);
        stop(c, work.handle);
    }
    stop(c, group);
    return work;
}

void profiled_comm_exchange(struct profiled_comm *c, const struct profiled_call *call)
{
    call_api(c, call, DT_NCCL_P2P_API, DT_NCCL_P2P | BELOW_COLL);
    void *group = group_starts(c);
    if (c->nccl->mask & (DT_NCCL_P2P | BELOW_COLL) && (c->nccl->version >= 5 || group)) {
        union event e = p2p_event(c, call);
        stop(c, start(c, &e));
    }
    stop(c, group);
}

void profiled_comm_gpu_ends(struct profiled_comm *c, const struct profiled_work *work, int channels)
{
    enum { STOPPED = 22 };
    if (!(c->nccl->mask & DT_NCCL_KERNEL_CH))
        return;
    for (int i = 0; i < channels; i++) {
        union event e = event_of(c, DT_NCCL_KERNEL_CH, work->handle);
        void *handle = start(c, &e);
        record(c, handle, STOPPED);
        stop(c, handle);
    }
}
