/* SPDX-License-Identifier: Apache-2.0 */
/* Stances as a member of a JSON object that must not be longer than a frame. What there is no room
 * for is left out: a rank that no stance has is unknown to whoever reads it. Pure. */
#ifndef DT_RENDEZVOUS_PROTOCOL_STANCE_FRAME_H
#define DT_RENDEZVOUS_PROTOCOL_STANCE_FRAME_H

#include "base/buf.h"
#include "rendezvous/protocol/stance.h"

#define DT_STANCE_FRAME_MAX (44u << 10) /* bytes of JSON */

/* Appends `"stances":[...]` with up to DT_STANCES_MAX groups of S, of which KEEP and ALSO (-1:
 * none) are taken before all others. A lack of memory shows as OUT->bad. */
void dt_stance_frame_put(const struct dt_stances *s, int keep, int also, struct dt_buf *out);

/* The group that RANK is in; -1: none. */
int dt_stance_frame_find(const struct dt_stances *s, int rank);

#endif
