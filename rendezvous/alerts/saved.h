/* SPDX-License-Identifier: Apache-2.0 */
/* An alert that is open, as bytes of a journal: a server that is started anew goes on with it.
 * Pure. */
#ifndef DT_RENDEZVOUS_ALERTS_SAVED_H
#define DT_RENDEZVOUS_ALERTS_SAVED_H

#include "base/buf.h"
#include "rendezvous/alerts/book.h"

/* NOW and WALL_US are the time, on the clock that A is measured by and on that of the wall. OUT is
 * sticky. */
void dt_alert_save(const struct dt_alert *a, dt_ms now, int64_t wall_us, struct dt_buf *out);

/* NOW may be on the clock of another boot. False: IN is no alert, or one of a rule that this
 * version does not know. */
bool dt_alert_restore(struct dt_alert *a, struct dt_bytes in, dt_ms now, int64_t wall_us);

#endif
