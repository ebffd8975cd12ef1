/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/heap.h"

#include <malloc.h>

/* Walking malloc's lists takes time that less is not worth. */
#define MUCH (16u << 20)

void dt_store_heap_note(struct dt_store_heap *h, uint64_t in_use, dt_ms now)
{
    if (in_use > h->most)
        h->most = in_use;
    uint64_t much = h->most / 8 > MUCH ? h->most / 8 : MUCH;
    if (h->most - in_use < much || now - h->given_at < DT_SECOND)
        return;
#ifdef __GLIBC__
    malloc_trim(0);
#endif
    h->most = in_use;
    h->given_at = now;
}
