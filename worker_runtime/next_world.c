/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/next_world.h"

#include "base/clock.h"
#include "worker_runtime/telemetry/page_map.h"

#include <math.h>

/* For a peer's death to be known everywhere. A connection that broke between two that live ends no
 * round: then somebody has to fail, as without all this. */
#define RECALL_LIMIT (10 * DT_SECOND)
#define WORLD_LIMIT (600 * DT_SECOND)
#define NAP 100 /* ms between looks at whether the round is over, which wakes nobody */

static int fail_late(const struct dt_page_writer *w, struct dt_err *err)
{
    if (!dt_page_round_over(w))
        return dt_err_set(err, DT_E_DISCONNECTED,
                          "a peer was lost, but its round was not ended within %d s: it may live, "
                          "and only the connection be broken",
                          (int)(RECALL_LIMIT / DT_SECOND));
    return dt_err_set(err, DT_E_TIMEOUT, "this worker waited %d s for a next world, and none came",
                      (int)(WORLD_LIMIT / DT_SECOND));
}

/* What a new worker's page says. First that no loss is told, or NaN would be one. */
static void forget_steps(struct dt_page_writer *w)
{
    __atomic_store_n(&dt_page_of(w)->loss_told, 0, __ATOMIC_SEQ_CST);
    dt_page_update(w, &(struct dt_page_values){.step = -1,
                                               .saved = -1,
                                               .steps = -1,
                                               .loss = NAN,
                                               .tokens_per_s = NAN,
                                               .utilisation = NAN});
}

int dt_next_world_wait(struct dt_page_writer *w, struct dt_page_world *next, struct dt_err *err)
{
    struct dt_page *page = dt_page_of(w);
    dt_ms left = dt_clock_monotonic(), waited;
    dt_page_section(w, "waiting");
    dt_page_say_left(page);
    do {
        if (dt_page_wait_world(page, NAP, next)) {
            if (!dt_page_round_over(w)) {
                dt_page_say_can_stay(page, false);
                forget_steps(w);
                return 0;
            }
            dt_page_say_left(page); /* that one is over already */
        }
        waited = dt_clock_monotonic() - left;
    } while (waited < (dt_page_round_over(w) ? WORLD_LIMIT : RECALL_LIMIT));
    return fail_late(w, err);
}
