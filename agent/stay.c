/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stay.h"

#include <stdio.h>

enum dt_stay dt_stay_judge(const struct dt_stay_fact *facts, int count)
{
    int running = 0, waiting = 0;
    for (int i = 0; i < count; i++) {
        if (facts[i].runs && !facts[i].can && !facts[i].waits)
            return DT_STAY_NO;
        running += facts[i].runs;
        waiting += facts[i].runs && facts[i].waits;
    }
    if (running == 0)
        return DT_STAY_NO;
    return waiting == running ? DT_STAY_WAITING : DT_STAY_LEAVING;
}

/* One that cannot stay is to blame before those that only take their time. */
const char *dt_stay_blame(const struct dt_stay_fact *facts, int count, char out[DT_STAY_WORDS])
{
    int late = -1;
    for (int i = 0; i < count; i++) {
        if (!facts[i].runs || facts[i].waits)
            continue;
        if (!facts[i].can) {
            snprintf(out, DT_STAY_WORDS, "worker %d cannot stay any more", i);
            return out;
        }
        late = late < 0 ? i : late;
    }
    if (late < 0)
        return NULL;
    snprintf(out, DT_STAY_WORDS, "worker %d has not left its round within %d s", late,
             (int)(DT_STAY_LIMIT / DT_SECOND));
    return out;
}

struct dt_page_world dt_stay_place(const struct dt_plan *plan, const struct dt_world *world,
                                   int restarts, int local_rank)
{
    struct dt_page_world w = {
        .rank = world->first_rank + local_rank,
        .size = world->size,
        .local_rank = plan->virtual_local_rank ? 0 : local_rank,
        .local_size = plan->nproc,
        .group = world->group_rank,
        .groups = world->group_size,
        .restarts = restarts,
        .round = world->round,
        .master_port = world->master_port,
        .role_rank = world->first_role_rank + local_rank,
        .role_size = world->role_size,
    };
    _Static_assert(DT_WORLD_ADDR_MAX <= DT_PAGE_ADDR, "each address of a world fits");
    snprintf(w.master_addr, sizeof w.master_addr, "%s", world->master_addr);
    if (world->prev_size > 0 && world->prev_first_rank >= 0) {
        w.prev_rank = world->prev_first_rank + local_rank;
        w.prev_size = world->prev_size;
    }
    return w;
}
