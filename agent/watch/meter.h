/* SPDX-License-Identifier: Apache-2.0 */
/* How the training of a node's workers goes and what their steps are spent on, by their progress
 * pages. Samples in, telemetry out. Pure.
 *
 * Times are compared over whole steps, a second of them or one: what a worker spent is counted when
 * a step is done. */
#ifndef DT_AGENT_WATCH_METER_H
#define DT_AGENT_WATCH_METER_H

#include "rendezvous/protocol/page.h"
#include "rendezvous/protocol/telemetry.h"

struct dt_meter;

/* Of COUNT workers. NULL: no memory. */
struct dt_meter *dt_meter_create(int count);
void dt_meter_destroy(struct dt_meter *m);

/* What the page of this worker says now. One that went back is of another try, and begins anew. */
void dt_meter_note(struct dt_meter *m, int local_rank, const struct dt_page_told *told);

/* Fills in what is known of steps, loss, MFU, shares, times and uploads. NOW_NS: CLOCK_MONOTONIC.
 * Its strings are M's, and good until the next call. */
void dt_meter_tell(struct dt_meter *m, int64_t now_ns, struct dt_telemetry *out);

/* Where workers save checkpoints, as the first says that does; "": none does. */
const char *dt_meter_folder(const struct dt_meter *m);

#endif
