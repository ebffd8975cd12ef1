/* SPDX-License-Identifier: Apache-2.0 */
/* A finding on its way from the rendezvous to the nodes: as a message, and back. Pure. */
#ifndef DT_RENDEZVOUS_HANG_FINDING_H
#define DT_RENDEZVOUS_HANG_FINDING_H

#include "rendezvous/hang/judge.h"
#include "rendezvous/protocol/messages.h"

/* By which a group of ALL is known to who has not all of them; -1: there is no such group. */
int dt_hang_first_rank(const struct dt_stances *all, int group);

/* Strings and stances stay those of F and ALL, whose groups F names. */
void dt_hang_finding_put(const struct dt_hang_finding *f, const struct dt_stances *all,
                         struct dt_finding_message *out);

/* OUT names groups of the message's stances. A class that this version does not know is
 * DT_HANG_NONE. */
void dt_hang_finding_get(const struct dt_finding_message *m, struct dt_hang_finding *out);

#endif
