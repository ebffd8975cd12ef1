/* SPDX-License-Identifier: Apache-2.0 */
/* Who this process is in its job: read from the environment that dtrun or torchrun sets for each
 * worker, or alone without one. All else of libdtrun is opened from a context. */
#ifndef DTRUN_CONTEXT_H
#define DTRUN_CONTEXT_H

#include <dtrun/api.h>
#include <dtrun/dtype.h>

DT_BEGIN_C

struct dt_context;
struct dt_coll;
struct dt_page_writer;

struct dt_context_options {
    const char *device; /* "auto", "cpu", "cuda"; NULL: "auto" */
    enum dt_dtype elem; /* what a GPU computes with: DT_F32 or DT_BF16; a CPU takes float */
    bool wide_sums;     /* GPUs add up DT_BF16 of ranks in float, which takes twice the bytes */
    bool fast;          /* a GPU may add up in any order, so that the last bits vary */
    int threads;        /* for computing; 0: OMP_NUM_THREADS, else the processors this process may
                           use divided by the ranks of its host */
    int64_t start_timeout_ms; /* for all ranks to be there; 0: 10 minutes */
    int64_t coll_timeout_ms;  /* for any one collective; 0: 10 minutes */
    bool can_stay;            /* the program calls dt_context_reenter() when it may */
    bool cudnn;               /* a GPU's attention in DT_BF16 is cuDNN's, where that can be had */
    /* One line that people should read, as why cuDNN is not taken; until the context closes. NULL:
     * nobody reads. */
    void (*say)(void *arg, const char *line);
    void *say_arg;
    /* Tells WHY and ends the process, from a thread of the library's: the one that trains is stuck
     * in NCCL for a peer that will not come. Asked for where NCCL_COMM_BLOCKING is 1, which with
     * NULL is not heeded. */
    void (*give_up)(void *arg, const struct dt_err *why);
    void *give_up_arg;
};

/* Reads the environment, opens the device, and meets the other ranks at MASTER_ADDR:MASTER_PORT.
 * Where some of them are on GPUs and some are not it fails on all, with what the one has and the
 * other lacks. Collective over all ranks of the job. OPTIONS may be NULL. */
DT_API struct dt_context *dt_context_open(const struct dt_context_options *options,
                                          struct dt_err *err);
DT_API void dt_context_close(struct dt_context *c); /* NULL is fine */

/* A process need not end when a peer does. With can_stay, after something of this world has failed
 * with WHY: whether that is the loss of a peer, or another rank's to tell, and the agent keeps this
 * process for the next world. */
DT_API bool dt_context_may_reenter(const struct dt_context *c, const struct dt_err *why);
/* Leaves the world, of which nothing but C may be open any more: no group, no zero, no checkpoint.
 * Waits for the next one and meets its ranks there. Then rank, world, epoch and their like are new,
 * in the environment too. A CPU stays the same device, and a GPU is opened anew. It waits without
 * end for signals: a program that catches them lets them end it meanwhile, as it has nothing to
 * save. -1 and *ERR: there is no next world for this process, and C can only be closed. */
DT_API int dt_context_reenter(struct dt_context *c, struct dt_err *err);

DT_API int dt_context_rank(const struct dt_context *c);
DT_API int dt_context_world(const struct dt_context *c);
DT_API int dt_context_local_rank(const struct dt_context *c);
DT_API int dt_context_local_world(const struct dt_context *c);
DT_API int
dt_context_host(const struct dt_context *c); /* GROUP_RANK: which agent's worker this is */
DT_API int dt_context_hosts(const struct dt_context *c);
/* Counts worlds of this job: rises by restarts and by membership changes alike. */
DT_API int64_t dt_context_epoch(const struct dt_context *c);
DT_API int dt_context_restarts(const struct dt_context *c);
DT_API const char *dt_context_run_id(const struct dt_context *c); /* "" when alone */

/* All ranks; owned by the context. Subgroups are split off it: coll.h. */
DT_API struct dt_coll *dt_context_coll(struct dt_context *c);

/* This worker's progress page, or one that nobody reads when no dtrun made one; owned by the
 * context: page.h. */
DT_API struct dt_page_writer *dt_context_page(struct dt_context *c);

DT_END_C

#endif
