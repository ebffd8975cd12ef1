/* SPDX-License-Identifier: Apache-2.0 */
/* Between neighbouring stages of a pipeline: streams go onward, to the next stage, and their
 * gradients back, to the one before. Behind the last stage comes the first one, where stages have
 * several chunks. What is given is taken in the order in which it was given, and between two
 * stages alone that is one order of both ways.
 *
 * Who gives goes on at once, up to two ahead of who takes; who is told early what will come next,
 * has it as soon as it is there. A stage asks for what it needs next before it gives what it has
 * made, so that no two wait for each other: that holds for every list of order.h. */
#ifndef DT_WORKER_RUNTIME_PIPELINE_BORDER_H
#define DT_WORKER_RUNTIME_PIPELINE_BORDER_H

#include <dtrun/coll.h>

struct dt_border;

enum dt_way { DT_ONWARD, DT_BACK };

/* Collective over the stages, G, which outlives it: ranks in the order of their stages. MOST: what
 * one message holds, in elements of TYPE. THERE: G is of a device's memory, and so is all that is
 * given and taken. Nobody waits then but the device: what it is told behind a give comes when that
 * has been taken, and what was expected by then is there. */
struct dt_border *dt_border_open(struct dt_coll *g, size_t most, enum dt_dtype type, bool there,
                                 struct dt_err *err);
/* Where something is under way still, the group is of no use from then on, and has the memory that
 * is sent from until its end. Then before what was expected loses its place. */
void dt_border_close(struct dt_border *b);

/* The next message on that way is to be put into TO, which is the library's until dt_border_take()
 * of it; two at a time. */
int dt_border_expect(struct dt_border *b, enum dt_way way, void *to, size_t count,
                     struct dt_err *err);
int dt_border_take(struct dt_border *b, enum dt_way way, struct dt_err *err);
/* FROM is the caller's again when this returns; THERE, when dt_border_send() does. */
int dt_border_give(struct dt_border *b, enum dt_way way, const void *from, size_t count,
                   struct dt_err *err);
/* Of a device, behind what is given in one go, two at a time each way: begins all that was given
 * and is expected as one, so that neighbours that send to each other do not wait for each other. */
int dt_border_send(struct dt_border *b, struct dt_err *err);
/* All that was given has been taken. */
int dt_border_finish(struct dt_border *b, struct dt_err *err);
/* Before this rank waits for others than its neighbours, which wait for neighbours of their own:
 * between hosts a message moves only while its rank waits here, and one that stays half written
 * meanwhile may be what these others wait for in the end. Once what comes next is taken. Lists
 * of several chunks want the messages of two ops expected ahead then. */
int dt_border_halt(struct dt_border *b, struct dt_err *err);

/* Nanoseconds spent in all of this, ever. */
uint64_t dt_border_ns(const struct dt_border *b);

#endif
