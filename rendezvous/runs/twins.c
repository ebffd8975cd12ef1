/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/twins.h"

const char *dt_rdzv_twins_find(const struct dt_rdzv_runs *runs, const struct dt_rdzv_run *run,
                               dt_ms now)
{
    if (run->rdzv->state != DT_RUN_GATHERING || run->rdzv->gathering.next_note > now)
        return NULL;
    dt_list_each(&runs->all, n)
    {
        const struct dt_rdzv_run *other = dt_container_of(n, struct dt_rdzv_run, in_all);
        if (other != run && dt_rdzv_may_be_one(run->rdzv, other->rdzv))
            return other->id;
    }
    return NULL;
}
