/* SPDX-License-Identifier: Apache-2.0 */
/* Where dtrun-ctl asks. */
#ifndef DT_CTL_CONNECT_H
#define DT_CTL_CONNECT_H

#include "ctl/options.h"
#include "rendezvous/protocol/sync_control.h"

/* dt_sync_control_open() at the place that the options name. An error names the variable that the
 * place comes from, as one that was set long ago is easily forgotten. */
struct dt_sync_control *dt_ctl_connect(const struct dt_ctl_options *o, const struct dt_token *token,
                                       dt_ms patience, struct dt_err *err);

#endif
