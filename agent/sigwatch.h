/* SPDX-License-Identifier: Apache-2.0 */
/* The signals that dtrun listens to. One that was ignored when we were started stays ignored: that
 * is how nohup and background jobs of a shell say that they do not want to hear of it. */
#ifndef DT_AGENT_SIGWATCH_H
#define DT_AGENT_SIGWATCH_H

#include "base/err.h"

#include <stdint.h>
#include <uv.h>

struct dt_sigwatch;

/* Bit N of SET: signal N. */
struct dt_sigwatch *dt_sigwatch_open(uv_loop_t *loop, uint64_t set,
                                     void (*on_signal)(void *arg, int signum), void *arg,
                                     struct dt_err *err);
/* Stops this process as SIGTSTP does where nobody listens to it, until it is continued. Returns at
 * once where the kernel does not let it stop: nobody would be there to continue it. */
void dt_sigwatch_stop_process(void);

/* From here on they are ignored: all is decided, and no thread is to die of one that comes late. */
void dt_sigwatch_close(struct dt_sigwatch *s, void (*on_closed)(void *arg), void *arg);

#endif
