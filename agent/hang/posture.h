/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does: a look at it and its descendants becomes one stance. Pure. */
#ifndef DT_AGENT_HANG_POSTURE_H
#define DT_AGENT_HANG_POSTURE_H

#include "agent/look/look.h"
#include "rendezvous/protocol/page.h"
#include "rendezvous/protocol/stance.h"

/* LOOK: at a worker, its first process, and all below it. PAGE: what its progress page tells; NULL:
 * it has none. STILL stays 0, as one look cannot know; GROUP, SHAPE and SEQUENCE stay untold. */
void dt_posture_of(const struct dt_look *look, const struct dt_page_told *page,
                   struct dt_stance *out);

#endif
