/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/connect.h"

struct dt_sync_control *dt_ctl_connect(const struct dt_ctl_options *o, const struct dt_token *token,
                                       dt_ms patience, struct dt_err *err)
{
    struct dt_sync_control *c =
        dt_sync_control_open(o->endpoint, "dtrun-ctl " DT_VERSION, token, patience, err);
    if (!c && o->endpoint_from_env)
        dt_err_wrap(err, DT_CTL_RENDEZVOUS_ENV);
    return c;
}
