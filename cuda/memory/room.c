/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/memory/room.h"

#include <stdint.h>

/* What a context and a desktop take does not count as somebody's training. */
static bool is_mostly_free(size_t left, size_t total)
{
    return left >= total / 10 * 9 || total - left < (size_t)2 << 30;
}

void dt_cuda_room_begin(struct dt_cuda_room *r, dt_ms now)
{
    *r = (struct dt_cuda_room){.begun = now, .rose = now, .most = SIZE_MAX};
}

bool dt_cuda_room_waits(struct dt_cuda_room *r, size_t left, size_t total, dt_ms now)
{
    const dt_ms longest = 10 * DT_SECOND, quiet = DT_SECOND;
    const size_t noticed = (size_t)16 << 20;
    if (is_mostly_free(left, total) || now - r->begun >= longest)
        return false;
    if (r->most == SIZE_MAX) {
        r->most = left;
    } else if (left > r->most && left - r->most >= noticed) {
        r->most = left;
        r->rose = now;
    }
    return left < total / 2 || now - r->rose < quiet;
}

bool dt_cuda_room_is_shared(size_t left, size_t total)
{
    return !is_mostly_free(left, total);
}
