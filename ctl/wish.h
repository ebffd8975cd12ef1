/* SPDX-License-Identifier: Apache-2.0 */
/* What dtrun-ctl wants of a rendezvous beside an answer, and on whose behalf. */
#ifndef DT_CTL_WISH_H
#define DT_CTL_WISH_H

#include "ctl/options.h"
#include "rendezvous/protocol/sync_control.h"

/* dt_sync_control_ask() with the name of the user and, where the options name the file of a token,
 * its signature. */
int dt_ctl_wish(const struct dt_ctl_options *o, struct dt_sync_control *c,
                struct dt_message *request, struct dt_message *answer, struct dt_err *err);

#endif
