/* SPDX-License-Identifier: Apache-2.0 */
/* Telling dtrun how far this worker is: plain stores into a page of shared memory, a few
 * nanoseconds, no call into the kernel. The module dtrun.progress does the same from Python. */
#ifndef DTRUN_PAGE_H
#define DTRUN_PAGE_H

#include <dtrun/api.h>

DT_BEGIN_C

struct dt_page_writer;

struct dt_page_values {
    int64_t step;  /* steps done */
    int64_t saved; /* the last one a checkpoint holds; -1: none */
    int64_t steps; /* there will be; -1: not known */
    /* Tokens are this worker's own, as its agent adds up those of a node; NaN: not told. A loss
     * that is NaN behind one that was a number is told: training has diverged. */
    double loss, tokens_per_s, utilisation;
};

/* By DTRUN_PROGRESS_FD; without one, or with one that is no such page, a page that nobody reads.
 * NULL: no memory. */
DT_API struct dt_page_writer *dt_page_open(struct dt_err *err);
DT_API void dt_page_close(struct dt_page_writer *w);
DT_API bool dt_page_is_read(const struct dt_page_writer *w); /* whether an agent made it */
DT_API void dt_page_update(struct dt_page_writer *w, const struct dt_page_values *v);
/* Adds to the time that this worker has spent on its own part of its steps, not waiting for others,
 * and to how much of that was for its data. Right before the update that tells of the step. An
 * agent compares it with what the others spent, to find the one that holds them up. */
DT_API void dt_page_spend(struct dt_page_writer *w, int64_t own_ns, int64_t data_ns);
/* Adds to the time that this worker has spent in communication, which is none of its own part. */
DT_API void dt_page_communicate(struct dt_page_writer *w, int64_t ns);
/* From here on the loss of an update is told, also the first one, and where it is NaN. */
DT_API void dt_page_promise_loss(struct dt_page_writer *w);
/* Model FLOPs of what the device could do, 0 to 1; NaN: not known. */
DT_API void dt_page_mfu(struct dt_page_writer *w, double mfu);
/* A checkpoint waits to be uploaded or is being so, SINCE that moment of CLOCK_MONOTONIC, ns; 0:
 * none does. */
DT_API void dt_page_upload_waits(struct dt_page_writer *w, int64_t since_ns);
/* Where this worker saves checkpoints: people are told when that disk is almost full. An absolute
 * path; one of 256 bytes or more is not told. */
DT_API void dt_page_folder(struct dt_page_writer *w, const char *path);
DT_API void dt_page_section(struct dt_page_writer *w, const char *name);
/* The agent says that this world is over: what is not saved yet may not be saved any more. */
DT_API bool dt_page_round_over(const struct dt_page_writer *w);
/* How many checkpoints people have asked for so far (dtrun-ctl run save): one more than before, and
 * a program that can saves after its step. The ranks need not see it in the same step: let one
 * decide. */
DT_API uint32_t dt_page_saves_wanted(const struct dt_page_writer *w);
/* Whether no later world of this run can have begun: to be asked right before a checkpoint is made
 * the newest. False while the round is not over: the agent has not heard of the rendezvous for so
 * long that another world may have begun. Ask again, as the rendezvous may come back. Without an
 * agent, and where no other world can begin, true. */
DT_API bool dt_page_may_commit(const struct dt_page_writer *w);

DT_END_C

#endif
