/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

/* splitmix64: one step makes even neighbouring seeds differ everywhere. */
static uint64_t chance(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

dt_ms dt_backoff_next(struct dt_backoff *b)
{
    dt_ms middle = b->next ? b->next : b->first;
    b->next = middle + middle / 2 < b->most ? middle + middle / 2 + 1 : b->most;
    dt_ms pause = middle / 2 + (dt_ms)(chance(&b->seed) % (uint64_t)(middle + 1));
    return pause > 0 ? pause : 1;
}
