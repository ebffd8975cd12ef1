/* SPDX-License-Identifier: Apache-2.0 */
/* Whether workers that stand still may do well all the same. Pure. */
#ifndef DT_RENDEZVOUS_HANG_DOUBT_H
#define DT_RENDEZVOUS_HANG_DOUBT_H

#include "rendezvous/protocol/stance.h"

/* Of workers that tell no steps, whose stacks have not changed for long: none of them waits for
 * another, or one does what takes its time, as to compile or to save. */
bool dt_hang_is_in_doubt(const struct dt_stances *all);

#endif
