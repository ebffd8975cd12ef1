/* SPDX-License-Identifier: Apache-2.0 */
/* The curves of all runs of a server: looks at each run that trains every two seconds, and forgets
 * those of runs that the server has forgotten. All calls belong to the loop's thread. */
#ifndef DT_RENDEZVOUS_WEB_CURVES_H
#define DT_RENDEZVOUS_WEB_CURVES_H

#include "base/map.h"
#include "rendezvous/runs/server.h"
#include "rendezvous/web/curve.h"

#define DT_WEB_CURVES_MOST 256 /* 16 KiB each; further runs have none */

/* Zeroed memory is one that was never opened. */
struct dt_web_curves {
    const struct dt_rdzv_server *server; /* NULL once it is stopped */
    struct dt_map by_run;
    uint64_t looks; /* so many */
    uv_timer_t timer;
};

void dt_web_curves_init(struct dt_web_curves *cs, uv_loop_t *loop,
                        const struct dt_rdzv_server *server);
/* The server is not looked at from here on. A second call does nothing. The timer is the owner's to
 * close, behind this. */
void dt_web_curves_stop(struct dt_web_curves *cs);
void dt_web_curves_finish(struct dt_web_curves *cs);

/* NULL: there is none of RUN. */
const struct dt_curve *dt_web_curves_find(const struct dt_web_curves *cs, const char *run);

#endif
