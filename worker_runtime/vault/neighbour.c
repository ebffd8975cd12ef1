/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/vault/neighbour.h"

/* The host that comes behind OF in the ring; OF itself when it is the only one. */
static int next_host(const int *host, int world, int of)
{
    int first = of, next = of;
    for (int r = 0; r < world; r++) {
        if (host[r] < first)
            first = host[r];
        if (host[r] > of && (next == of || host[r] < next))
            next = host[r];
    }
    return next == of ? first : next;
}

/* The host whose next one is OF. */
static int previous_host(const int *host, int world, int of)
{
    int last = of, previous = of;
    for (int r = 0; r < world; r++) {
        if (host[r] > last)
            last = host[r];
        if (host[r] < of && (previous == of || host[r] > previous))
            previous = host[r];
    }
    return previous == of ? last : previous;
}

/* Ranks of host OF among the first N. */
static int count(const int *host, int n, int of)
{
    int found = 0;
    for (int r = 0; r < n; r++)
        found += host[r] == of;
    return found;
}

int dt_neighbour_of(const int *host, int world, int rank)
{
    int next = next_host(host, world, host[rank]);
    if (next == host[rank])
        return -1;
    int left = count(host, rank, host[rank]) % count(host, world, next);
    for (int r = 0; r < world; r++)
        if (host[r] == next && left-- == 0)
            return r;
    return -1;
}

int dt_neighbour_wards(const int *host, int world, int rank, int *wards)
{
    int of = previous_host(host, world, host[rank]), n = 0;
    int place = count(host, rank, host[rank]), places = count(host, world, host[rank]);
    if (of == host[rank])
        return 0;
    for (int r = 0, at = 0; r < world; r++)
        if (host[r] == of && at++ % places == place)
            wards[n++] = r;
    return n;
}
