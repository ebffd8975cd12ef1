/* SPDX-License-Identifier: Apache-2.0 */
/* What comes from one worker through one pipe or pty, into its file and onto the console.
 *
 * The last bytes that came are kept in a ring, and two cursors say how far the file and the console
 * have got. A byte may be forgotten once it is in the file, so a slow file slows its worker down
 * and nothing else does: a console that is too far behind is given the rest from the file, later.
 * Without a file, or when the file can take no more, it is the console that a worker waits for. */
#ifndef DT_AGENT_OUTPUT_STREAM_H
#define DT_AGENT_OUTPUT_STREAM_H

#include "agent/output/console.h"
#include "agent/output/filter.h"
#include "base/buf.h"
#include "base/clock.h"

#include <stdbool.h>
#include <uv.h>

#define DT_WORKER_STREAM_TAIL (64u << 10)
#define DT_WORKER_STREAM_RING (512u << 10)

struct dt_worker_stream;

/* Descriptors and prefix become the stream's; console and filter are lent. */
struct dt_worker_stream_setup {
    int fd;          /* to read from; non-blocking */
    int file;        /* open for reading and appending; -1: none */
    char *file_name; /* for a message; allocated. NULL without a file */
    char *prefix;    /* allocated; NULL: bytes are passed on unchanged */
    int local_rank;
    struct dt_console *console;  /* NULL: shown nowhere */
    struct dt_filter *filter;    /* NULL: none */
    bool strip;                  /* terminal codes do not get into the file */
    void (*on_moved)(void *arg); /* something came or was written; not from within a call */
    void (*on_closed)(void *arg);
    void *arg;
};

/* NULL and *err: no memory, or the loop has no room; then SETUP still owns what it owned. */
struct dt_worker_stream *dt_worker_stream_open(uv_loop_t *loop,
                                               const struct dt_worker_stream_setup *setup,
                                               struct dt_err *err);

/* PREFIX, allocated, becomes the stream's: of lines from the next one on. Not for a stream whose
 * bytes are passed on unchanged. */
void dt_worker_stream_rename(struct dt_worker_stream *s, char *prefix);

/* Takes, files and shows what it can now. To be called when there is room again. */
void dt_worker_stream_pump(struct dt_worker_stream *s);

/* No more is to be waited for: what is in the pipe is the rest. */
void dt_worker_stream_drain(struct dt_worker_stream *s);

/* Everything that came is in the file and has been given to console and filter. */
bool dt_worker_stream_is_finished(const struct dt_worker_stream *s);

/* Shows an unfinished line that is AGE old; returns when the one there is now will be. */
dt_ms dt_worker_stream_show_unfinished(struct dt_worker_stream *s, dt_ms age);

/* Where it comes from; -1: no more comes. */
int dt_worker_stream_fd(const struct dt_worker_stream *s);

/* Appends the last DT_WORKER_STREAM_TAIL bytes, or what there is. */
void dt_worker_stream_tail(const struct dt_worker_stream *s, struct dt_buf *out);

/* How much came, and what of it is still here: the last DT_WORKER_STREAM_RING bytes at most. */
uint64_t dt_worker_stream_received(const struct dt_worker_stream *s);
/* Appends what came from FROM on and is still here, at most MOST bytes. */
void dt_worker_stream_copy(const struct dt_worker_stream *s, uint64_t from, size_t most,
                           struct dt_buf *out);

/* Drops what is not written. on_closed is called when S is no more, which may be at once. */
void dt_worker_stream_close(struct dt_worker_stream *s);

#endif
