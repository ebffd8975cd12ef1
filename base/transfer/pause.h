/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting that another thread can end. */
#ifndef DT_BASE_TRANSFER_PAUSE_H
#define DT_BASE_TRANSFER_PAUSE_H

#include "base/clock.h"

#include <stdatomic.h>
#include <time.h>

/* -1: *STOP was set meanwhile, or before; it is looked at ten times a second. STOP may be NULL. */
static inline int dt_pause(dt_ms pause, const atomic_bool *stop)
{
    for (dt_ms slice; pause > 0; pause -= slice) {
        if (stop && atomic_load(stop))
            return -1;
        slice = pause < 100 ? pause : 100;
        struct timespec wait = {.tv_nsec = (long)slice * 1000000};
        nanosleep(&wait, NULL);
    }
    return stop && atomic_load(stop) ? -1 : 0;
}

#endif
