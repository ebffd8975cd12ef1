/* SPDX-License-Identifier: Apache-2.0 */
/* Tells people what needs them: follows the chronicle, and posts what the book finds to each
 * receiver. */
#ifndef DT_RENDEZVOUS_ALERTS_ALERTS_H
#define DT_RENDEZVOUS_ALERTS_ALERTS_H

#include "rendezvous/alerts/post.h"
#include "rendezvous/events/chronicle.h"

#include <uv.h>

struct dt_alerts;

struct dt_alerts_config {
    const struct dt_receiver *receivers; /* copied, with their targets */
    size_t receivers_len;                /* not 0 */
    enum dt_event_weight least;          /* lighter alerts are left out */
    dt_ms cooldown;
    const char *state_dir; /* where those that are open are kept; NULL: they are forgotten */
};

/* NULL and *err: no memory, or STATE_DIR cannot be used. */
struct dt_alerts *dt_alerts_open(uv_loop_t *loop, struct dt_chronicle *chronicle,
                                 const struct dt_alerts_config *config, struct dt_err *err);

/* What came of those for each receiver. */
size_t dt_alerts_receivers(const struct dt_alerts *a);
struct dt_post_counters dt_alerts_receiver(const struct dt_alerts *a, size_t i, const char **name);

/* Sends a test to each receiver. ON_TESTED is called once, when all have been tried, with how each
 * took it: "alerts to https://host: delivered; alerts by a command: ...". */
typedef void dt_alerts_tested_fn(void *arg, const char *outcomes, bool all_delivered);
void dt_alerts_test(struct dt_alerts *a, dt_alerts_tested_fn *on_tested, void *arg);

void dt_alerts_close(struct dt_alerts *a, void (*on_closed)(void *arg), void *arg);

#endif
