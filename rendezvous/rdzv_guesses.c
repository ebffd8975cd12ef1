/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/rdzv_guesses.h"

#include <netinet/in.h>
#include <string.h>

struct host {
    uint8_t bytes[sizeof((struct dt_guesser *)0)->host];
};

static struct host host_of(const struct dt_addr *a)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&a->sa;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->sa;
    struct host h = {{(uint8_t)a->sa.ss_family}};
    if (a->sa.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
        h.bytes[0] = AF_INET;
        memcpy(h.bytes + 1, &in6->sin6_addr.s6_addr[12], 4);
    } else if (a->sa.ss_family == AF_INET6) {
        memcpy(h.bytes + 1, in6->sin6_addr.s6_addr, 8);
    } else if (a->sa.ss_family == AF_INET) {
        memcpy(h.bytes + 1, &in->sin_addr, 4);
    }
    return h;
}

static struct dt_guesser *find(struct dt_guesses *g, const struct dt_addr *from)
{
    struct host h = host_of(from);
    for (struct dt_guesser *r = g->rows; r < g->rows + DT_GUESSES_ADDRESSES; r++)
        if (r->wrong > 0 && memcmp(r->host, h.bytes, sizeof r->host) == 0)
            return r;
    return NULL;
}

/* A free row, or that of whom least was heard lately. */
static struct dt_guesser *make_room(struct dt_guesses *g)
{
    struct dt_guesser *oldest = g->rows;
    for (struct dt_guesser *r = g->rows; r < g->rows + DT_GUESSES_ADDRESSES; r++) {
        if (r->wrong == 0)
            return r;
        if (r->since < oldest->since)
            oldest = r;
    }
    return oldest;
}

static void forgive(struct dt_guesser *r, dt_ms now)
{
    dt_ms times = (now - r->since) / DT_GUESSES_EVERY;
    r->wrong = times >= r->wrong ? 0 : r->wrong - (int)times;
    r->since += times * DT_GUESSES_EVERY;
}

bool dt_guesses_may_try(struct dt_guesses *g, const struct dt_addr *from, dt_ms now)
{
    struct dt_guesser *r = find(g, from);
    if (r)
        forgive(r, now);
    return !r || r->wrong < DT_GUESSES_BURST;
}

void dt_guesses_wrong(struct dt_guesses *g, const struct dt_addr *from, dt_ms now)
{
    struct dt_guesser *r = find(g, from);
    if (!r) {
        struct host h = host_of(from);
        r = make_room(g);
        *r = (struct dt_guesser){.since = now};
        memcpy(r->host, h.bytes, sizeof r->host);
    }
    if (r->wrong < DT_GUESSES_BURST)
        r->wrong++;
}

void dt_guesses_right(struct dt_guesses *g, const struct dt_addr *from)
{
    struct dt_guesser *r = find(g, from);
    if (r)
        r->wrong = 0;
}
