/* SPDX-License-Identifier: Apache-2.0 */
/* The interface through which NCCL tells a profiler what it does, as far as we read it: NCCL looks
 * up ncclProfiler_v6 in the library that NCCL_PROFILER_PLUGIN names, then _v5, and so on, and calls
 * what is in that table.
 *
 *     interface   NCCL
 *     v1          2.23
 *     v2          2.24, 2.25
 *     v3          2.26
 *     v4          2.27
 *     v5          2.28
 *     v6          2.29 and later
 *
 * Declared in our own words from the facts of those versions: an event's description is the
 * caller's memory, so only what stands in front of the members that we read has to be here. */
#ifndef DT_WORKER_RUNTIME_TELEMETRY_NCCL_PROFILER_ABI_H
#define DT_WORKER_RUNTIME_TELEMETRY_NCCL_PROFILER_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dt_nccl_result { DT_NCCL_SUCCESS = 0 };

/* Kinds of events: bits of the mask that says which of them NCCL is to tell. */
enum {
    DT_NCCL_GROUP = 1 << 0, /* calls that are launched together */
    DT_NCCL_COLL = 1 << 1,  /* a collective is launched. In a group the large ones come first */
    DT_NCCL_P2P = 1 << 2,
    DT_NCCL_PROXY_OP = 1 << 3,
    DT_NCCL_KERNEL_CH = 1 << 6, /* the GPU is at work on one channel of a call; from v3 on */
    DT_NCCL_GROUP_API = 1 << 8, /* from here on what the program calls, from v5 on */
    DT_NCCL_COLL_API = 1 << 9,
    DT_NCCL_P2P_API = 1 << 10,
};

/* Of v1: names are numbers. */
struct dt_nccl_event_v1 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t hash, number;
            uint8_t function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            uint8_t datatype;
        } coll;
        struct {
            const char *name;
            uint64_t hash;
            uint8_t function;
            void *buffer;
            uint8_t datatype;
            size_t count;
            int peer;
        } p2p;
    };
};

/* Of v2 and v3, which differ behind what is read here. */
struct dt_nccl_event_v2 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *name;
            uint64_t hash, number;
            const char *function;
            const void *send;
            void *receive;
            size_t count;
            int root;
            const char *datatype;
        } coll;
        struct {
            const char *name;
            uint64_t hash;
            const char *function;
            void *buffer;
            const char *datatype;
            size_t count;
            int peer;
        } p2p;
    };
};

/* From v4 on the communicator is known from its init. */
struct dt_nccl_coll {
    uint64_t number; /* counted for each function alone */
    const char *function;
    const void *send;
    void *receive;
    size_t count;
    int root;
    const char *datatype;
    uint8_t channels;
};

struct dt_nccl_p2p {
    const char *function;
    void *buffer;
    const char *datatype;
    size_t count;
    int peer;
};

struct dt_nccl_event_v4 {
    uint8_t type;
    void *parent;
    int rank;
    union {
        struct dt_nccl_coll coll;
        struct dt_nccl_p2p p2p;
    };
};

/* Of v5 and v6. What the program calls is told as it calls it. The peer of a send is not. */
struct dt_nccl_event_v5 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            const char *function;
            size_t count;
            const char *datatype;
        } api; /* of collectives and of sends and receives */
        struct dt_nccl_coll coll;
        struct dt_nccl_p2p p2p;
    };
};

_Static_assert(offsetof(struct dt_nccl_event_v1, coll.function) == 48, "NCCL 2.23");
_Static_assert(offsetof(struct dt_nccl_event_v1, coll.datatype) == 84, "NCCL 2.23");
_Static_assert(offsetof(struct dt_nccl_event_v1, p2p.peer) == 72, "NCCL 2.23");
_Static_assert(offsetof(struct dt_nccl_event_v2, coll.datatype) == 88, "NCCL 2.24");
_Static_assert(offsetof(struct dt_nccl_event_v2, p2p.peer) == 72, "NCCL 2.24");
_Static_assert(offsetof(struct dt_nccl_event_v4, coll.channels) == 80, "NCCL 2.27");
_Static_assert(offsetof(struct dt_nccl_event_v4, p2p.peer) == 56, "NCCL 2.27");
_Static_assert(offsetof(struct dt_nccl_event_v5, api.datatype) == 40, "NCCL 2.28");
_Static_assert(offsetof(struct dt_nccl_event_v5, coll.channels) == 80, "NCCL 2.28");

/* A handle is the plugin's; NCCL stops no event, and tells no child, of one that is NULL. */
typedef int dt_nccl_stop_fn(void *handle);
typedef int dt_nccl_record_fn(void *handle, int state, void *args);
typedef int dt_nccl_finalize_fn(void *context);

struct dt_nccl_profiler_v1 {
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **handle, struct dt_nccl_event_v1 *event);
    dt_nccl_stop_fn *stop;
    dt_nccl_record_fn *record;
    dt_nccl_finalize_fn *finalize;
};

struct dt_nccl_profiler_v2 { /* and v3 */
    const char *name;
    int (*init)(void **context, int *mask);
    int (*start)(void *context, void **handle, struct dt_nccl_event_v2 *event);
    dt_nccl_stop_fn *stop;
    dt_nccl_record_fn *record;
    dt_nccl_finalize_fn *finalize;
};

struct dt_nccl_profiler_v4 {
    const char *name;
    int (*init)(void **context, int *mask, const char *comm_name, uint64_t hash, int nodes,
                int ranks, int rank, void (*log)(void));
    int (*start)(void *context, void **handle, struct dt_nccl_event_v4 *event);
    dt_nccl_stop_fn *stop;
    dt_nccl_record_fn *record;
    dt_nccl_finalize_fn *finalize;
};

struct dt_nccl_profiler_v5 { /* and v6 */
    const char *name;
    int (*init)(void **context, uint64_t hash, int *mask, const char *comm_name, int nodes,
                int ranks, int rank, void (*log)(void));
    int (*start)(void *context, void **handle, struct dt_nccl_event_v5 *event);
    dt_nccl_stop_fn *stop;
    dt_nccl_record_fn *record;
    dt_nccl_finalize_fn *finalize;
};

#endif
