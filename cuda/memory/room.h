/* SPDX-License-Identifier: Apache-2.0 */
/* Whether to wait for memory of a GPU that somebody else still has. When an agent starts workers
 * anew, the driver may yet be taking down those before them. Decides only; time is an argument. */
#ifndef DT_CUDA_MEMORY_ROOM_H
#define DT_CUDA_MEMORY_ROOM_H

#include "base/clock.h"

#include <stdbool.h>

struct dt_cuda_room {
    dt_ms begun, rose; /* when the wait began, and when memory last became free */
    size_t most;       /* that was free so far */
};

void dt_cuda_room_begin(struct dt_cuda_room *r, dt_ms now);
/* True: look again in a little. False: take what there is. */
bool dt_cuda_room_waits(struct dt_cuda_room *r, size_t left, size_t total, dt_ms now);
/* Whether what others hold is worth a word. */
bool dt_cuda_room_is_shared(size_t left, size_t total);

#endif
