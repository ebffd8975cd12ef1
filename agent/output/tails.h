/* SPDX-License-Identifier: Apache-2.0 */
/* People elsewhere who read what the workers here print (dtrun-ctl logs). What is told is what
 * dt_output has anyhow: the rings of streams that go through us, and files. So nobody's reading
 * takes memory beyond a page, or holds up a worker; who is slow misses something, and can tell from
 * the positions how much.
 *
 * Each gets a page, and the next when it has asked for that. All calls belong to the loop's thread.
 */
#ifndef DT_AGENT_OUTPUT_TAILS_H
#define DT_AGENT_OUTPUT_TAILS_H

#include "agent/output/output.h"
#include "agent/world.h"
#include "rendezvous/protocol/messages.h"

#define DT_TAILS_MOST 8 /* who begins beyond that takes the place of the one that began first */

struct dt_tails;

/* All of it outlives them. */
struct dt_tails_config {
    const struct dt_output *output;
    const struct dt_plan *plan;
    const struct dt_world *world; /* of the workers, or of the last that there were */
    /* A page (see docs/protocol.md) or, OVER, perhaps NULL. From the loop, or
     * from inside dt_tails_flush(). */
    void (*tell)(void *arg, int64_t id, bool over, const char *page);
    void *arg;
};

struct dt_tails *dt_tails_create(uv_loop_t *loop, const struct dt_tails_config *config,
                                 struct dt_err *err);

/* M is a TAIL, or a MORE. */
void dt_tails_hear(struct dt_tails *t, const struct dt_message *m);

/* T NULL: nothing. Workers are gone, and their output is drained: tells everybody at once what was
 * not told of it, 256 KiB in all at most. */
void dt_tails_flush(struct dt_tails *t);

/* Frees T when nothing is under way any more. T NULL: nothing. */
void dt_tails_close(struct dt_tails *t);

#endif
