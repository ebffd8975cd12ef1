/* SPDX-License-Identifier: Apache-2.0 */
/* Node 0 of a static job finds out for all nodes why their workers stand still: each node says in
 * the store that its own do (panelist.h), node 0 has all look at once, judges, and puts there what
 * all terminals say. Node 0 has the store at hand. Pure: acts on a dt_store when it is called.
 *
 *   each node    knows/NODE         it takes part
 *   node 0       together           ... as all nodes do: where an older dtrun, or a torchrun, is
 *                                   among them, each node judges by its own workers
 *   each node    still/NODE         a STILL, whose round is a number that it has made up; there as
 *                                   long as its workers stand still
 *   node 0       look/NODE/NUMBER   a LOOK, for who has said that number
 *   each node    looked/LOOK/NODE   a LOOKED
 *   node 0       finding/LOOK       a FINDING; of class "none": say it again
 *
 * The values are messages of the control protocol. */
#ifndef DT_AGENT_BACKEND_FIXED_PANEL_H
#define DT_AGENT_BACKEND_FIXED_PANEL_H

#include "base/clock.h"
#include "rendezvous/store/store.h"

#include <stdbool.h>

/* How the keys are spelled, behind the client's "/" and the prefix. */
#define DT_PANEL_KNOWS "dtrun/hang/knows/%d"
#define DT_PANEL_TOGETHER "dtrun/hang/together"
#define DT_PANEL_STILL "dtrun/hang/still/%d"
#define DT_PANEL_LOOK "dtrun/hang/look/%d/%d"
#define DT_PANEL_LOOKED "dtrun/hang/looked/%lld/%d"
#define DT_PANEL_FINDING "dtrun/hang/finding/%lld"

#define DT_PANEL_EVERY 250 /* between calls of dt_panel_step() */

struct dt_panel;

/* PREFIX is copied. NULL: no memory. */
struct dt_panel *dt_panel_create(const char *prefix, int nodes);
void dt_panel_destroy(struct dt_panel *p);

/* So many workers the job has; until then nobody is asked. */
void dt_panel_set_size(struct dt_panel *p, int size);

/* To be called again and again. */
void dt_panel_step(struct dt_panel *p, struct dt_store *store, dt_ms now);

#endif
