/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun --look: prints what processes do, and starts nothing. */
#ifndef DT_LAUNCHER_LOOK_H
#define DT_LAUNCHER_LOOK_H

#include "launcher/options.h"

/* Prints to standard output, and what failed to standard error; the exit status. */
int dt_launch_look(const struct dt_launch_options *o);

#endif
