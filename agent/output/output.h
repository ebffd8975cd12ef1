/* SPDX-License-Identifier: Apache-2.0 */
/* What workers print: from their descriptors into files and onto the console.
 *
 * A stream that torchrun would let a worker inherit looks inherited: a terminal stays one (a pty
 * whose bytes are passed on unchanged), stdout and stderr that are one file stay one, in their
 * order. A redirected one is the file itself. A teed one is a pipe: its bytes go to the file
 * unchanged and at once, and to the console in whole lines with a prefix; when the console is slow
 * the copy is taken from the file later, so it holds up no worker and nothing is lost. Nobody's
 * flood delays another. Of every stream the last 64 KiB can be had for the report. */
#ifndef DT_AGENT_OUTPUT_OUTPUT_H
#define DT_AGENT_OUTPUT_OUTPUT_H

#include "agent/plan.h"
#include "base/buf.h"
#include "base/err.h"

#include <uv.h>

#define DT_OUTPUT_TAIL (64u << 10)

struct dt_output;

/* Keeps PLAN. CONSOLE are our stdout and stderr: 1 and 2. They stay the caller's and must be open
 * until on_closed. Nothing is opened yet. */
struct dt_output *dt_output_create(uv_loop_t *loop, const struct dt_plan *plan,
                                   const int console[2], struct dt_err *err);

/* A new attempt, all streams of the one before being drained: ATTEMPT_DIR (NULL: no files) has a
 * folder per local rank. FIRST_RANK is the rank of local rank 0, for prefixes. */
int dt_output_begin(struct dt_output *o, const char *attempt_dir, int first_rank,
                    struct dt_err *err);

/* The next round of workers that go on: FIRST_RANK is the rank of local rank 0 now. */
int dt_output_go_on(struct dt_output *o, int first_rank, struct dt_err *err);

/* Makes the streams of one worker, or again those of one that takes the place of one that is over:
 * its files go on. FDS: what becomes its descriptors 1 and 2, -1 where it is to
 * inherit ours, the same number twice where both are one stream; they stay open until
 * dt_output_started(). After a failure there is no going on but dt_output_begin() or the close. */
int dt_output_open(struct dt_output *o, int local_rank, int fds[2], struct dt_err *err);

/* All workers have been forked: closes our copies of their ends, and reading begins. */
void dt_output_started(struct dt_output *o);

/* Our terminal has got another size. */
void dt_output_resize(struct dt_output *o);

/* All workers and what they started are gone: takes what is still in the pipes, without waiting for
 * whoever else may hold them open, writes unfinished lines, and calls ON_DRAINED from the loop when
 * everything is in its file and on the console. It takes the place of any that is under way. */
void dt_output_drain(struct dt_output *o, void (*on_drained)(void *arg), void *arg);

/* The same for a worker that is over while others go on: what it printed is to be in its file and
 * given to the console. Told again of another one, ON_DRAINED waits for both. */
void dt_output_drain_one(struct dt_output *o, int local_rank, void (*on_drained)(void *arg),
                         void *arg);

/* Waits no longer for whoever reads our stdout and stderr: what they have not taken is not shown.
 * Files get everything. */
void dt_output_give_up(struct dt_output *o);

/* Appends the last bytes of a stream (DT_STDOUT, DT_STDERR) of this attempt to OUT, at most
 * DT_OUTPUT_TAIL. Where both are one stream, it is either. Good until the next begin. */
void dt_output_tail(const struct dt_output *o, int local_rank, unsigned stream, struct dt_buf *out);

/* One of a worker's two streams, for somebody who reads it along. */
struct dt_output_log {
    int rank;
    int64_t since;      /* of this stream: what takes its place has a higher one */
    int inherited;      /* the descriptor of ours that the worker writes to itself; else -1 */
    int file;           /* of its own, ... */
    off_t began;        /* ... from there on; else -1: dt_output_copy() has it */
    uint64_t end, kept; /* of one without a file: how much came, and the last of it that is here */
};

/* False: there is no such stream, or it is one with another. */
bool dt_output_log(const struct dt_output *o, int local_rank, unsigned stream,
                   struct dt_output_log *out);
/* Appends what came from FROM on and is here, at most MOST bytes. */
void dt_output_copy(const struct dt_output *o, int local_rank, unsigned stream, uint64_t from,
                    size_t most, struct dt_buf *out);

/* Ends everything at once, drained or not, also where nobody reads the console; frees O and then
 * calls ON_CLOSED, at once if O is NULL. */
void dt_output_close(struct dt_output *o, void (*on_closed)(void *arg), void *arg);

#endif
