/* SPDX-License-Identifier: Apache-2.0 */
#include "base/backoff.h"

#include "base/chance.h"

dt_ms dt_backoff_next(struct dt_backoff *b)
{
    dt_ms middle = b->next ? b->next : b->first;
    b->next = middle + middle / 2 < b->most ? middle + middle / 2 + 1 : b->most;
    dt_ms pause = middle / 2 + (dt_ms)(dt_chance(&b->seed) % (uint64_t)(middle + 1));
    return pause > 0 ? pause : 1;
}
