/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that a story turns until what it names has come. One that waits for what never comes
 * hangs, and fails by meson's limit. */
#ifndef DT_TESTS_AGENT_TURNING_H
#define DT_TESTS_AGENT_TURNING_H

#include "base/clock.h"

#include <uv.h>

#define SOON (60 * DT_SECOND) /* never reached unless something is broken */

static inline void on_tick(uv_timer_t *t)
{
    (void)t;
}

/* uv_run() polls behind its timers: with TICK, which keeps no loop alive, it returns soon enough
 * for what these told to be seen. */
static inline void turning_init(uv_loop_t *loop, uv_timer_t *tick)
{
    uv_loop_init(loop);
    uv_timer_init(loop, tick);
    uv_timer_start(tick, on_tick, 5, 5);
    uv_unref((uv_handle_t *)tick);
}

static inline void turn_once(uv_loop_t *loop)
{
    uv_run(loop, UV_RUN_ONCE);
}

#define TURN_UNTIL(loop, cond)                                                                     \
    while (!(cond))                                                                                \
    turn_once(loop)

/* S: whatever has a loop. */
#define RUN_UNTIL(s, cond) TURN_UNTIL(&(s)->loop, cond)

#endif
