/* SPDX-License-Identifier: Apache-2.0 */
/* The stacks of C code of all threads of a look, on demand: unlike the rest of a look this stops
 * each thread for a moment, as a debugger does. */
#ifndef DT_AGENT_LOOK_NATIVE_H
#define DT_AGENT_LOOK_NATIVE_H

#include "agent/look/look.h"

#define DT_NATIVE_THREADS_MAX 128          /* of a process; of others there is none */
#define DT_NATIVE_TIME_MAX (5 * DT_SECOND) /* for a process, and 10 s for all */

/* Adds them to the tasks of LOOK. What cannot be walked has none, and says so in the entry's
 * no_native. Forks: for a program without threads. -1 and *err: the helper library is missing. */
int dt_native_add(struct dt_look *look, struct dt_err *err);

#endif
