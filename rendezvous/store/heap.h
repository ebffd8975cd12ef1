/* SPDX-License-Identifier: Apache-2.0 */
/* Gives memory back to the system that malloc keeps: when much of a store was freed, and when the
 * holes between the buffers of peers take more than the options allow. Inside the server only.
 *
 * Buffers of mixed sizes leave holes that the next buffer does not fit into, so that bytes in use
 * within the options may need a heap that is far larger. Asking the system for each buffer would
 * leave none, and costs more than half of the throughput of large values. So traffic is counted,
 * and only when it may have made the heap too large is the process's memory looked at. */
#ifndef DT_RENDEZVOUS_STORE_HEAP_H
#define DT_RENDEZVOUS_STORE_HEAP_H

#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>

struct dt_store_heap {
    uint64_t most; /* bytes in use since memory was given back, at the most */
    dt_ms given_at;
    uint64_t own;     /* resident before any traffic */
    uint64_t growth;  /* what traffic may have added since the last look */
    uint64_t look_at; /* the growth that asks for the next look */
};

/* IN_USE bytes are in use. Does something once a second at the most, and only when that is much
 * less than it was. */
void dt_store_heap_note(struct dt_store_heap *h, uint64_t in_use, dt_ms now);

/* Up to BYTES are going to be allocated. True: dt_store_heap_look() is due. */
static inline bool dt_store_heap_grow(struct dt_store_heap *h, uint64_t bytes)
{
    h->growth += bytes;
    return h->growth >= h->look_at;
}

/* Up to ALLOWED bytes may be in use. After this, no more than a sixteenth beyond it gets resident
 * before the next look is due. */
void dt_store_heap_look(struct dt_store_heap *h, uint64_t allowed);

/* How much memory of this process is resident. False: the system does not tell. */
bool dt_store_heap_resident(uint64_t *bytes);

#endif
