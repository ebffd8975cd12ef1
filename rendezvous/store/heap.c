/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/store/heap.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

/* Walking malloc's lists takes time that less is not worth. */
#define MUCH (16u << 20)

static void give_back(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void dt_store_heap_note(struct dt_store_heap *h, uint64_t in_use, dt_ms now)
{
    if (in_use > h->most)
        h->most = in_use;
    uint64_t much = h->most / 8 > MUCH ? h->most / 8 : MUCH;
    if (h->most - in_use < much || now - h->given_at < DT_SECOND)
        return;
    give_back();
    h->most = in_use;
    h->given_at = now;
}

bool dt_store_heap_resident(uint64_t *bytes)
{
    char text[128];
    uint64_t pages;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    if (sscanf(text, "%*u %" SCNu64, &pages) != 1)
        return false;
    *bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

void dt_store_heap_look(struct dt_store_heap *h, uint64_t allowed)
{
    uint64_t resident, least = allowed / 16;
    bool known = dt_store_heap_resident(&resident);
    if (known && h->own == 0)
        h->own = resident;
    allowed += h->own;
    if (!known || resident + least > allowed) {
        give_back();
        known = dt_store_heap_resident(&resident);
    }
    h->growth = 0;
    h->look_at = known && resident + least < allowed ? allowed - resident : least;
}
