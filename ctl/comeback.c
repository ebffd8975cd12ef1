/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/comeback.h"

void dt_ctl_comeback_seen(struct dt_ctl_comeback *c)
{
    *c = (struct dt_ctl_comeback){.known = true};
}

void dt_ctl_comeback_away(struct dt_ctl_comeback *c)
{
    c->missed = 0;
}

bool dt_ctl_comeback_may(struct dt_ctl_comeback *c, dt_ms most, dt_ms now)
{
    if (c->missed == 0)
        c->missed = now;
    return c->known && now - c->missed < most;
}
