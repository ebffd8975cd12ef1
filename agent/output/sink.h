/* SPDX-License-Identifier: Apache-2.0 */
/* A descriptor that is written to by a thread of its own, so that one that blocks holds up nobody.
 *
 * Our stdout and stderr are shared with whoever started us, so they cannot be made non-blocking. In
 * libuv's thread pool a write to a terminal that somebody has stopped would keep one of its few
 * threads from everybody's files, and, as nothing can call it back, the process from ending; this
 * thread can be canceled in the middle of its write. */
#ifndef DT_AGENT_OUTPUT_SINK_H
#define DT_AGENT_OUTPUT_SINK_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <uv.h>

/* What waits for the thread, and as much again that it is writing. */
#define DT_SINK_ROOM ((size_t)2 << 20)

struct dt_sink;

/* FD stays the caller's. Whoever was told that there is no room, or that something is left to
 * write, is told by TELL when to ask again. */
struct dt_sink *dt_sink_open(int fd, uv_async_t *tell, struct dt_err *err);

/* FD leads to where the log goes, too: it is told when a line was written without its end. */
void dt_sink_shares_log(struct dt_sink *s);

/* What is put into the buffer between these two is written, in order and at once. A few more bytes
 * than there is room for do no harm. */
struct dt_buf *dt_sink_begin(struct dt_sink *s);
void dt_sink_end(struct dt_sink *s);

bool dt_sink_has_room(struct dt_sink *s);
bool dt_sink_is_empty(struct dt_sink *s); /* everything has been written */

/* The errno that ended it, 0 while it works. All that is put into a broken one is dropped. */
int dt_sink_broken(struct dt_sink *s);

/* Ends a write that is under way, and leaves out what has not been written. */
void dt_sink_close(struct dt_sink *s);

#endif
