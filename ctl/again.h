/* SPDX-License-Identifier: Apache-2.0 */
/* Who goes on with what happens next (--follow): over one connection after the other, since a
 * rendezvous may be started anew meanwhile, and printed at once. */
#ifndef DT_CTL_AGAIN_H
#define DT_CTL_AGAIN_H

#include "ctl/options.h"
#include "rendezvous/protocol/sync_control.h"

/* A rendezvous lets a connection be silent for 10 s, and then says that nothing happened. */
#define DT_CTL_SILENCE (10 * DT_SECOND)

/* Until it is through (0), or -1 and *err. AGAIN: there was a connection before C. */
typedef int dt_ctl_talk_fn(void *arg, struct dt_sync_control *c, bool again, struct dt_err *err);

/* Calls TALK with a connection, and with another one whenever it fails for want of that. 0, or -1
 * and *err: TALK failed for a reason that stays, or there never was a connection. */
int dt_ctl_again(const struct dt_ctl_options *o, const struct dt_token *token, dt_ctl_talk_fn *talk,
                 void *arg, struct dt_err *err);

/* Writes OUT to standard output now, and empties it. */
int dt_ctl_print(struct dt_buf *out, struct dt_err *err);

#endif
