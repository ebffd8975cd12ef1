/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of a group between the host's start and the device's end of them. Each has two
 * events: when what it reads is there, and when it is done; the host waits for neither. It may be
 * waited for by the caller, which means no more than that the compute stream does, long before it
 * is done: until then it is kept here, so that the watchdog sees one that never ends. */
#ifndef DT_CUDA_NCCL_FLIGHTS_H
#define DT_CUDA_NCCL_FLIGHTS_H

#include "base/clock.h"
#include "base/list.h"
#include "cuda/nccl/calls.h"

#include <dtrun/coll.h>
#include <pthread.h>

/* Streams beside compute; what is put on one ends in the order it began. */
enum dt_lane { DT_LANE_GATHER, DT_LANE_REDUCE, DT_LANES };

struct dt_flight {
    struct dt_node in_list;
    cudaEvent_t ready, done;
    enum dt_lane lane;
    enum dt_coll_kind kind;
    uint64_t sequence;
    bool held;        /* its caller will still ask for it */
    dt_ms first_seen; /* by the watchdog, as one that could run; 0: not yet */
};

struct dt_flights {
    const struct dt_nccl_calls *calls;
    pthread_mutex_t lock;
    struct dt_list lane[DT_LANES]; /* oldest first */
    struct dt_list spare;
};

void dt_flights_init(struct dt_flights *f, const struct dt_nccl_calls *calls);
void dt_flights_finish(struct dt_flights *f); /* whatever still flies */

/* A flight that is on no list yet: the caller's until dt_flights_begin() or dt_flights_drop(). */
struct dt_flight *dt_flights_take(struct dt_flights *f, enum dt_lane lane, struct dt_err *err);
void dt_flights_begin(struct dt_flights *f, struct dt_flight *flight); /* done is recorded */
void dt_flights_drop(struct dt_flights *f, struct dt_flight *flight);
/* Its caller asks no more. */
void dt_flights_let_go(struct dt_flights *f, struct dt_flight *flight);

struct dt_flight_report {
    enum dt_coll_kind kind;
    uint64_t sequence;
    dt_ms waited; /* since it was first seen to be able to run */
};

/* Whether one that began is not done. */
bool dt_flights_any(struct dt_flights *f);

/* The one that has been able to run for longest and is not done; false when there is none. */
bool dt_flights_oldest(struct dt_flights *f, dt_ms now, struct dt_flight_report *r);

#endif
