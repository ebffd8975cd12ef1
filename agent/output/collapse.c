/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/collapse.h"

#include "base/list.h"

#include <stdint.h>
#include <stdlib.h>

#define MOST_HELD 256 /* each new line is compared with them */

struct held {
    struct dt_node in_list;
    dt_ms since;
    uint64_t number; /* of all lines ever held */
    size_t len;
    size_t count;
    int *ranks;
    uint8_t line[];
};

struct dt_collapse {
    int ranks;
    dt_ms moment;
    struct dt_list held; /* oldest first */
    size_t held_count;
    uint64_t numbers;
    uint64_t last[]; /* of each rank, the number of its last line */
};

struct dt_collapse *dt_collapse_create(int ranks, dt_ms moment)
{
    struct dt_collapse *c = calloc(1, sizeof *c + (size_t)ranks * sizeof c->last[0]);
    if (!c)
        return NULL;
    c->ranks = ranks;
    c->moment = moment;
    dt_list_init(&c->held);
    return c;
}

static struct held *first(const struct dt_collapse *c)
{
    struct dt_node *n = dt_list_first(&c->held);
    return n ? dt_container_of(n, struct held, in_list) : NULL;
}

static void drop(struct dt_collapse *c, struct held *h)
{
    dt_list_remove(&h->in_list);
    c->held_count--;
    free(h->ranks);
    free(h);
}

static void pass(struct dt_collapse *c, struct held *h, dt_collapse_fn *fn, void *arg)
{
    fn(arg, (struct dt_bytes){h->line, h->len}, h->ranks, h->count);
    drop(c, h);
}

dt_ms dt_collapse_due(const struct dt_collapse *c)
{
    const struct held *h = first(c);
    if (!h)
        return DT_FOREVER;
    return h->count == (size_t)c->ranks ? h->since : dt_clock_after(h->since, c->moment);
}

void dt_collapse_pass_due(struct dt_collapse *c, dt_ms now, dt_collapse_fn *fn, void *arg)
{
    while (!dt_list_empty(&c->held) && dt_collapse_due(c) <= now)
        pass(c, first(c), fn, arg);
}

void dt_collapse_pass_all(struct dt_collapse *c, dt_collapse_fn *fn, void *arg)
{
    while (!dt_list_empty(&c->held))
        pass(c, first(c), fn, arg);
}

static struct held *hold(struct dt_collapse *c, struct dt_bytes line, dt_ms now)
{
    struct held *h = calloc(1, sizeof *h + line.len);
    if (!h || !(h->ranks = calloc((size_t)c->ranks, sizeof *h->ranks))) {
        free(h);
        return NULL;
    }
    h->since = now;
    h->number = ++c->numbers;
    h->len = line.len;
    dt_bytes_copy(h->line, line);
    dt_list_append(&c->held, &h->in_list);
    c->held_count++;
    return h;
}

/* Only behind the rank's last line: else two of its lines would change places. */
static struct held *find(struct dt_collapse *c, int rank, struct dt_bytes line)
{
    dt_list_each(&c->held, n)
    {
        struct held *h = dt_container_of(n, struct held, in_list);
        if (h->number > c->last[rank] && dt_bytes_equal(line, (struct dt_bytes){h->line, h->len}))
            return h;
    }
    return NULL;
}

static void add_rank(struct held *h, int rank)
{
    size_t i = h->count++;
    for (; i > 0 && h->ranks[i - 1] > rank; i--)
        h->ranks[i] = h->ranks[i - 1];
    h->ranks[i] = rank;
}

void dt_collapse_put(struct dt_collapse *c, int rank, struct dt_bytes line, dt_ms now,
                     dt_collapse_fn *fn, void *arg)
{
    dt_collapse_pass_due(c, now, fn, arg);
    struct held *h = find(c, rank, line);
    if (!h && c->held_count == MOST_HELD)
        dt_collapse_pass_all(c, fn, arg);
    if (!h && !(h = hold(c, line, now))) {
        dt_collapse_pass_all(c, fn, arg);
        fn(arg, line, &rank, 1);
        return;
    }
    add_rank(h, rank);
    c->last[rank] = h->number;
    dt_collapse_pass_due(c, now, fn, arg);
}

void dt_collapse_destroy(struct dt_collapse *c)
{
    if (!c)
        return;
    while (!dt_list_empty(&c->held))
        drop(c, first(c));
    free(c);
}
