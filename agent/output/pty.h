/* SPDX-License-Identifier: Apache-2.0 */
/* A terminal for workers where ours is one: like it, but that it changes nothing on the way, as
 * ours does that. */
#ifndef DT_AGENT_OUTPUT_PTY_H
#define DT_AGENT_OUTPUT_PTY_H

#include "base/err.h"

/* ENDS[0]: ours, non-blocking; ENDS[1]: the workers'. LIKE is the terminal it is to resemble. */
int dt_pty_open(int like, int ends[2], struct dt_err *err);

/* Gives the terminal behind our end the size of LIKE. Harmless where one of them is none. */
void dt_pty_resize(int end, int like);

#endif
