/* SPDX-License-Identifier: Apache-2.0 */
/* Gives memory back to the system that malloc keeps when much of a store was freed. Inside the
 * server only. */
#ifndef DT_RENDEZVOUS_STORE_HEAP_H
#define DT_RENDEZVOUS_STORE_HEAP_H

#include "base/clock.h"

#include <stdint.h>

struct dt_store_heap {
    uint64_t most; /* bytes in use since memory was given back, at the most */
    dt_ms given_at;
};

/* IN_USE bytes are in use. Does something once a second at the most, and only when that is much
 * less than it was. */
void dt_store_heap_note(struct dt_store_heap *h, uint64_t in_use, dt_ms now);

#endif
