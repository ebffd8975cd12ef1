/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/sources.h"

#include <stdlib.h>

struct dt_store_source {
    struct dt_map_node node;
    size_t count;
    struct dt_addr_host host;
};

void dt_store_sources_init(struct dt_store_sources *s)
{
    dt_map_init(&s->all, offsetof(struct dt_store_source, host), dt_map_random_seed());
}

void dt_store_sources_finish(struct dt_store_sources *s)
{
    dt_map_finish(&s->all, free);
}

static struct dt_bytes key_of(const struct dt_addr_host *host)
{
    return (struct dt_bytes){host->bytes, sizeof host->bytes};
}

static struct dt_store_source *find_or_create(struct dt_store_sources *s, struct dt_addr_host host)
{
    struct dt_store_source *source = dt_map_find(&s->all, key_of(&host));
    if (source)
        return source;
    source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    source->host = host;
    if (dt_map_insert(&s->all, source, sizeof host.bytes) == 0)
        return source;
    free(source);
    return NULL;
}

bool dt_store_sources_enter(struct dt_store_sources *s, const struct dt_addr *addr, size_t most,
                            struct dt_store_source **source)
{
    *source = NULL;
    if (dt_addr_is_local(addr))
        return true;
    struct dt_store_source *from = find_or_create(s, dt_addr_host(addr));
    if (!from || from->count >= most)
        return false;
    from->count++;
    *source = from;
    return true;
}

void dt_store_sources_leave(struct dt_store_sources *s, struct dt_store_source *source)
{
    if (!source || --source->count > 0)
        return;
    dt_map_remove(&s->all, key_of(&source->host));
    free(source);
}
