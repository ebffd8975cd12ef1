/* SPDX-License-Identifier: Apache-2.0 */
/* Stage 3 where ranks do not share memory: the few units that are whole right now. A unit is
 * gathered when it is asked for, or ahead of that (prefetch) in the order of the micro-step before;
 * it stays while it is held, and then as long as it is soon used again (max_reuse_distance) and all
 * that is whole stays below max_live. Small units (persist_below) always stay.
 *
 * Nothing here depends on time, only on the calls made so far, so all ranks start the same
 * collectives in the same order. */
#ifndef DT_WORKER_RUNTIME_ZERO_SLOTS_H
#define DT_WORKER_RUNTIME_ZERO_SLOTS_H

#include <dtrun/zero.h>

struct dt_slots;

struct dt_slots *dt_slots_create(struct dt_zero *z, struct dt_err *err);
void dt_slots_destroy(struct dt_slots *s);
void dt_slots_begin(struct dt_slots *s, bool train); /* a micro-step */
const void *dt_slots_gather(struct dt_slots *s, size_t unit, struct dt_err *err);
void dt_slots_release(struct dt_slots *s, size_t unit);
/* What is on its way has arrived on this rank: others may write what it was made of when they know
 * that of all. S may be NULL. */
int dt_slots_settle(struct dt_slots *s, struct dt_err *err);
/* Parameters have changed: what was gathered is old, and what always stays is gathered again. */
int dt_slots_renew(struct dt_slots *s, struct dt_err *err);
size_t dt_slots_bytes(const struct dt_slots *s);
size_t dt_slots_live(const struct dt_slots *s);      /* elements that are whole or on their way */
size_t dt_slots_gathers(const struct dt_slots *s);   /* made so far */
size_t dt_slots_most_live(const struct dt_slots *s); /* so far */

#endif
