/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store_sources.h"

#include <netinet/in.h>
#include <stdlib.h>

#define PREFIX_V6 8

struct dt_store_source {
    struct dt_map_node node;
    size_t count;
    uint8_t key[PREFIX_V6];
};

void dt_store_sources_init(struct dt_store_sources *s)
{
    dt_map_init(&s->all, offsetof(struct dt_store_source, key), dt_map_random_seed());
}

void dt_store_sources_finish(struct dt_store_sources *s)
{
    dt_map_finish(&s->all, free);
}

/* The bytes that tell a host; none for those that are not counted. */
static struct dt_bytes key_of(const struct dt_addr *addr)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&addr->sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&addr->sa;
    struct dt_bytes none = {0};
    if (addr->sa.ss_family == AF_INET) {
        const uint8_t *v4 = (const uint8_t *)&in->sin_addr;
        return v4[0] == 127 ? none : (struct dt_bytes){v4, 4};
    }
    if (addr->sa.ss_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr))
        return none;
    const uint8_t *v6 = in6->sin6_addr.s6_addr;
    if (!IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
        return (struct dt_bytes){v6, PREFIX_V6};
    return v6[12] == 127 ? none : (struct dt_bytes){v6 + 12, 4};
}

static struct dt_store_source *find_or_create(struct dt_store_sources *s, struct dt_bytes key)
{
    struct dt_store_source *source = dt_map_find(&s->all, key);
    if (source)
        return source;
    source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    dt_bytes_copy(source->key, key);
    if (dt_map_insert(&s->all, source, (uint32_t)key.len) == 0)
        return source;
    free(source);
    return NULL;
}

bool dt_store_sources_enter(struct dt_store_sources *s, const struct dt_addr *addr, size_t most,
                            struct dt_store_source **source)
{
    struct dt_bytes key = key_of(addr);
    *source = NULL;
    if (key.len == 0)
        return true;
    struct dt_store_source *from = find_or_create(s, key);
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
    dt_map_remove(&s->all, (struct dt_bytes){source->key, source->node.key_len});
    free(source);
}
