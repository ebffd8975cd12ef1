/* SPDX-License-Identifier: Apache-2.0 */
/* The progress page: 4 KiB of memory that a worker and its agent share. The agent makes it and
 * gives the worker its descriptor's number in DTRUN_PROGRESS_FD; it outlives the worker, so that
 * the last step of one killed with -9 is known. Each writes its own part with plain stores; nobody
 * waits, and a torn pair of values is corrected a second later.
 *
 *     offset bytes
 *     0      8    "DTRNBEAT"                     agent
 *     8      4    version, 1                     agent
 *     12     4    size, 4096                     agent
 *     16     4    the round is over: 1           agent: nothing may be committed any more
 *     20     4    checkpoints wanted             agent: counts what people asked for so far
 *     24     8    lease: CLOCK_MONOTONIC ns      agent: until then no later round can have begun;
 *                                                0: it sets no such limit
 *     32     4    workers may stay: 1            agent: see below
 *     36     4    worlds given here              agent: a futex, last of a world
 *     64     8    updates: grows with each       worker, last of an update
 *     72     8    step, -1: none yet             worker: steps done
 *     80     8    last step saved, -1            worker
 *     88     8    steps there will be, -1        worker
 *     96     8    CLOCK_MONOTONIC ns of update   worker
 *     104    8    loss, double, NaN: not told    worker
 *     112    8    tokens a second, likewise      worker: its own, not the world's
 *     120    8    utilisation, 0 to 1, likewise  worker
 *     128    8    CLOCK_MONOTONIC ns at which the section began
 *     136    56   section, NUL-terminated        worker: "forward", "checkpoint", ...
 *     192    4    process that writes from here  plugin of NCCL: its pid; 0: there is none
 *     196    4    communicators without a place  plugin
 *     200    56   zero
 *     256    3072 24 communicators, see below    plugin
 *     3328   8    own time, ns                   worker: so far, in steps that are done
 *     3336   8    of that, for its data          worker
 *     3344   4    can stay: 1                    worker: see below
 *     3348   4    worlds left                    worker
 *     3352   40   zero
 *     3392   308  the next world, see below      agent
 *     3700   4    zero
 *     3704   8    time in communication, ns      worker: so far, in steps that are done
 *     3712   8    MFU, double, 0 to 1, NaN       worker: model FLOPs of what its device could do
 *     3720   8    an upload waits since, ns      worker: CLOCK_MONOTONIC; 0: none does
 *     3728   4    the loss is told: 1            worker: then a NaN at 104 is the loss
 *     3732   4    zero
 *     3736   256  folder, NUL-terminated         worker: where it saves checkpoints; absolute
 *     3992   ...  zero
 *
 * Numbers are in the byte order of the machine, which both are on. The first
 * word stays what version 1 says, though a beat is a heartbeat now (messages.h).
 *
 * The plugin of NCCL (worker_runtime/telemetry/nccl_profiler) is in the same process as the
 * worker's own writer or in a child of it, and shares no byte with that one. An agent that is older
 * reads nothing from offset 192 on, or from 3328 on; a worker that is older leaves there what the
 * agent has begun with, which is zero but for MFU.
 *
 * A worker may outlive its round. It says that it can stay; when a peer is lost and the agent lets
 * workers stay, it leaves its world, counts that (worlds left), and waits. The world of its
 * environment is the first, so the worker waits while it has left one world more than the agent has
 * given here. The agent writes the next world only then, which is why nobody reads a world that is
 * half written: it clears the end of the round, counts (worlds given), and wakes the worker. An
 * older agent lets nobody stay, and an older worker never can. */
#ifndef DT_RENDEZVOUS_PROTOCOL_PAGE_H
#define DT_RENDEZVOUS_PROTOCOL_PAGE_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define DT_PAGE_SIZE 4096
#define DT_PAGE_VERSION 1
#define DT_PAGE_ENV "DTRUN_PROGRESS_FD"
/* Tells the plugin of NCCL that ends are wanted, too. */
#define DT_NCCL_EVENTS_ENV "DTRUN_NCCL_EVENTS"
#define DT_NCCL_EVENTS_KERNELS "kernels"

#define DT_PAGE_COMMS 24
#define DT_PAGE_WORD 16
#define DT_PAGE_COMM_NAME 32

enum dt_page_comm_state {
    DT_PAGE_COMM_FREE,
    DT_PAGE_COMM_OPEN,
    DT_PAGE_COMM_OPEN_WITH_ENDS, /* ... and ENDED is told */
};

/* A communicator of NCCL, and the last call on it; comms.h reads it. */
struct dt_page_comm {
    uint64_t id;                 /* NCCL's hash, the same on all its ranks; 0: not known */
    int32_t rank, ranks;         /* in the communicator; ranks 0: not known */
    uint64_t entered;            /* collectives that this rank has entered, this one among them */
    uint64_t ended;              /* the last that its GPU is done with, counted likewise */
    uint64_t exchanged;          /* sends and receives */
    uint64_t count;              /* elements of the last call */
    int64_t entered_ns;          /* CLOCK_MONOTONIC of the last call, to some milliseconds */
    int32_t peer;                /* whom it sends to or receives from; -1: it is a collective */
    uint32_t state;              /* enum dt_page_comm_state */
    char function[DT_PAGE_WORD]; /* "AllReduce" */
    char datatype[DT_PAGE_WORD]; /* "Float32" */
    char name[DT_PAGE_COMM_NAME];
};

#define DT_PAGE_ADDR 256
#define DT_PAGE_FOLDER 256

/* A worker's place in a world that it did not find in its environment. */
struct dt_page_world {
    int32_t rank, size, local_rank, local_size, group, groups, restarts, round, master_port;
    char master_addr[DT_PAGE_ADDR]; /* NUL-terminated */
    int32_t role_rank, role_size;   /* role_size 0: an older agent, which does not tell them */
    int32_t prev_rank, prev_size;   /* in the last round that the node was in; prev_size 0: none */
};

struct dt_page {
    char magic[8];
    uint32_t version, size, round_over, saves_wanted;
    int64_t lease_ns;
    uint32_t may_stay, worlds_given;
    char agent_rest[24];
    uint64_t updates;
    int64_t step, saved, steps, updated_ns;
    double loss, tokens_per_s, utilisation;
    int64_t section_ns;
    char section[56];
    int32_t comms_pid;
    uint32_t comms_left_out;
    char comms_rest[56];
    struct dt_page_comm comms[DT_PAGE_COMMS];
    int64_t own_ns, data_ns;
    uint32_t can_stay, worlds_left;
    char stay_rest[40];
    struct dt_page_world next;
    char next_rest[4];
    int64_t communication_ns;
    double mfu;
    int64_t upload_since_ns;
    uint32_t loss_told;
    char loss_rest[4];
    char folder[DT_PAGE_FOLDER];
    char rest[104];
};

/* What the worker told, of which the agent makes the facts of its heartbeats (messages.h); -1
 * (steps), 0 (times), NaN and "" where it told nothing or nonsense. */
struct dt_page_told {
    bool seen; /* the worker has written something */
    int64_t step, saved, steps, updated_ns, section_ns;
    int64_t own_ns, data_ns;  /* see own_time.h; 0: not told */
    int64_t communication_ns; /* likewise */
    int64_t upload_since_ns;  /* 0: nothing waits to be uploaded */
    bool has_loss;            /* LOSS is one, also where it is NaN */
    double loss, tokens_per_s, utilisation, mfu;
    char section[56];            /* printable ASCII, whatever the worker wrote */
    char folder[DT_PAGE_FOLDER]; /* absolute, without control characters; "": not told */
};

/* The agent's side. */
void dt_page_init(struct dt_page *page);
void dt_page_end_round(struct dt_page *page);
/* One checkpoint more is wanted. */
void dt_page_want_save(struct dt_page *page);
/* UNTIL_NS: 0 for no limit; a time that is past for no lease. */
void dt_page_set_lease(struct dt_page *page, int64_t until_ns);
/* This worker may stay when its round is over, if it can. */
void dt_page_let_stay(struct dt_page *page);
bool dt_page_can_stay(const struct dt_page *page);
bool dt_page_is_waiting(const struct dt_page *page);
/* The next world of a worker that waits for it, under a lease as above. */
void dt_page_give_world(struct dt_page *page, const struct dt_page_world *world, int64_t until_ns);
/* Values beyond reason (negative steps, a save of the future, NaN, control characters) are read as
 * not told. */
void dt_page_read(const struct dt_page *page, struct dt_page_told *out);

/* The worker's: whether this is one, of a version that we know. */
bool dt_page_is_valid(const struct dt_page *page);
bool dt_page_may_stay(const struct dt_page *page);
void dt_page_say_can_stay(struct dt_page *page, bool can);
/* This worker has left its world, and waits for the next. */
void dt_page_say_left(struct dt_page *page);
/* Waits up to TIMEOUT ms for the next world of a worker that waits for it. False: it has not come.
 */
bool dt_page_wait_world(const struct dt_page *page, int timeout, struct dt_page_world *out);

#endif
