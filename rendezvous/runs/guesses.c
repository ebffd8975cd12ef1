/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/runs/guesses.h"

#include <string.h>

static struct dt_guesser *find(struct dt_guesses *g, const struct dt_addr *from)
{
    struct dt_addr_host h = dt_addr_host(from);
    for (struct dt_guesser *r = g->rows; r < g->rows + DT_GUESSES_HOSTS; r++)
        if (r->wrong > 0 && memcmp(&r->host, &h, sizeof h) == 0)
            return r;
    return NULL;
}

/* A free row, or that of whom least was heard lately. */
static struct dt_guesser *make_room(struct dt_guesses *g)
{
    struct dt_guesser *oldest = g->rows;
    for (struct dt_guesser *r = g->rows; r < g->rows + DT_GUESSES_HOSTS; r++) {
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
        r = make_room(g);
        *r = (struct dt_guesser){.host = dt_addr_host(from), .since = now};
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
