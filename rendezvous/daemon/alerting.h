/* SPDX-License-Identifier: Apache-2.0 */
/* Alerts of a daemon: the receivers that its options name, and the server that they are about. */
#ifndef DT_RENDEZVOUS_DAEMON_ALERTING_H
#define DT_RENDEZVOUS_DAEMON_ALERTING_H

#include "rendezvous/alerts/alerts.h"
#include "rendezvous/daemon/options.h"

bool dt_alerting_is_wanted(const struct dt_rendezvous_options *o);
/* Whether all receivers can be: -1 and *err, which names the option. */
int dt_alerting_check(const struct dt_rendezvous_options *o, struct dt_err *err);

struct dt_alerting;

/* Follows what happens at SERVER, and tests receivers for its people. NULL and
 * *err. */
struct dt_alerting *dt_alerting_open(uv_loop_t *loop, struct dt_rdzv_server *server,
                                     const struct dt_rendezvous_options *o, struct dt_err *err);
/* For its metrics; good until it is closed. A may be NULL, and then NULL is the answer. */
const struct dt_alerts *dt_alerting_alerts(const struct dt_alerting *a);
/* Before the server is closed. */
void dt_alerting_close(struct dt_alerting *a);

#endif
