/* SPDX-License-Identifier: Apache-2.0 */
/* The progress pages of one attempt's workers, one each: what they tell of themselves while they
 * run, and what is left of it when they do not. See rendezvous/protocol/page.h.
 *
 * No worker has to use its page, and an attempt goes well without: where no memory can be had for
 * pages there are none, and that is said. All functions but the first accept NULL. */
#ifndef DT_AGENT_WATCH_PAGES_H
#define DT_AGENT_WATCH_PAGES_H

#include "base/clock.h"
#include "rendezvous/protocol/comms.h"

#include <stddef.h>

#define DT_PAGES_WORDS 384

struct dt_pages;

/* For COUNT workers. NULL: there are none, and it was said why. */
struct dt_pages *dt_pages_create(int count);
void dt_pages_destroy(struct dt_pages *p);

/* The descriptor that this worker alone is to keep; it closes at exec unless it is told not to.
 * 0: none. */
int dt_pages_fd(const struct dt_pages *p, int local_rank);
/* The workers have theirs, or never will. */
void dt_pages_close_fds(struct dt_pages *p);

/* What these workers have not saved by now is not to count any more. */
void dt_pages_end_round(struct dt_pages *p);

/* A person wants these workers to save. */
void dt_pages_want_save(struct dt_pages *p);

/* Until UNTIL no later round can have begun beside them. 0: it may have; DT_FOREVER: it cannot. */
void dt_pages_set_lease(struct dt_pages *p, dt_ms until);

/* -- workers that outlive a round -- */

/* They may, those that can. */
void dt_pages_let_stay(struct dt_pages *p);
bool dt_pages_can_stay(const struct dt_pages *p, int local_rank);
bool dt_pages_is_waiting(const struct dt_pages *p, int local_rank);
/* Of one that waits for it. */
void dt_pages_give_world(struct dt_pages *p, int local_rank, const struct dt_page_world *world,
                         dt_ms lease);
/* A page for a worker that takes the place of one that is over; without memory it has none. */
void dt_pages_renew(struct dt_pages *p, int local_rank, dt_ms lease);

/* False: this one has not written anything. */
bool dt_pages_read(const struct dt_pages *p, int local_rank, struct dt_page_told *out);
/* Of its communicators; none without pages. */
void dt_pages_read_comms(const struct dt_pages *p, int local_rank, struct dt_comms_told *out);
/* Who of them is furthest, and how far; -1: none has told. */
int dt_pages_furthest(const struct dt_pages *p);
int64_t dt_pages_step(const struct dt_pages *p);
/* Of that worker, whole ones; 0: not told. */
int64_t dt_pages_tokens_per_s(const struct dt_pages *p, int local_rank);

/* "last step 418, 12 steps after the last checkpoint, in section backward, last NCCL call AllReduce
 * 812 of default_pg, Float32 [1024]"; "" where there is nothing to say. */
const char *dt_pages_describe(const struct dt_pages *p, int local_rank, char out[DT_PAGES_WORDS]);

#endif
