/* SPDX-License-Identifier: Apache-2.0 */
/* A file with a line of JSON for each event of the daemon, for what ships logs. A thread writes it:
 * a disk that is full, or hangs, costs nobody anything but the lines it does not take. All calls
 * belong to the loop's thread. */
#ifndef DT_RENDEZVOUS_DAEMON_EVENT_LOG_H
#define DT_RENDEZVOUS_DAEMON_EVENT_LOG_H

#include "base/clock.h"
#include "base/err.h"
#include "rendezvous/events/chronicle.h"

#include <uv.h>

struct dt_event_log;

/* Appends to PATH, which is made where it is missing, what happens at C from the last start of the
 * server on. NULL and *err: it cannot be opened. */
struct dt_event_log *dt_event_log_open(uv_loop_t *loop, struct dt_chronicle *c, const char *path,
                                       struct dt_err *err);

/* Goes on in a new file of that name: the old one was moved away. NULL is fine. */
void dt_event_log_reopen(struct dt_event_log *l);

/* What happened is written first, for as long as PATIENCE: what a disk that hangs has not taken by
 * then is said to be missing. ON_CLOSED is called from the loop, or at once where L is NULL. C may
 * be finished before. A second call makes the patience shorter; its ON_CLOSED is not looked at. */
void dt_event_log_close(struct dt_event_log *l, dt_ms patience, void (*on_closed)(void *arg),
                        void *arg);

#endif
