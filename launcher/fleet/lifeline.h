/* SPDX-License-Identifier: Apache-2.0 */
/* The far side of a fleet: dtrun on a host, which another one has started and can end. */
#ifndef DT_LAUNCHER_FLEET_LIFELINE_H
#define DT_LAUNCHER_FLEET_LIFELINE_H

#include "base/err.h"
#include "launcher/fleet/order.h"

/* Says hello on standard output and takes ORDER from standard input: environment and working
 * directory of this process become those of the order, a token becomes --token-file in its argv.
 * -1 and *err; an empty text there means that nobody wants anything any more. The order is to be
 * finished also after a failure. */
int dt_lifeline_greet(struct dt_fleet_order *order, struct dt_err *err);

/* From here on a thread listens to standard input, which becomes /dev/null for all others: it
 * raises the signals that come. When the input ends, or nothing has come for a minute, that is a
 * SIGTERM. */
int dt_lifeline_follow(struct dt_err *err);

/* Says that the exit status of this process follows. Nothing is printed after that. */
void dt_lifeline_say_over(void);

#endif
