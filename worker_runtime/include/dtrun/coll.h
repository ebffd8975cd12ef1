/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives over a group of ranks. All ranks of a group make the same calls in the same order.
 *
 * On CPUs sums are taken in one fixed order for every element, host by host and rank by rank within
 * a host, so the bits of a result depend on nothing but the inputs and the group: an all-reduce
 * gives the same bits as a reduce-scatter and an all-gather behind it. On GPUs NCCL sums, in an
 * order that depends on the collective, on the number of elements and on the way between the GPUs.
 *
 * Every call is bounded in time. When a peer is gone or late the call fails, and the error names
 * its rank; the group is of no use from then on, as is every other group this process has with that
 * peer. A caller then ends: whoever started it makes a new world.
 *
 * What goes between hosts is not encrypted, nor is each message authenticated: a connection is only
 * let in with random bytes that the job's store gives to its ranks. Keep it to networks that you
 * trust, as you would for NCCL or gloo. */
#ifndef DTRUN_COLL_H
#define DTRUN_COLL_H

#include <dtrun/api.h>
#include <dtrun/dtype.h>

DT_BEGIN_C

struct dt_coll;

enum dt_coll_op { DT_SUM, DT_MAX, DT_MIN };

enum dt_coll_kind {
    DT_ALL_REDUCE,     /* recv[count] = op over ranks of send[count]; send may be recv */
    DT_REDUCE_SCATTER, /* recv[count] = op over ranks of send[rank * count ...]; send is world *
                          count; recv may be where this rank's part of send is */
    DT_ALL_GATHER, /* recv[r * count ...] = send[count] of rank r; recv is world * count; send may
                      be this rank's place in recv */
    DT_ALL_TO_ALL, /* recv[r * count ...] = what rank r has at send[rank * count ...] */
    DT_BROADCAST,  /* recv[count] = recv[count] of rank peer */
    DT_SEND,       /* send[count] goes to rank peer, who receives as much */
    DT_RECV,
    DT_BARRIER,
    DT_COLL_KINDS
};

struct dt_coll_call {
    enum dt_coll_kind kind;
    const void *send;
    void *recv;
    size_t count; /* elements, as said above */
    enum dt_dtype type;
    enum dt_coll_op op;
    int peer;
};

/* One that was started and not yet waited for. The caller's memory; nobody looks inside. */
struct dt_coll_handle {
    struct dt_coll_call call;
    uint64_t sequence;
    void *state;
    bool done;
};

DT_API int dt_coll_rank(const struct dt_coll *c);
DT_API int dt_coll_size(const struct dt_coll *c);
DT_API int dt_coll_timeout_ms(struct dt_coll *c, int64_t ms);

/* Starts a collective; its buffers are the library's until dt_coll_wait() is back. At most
 * DT_COLL_PENDING are under way in a group. Work may be done at the start, at the wait, or between:
 * that is the backend's choice. */
#define DT_COLL_PENDING 16
DT_API int dt_coll_start(struct dt_coll *c, const struct dt_coll_call *call,
                         struct dt_coll_handle *h, struct dt_err *err);
DT_API int dt_coll_wait(struct dt_coll *c, struct dt_coll_handle *h, struct dt_err *err);

/* The same without a handle: start and wait. A send may be back only when it has been received, so
 * ranks that send to each other start both halves before they wait for either. */
DT_API int dt_coll_all_reduce(struct dt_coll *c, void *buf, size_t count, enum dt_dtype type,
                              enum dt_coll_op op, struct dt_err *err);
DT_API int dt_coll_reduce_scatter(struct dt_coll *c, const void *send, void *recv, size_t count,
                                  enum dt_dtype type, enum dt_coll_op op, struct dt_err *err);
DT_API int dt_coll_all_gather(struct dt_coll *c, const void *send, void *recv, size_t count,
                              enum dt_dtype type, struct dt_err *err);
DT_API int dt_coll_all_to_all(struct dt_coll *c, const void *send, void *recv, size_t count,
                              enum dt_dtype type, struct dt_err *err);
DT_API int dt_coll_broadcast(struct dt_coll *c, void *buf, size_t count, enum dt_dtype type,
                             int root, struct dt_err *err);
DT_API int dt_coll_send(struct dt_coll *c, const void *buf, size_t count, enum dt_dtype type,
                        int to, struct dt_err *err);
DT_API int dt_coll_recv(struct dt_coll *c, void *buf, size_t count, enum dt_dtype type, int from,
                        struct dt_err *err);
DT_API int dt_coll_barrier(struct dt_coll *c, struct dt_err *err);

/* Memory that collectives use without copying. Collective calls: all ranks allocate the same, in
 * the same order. Zeroed; ended by dt_coll_release(), or with the group.
 * DT_OWN: each rank has its own. DT_SHARED: the ranks of one host see one and the same memory; an
 * all-gather in place (send is this rank's place in recv) then costs a barrier inside a host, and
 * between hosts each part travels once. A rank writes only its own part of it, and reads others'
 * parts only behind that all-gather. Where a backend cannot share (a GPU), DT_SHARED is as DT_OWN.
 */
enum dt_coll_memory { DT_OWN, DT_SHARED };
DT_API void *dt_coll_alloc(struct dt_coll *c, size_t bytes, enum dt_coll_memory memory,
                           struct dt_err *err);
DT_API void dt_coll_release(struct dt_coll *c, void *memory); /* collective too; NULL is fine */
/* Whether all ranks of the group see one and the same DT_SHARED memory. */
DT_API bool dt_coll_shares_all(const struct dt_coll *c);

/* A group of those who give the same COLOUR (0 or more), ordered by KEY, then by rank. Collective
 * over PARENT; who gives -1 gets *OUT NULL. Ended by dt_coll_destroy(), before its parent. */
DT_API int dt_coll_split(struct dt_coll *parent, int colour, int key, struct dt_coll **out,
                         struct dt_err *err);
DT_API void dt_coll_destroy(struct dt_coll *c);

/* Makes this rank's current and later calls in C fail, with WHY; its peers notice by their own
 * means. From any thread. */
DT_API void dt_coll_abort(struct dt_coll *c, const char *why);

DT_END_C

#endif
