/* SPDX-License-Identifier: Apache-2.0 */
/* The alerts that are open, in a journal of their own below the state directory: kill -9 at any
 * moment costs none of them. One record for each place of the book, so it is as bounded as that.
 * The loop's thread. */
#ifndef DT_RENDEZVOUS_ALERTS_KEEP_H
#define DT_RENDEZVOUS_ALERTS_KEEP_H

#include "base/err.h"
#include "rendezvous/alerts/book.h"

#include <uv.h>

struct dt_alert_keep;

/* What was open when the last server ended is in BOOK again, which is empty and whose first block
 * is set. NULL and *err: the folder cannot be used. */
struct dt_alert_keep *dt_alert_keep_open(uv_loop_t *loop, const char *state_dir,
                                         struct dt_alert_book *book, struct dt_err *err);

/* A, at PLACE of the book, has changed. */
void dt_alert_keep_note(struct dt_alert_keep *k, size_t place, const struct dt_alert *a, dt_ms now);

/* The disk has it all when ON_CLOSED is called. */
void dt_alert_keep_close(struct dt_alert_keep *k, void (*on_closed)(void *arg), void *arg);

#endif
