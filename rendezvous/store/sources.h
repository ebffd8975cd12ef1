/* SPDX-License-Identifier: Apache-2.0 */
/* How many connections come from each host, so that one cannot take all places. This machine's own
 * loopback addresses and unix sockets are not counted. Pure; inside the server only. */
#ifndef DT_RENDEZVOUS_STORE_SOURCES_H
#define DT_RENDEZVOUS_STORE_SOURCES_H

#include "base/addr.h"
#include "base/map.h"

struct dt_store_sources {
    struct dt_map all;
};

/* One host, while somebody is connected from there. */
struct dt_store_source;

void dt_store_sources_init(struct dt_store_sources *s);
void dt_store_sources_finish(struct dt_store_sources *s); /* nobody may be counted any more */

/* Counts one more from ADDR; *SOURCE (NULL: not counted) is for dt_store_sources_leave(). False: it
 * would be more than MOST, or there is no memory. */
bool dt_store_sources_enter(struct dt_store_sources *s, const struct dt_addr *addr, size_t most,
                            struct dt_store_source **source);
void dt_store_sources_leave(struct dt_store_sources *s, struct dt_store_source *source);

#endif
