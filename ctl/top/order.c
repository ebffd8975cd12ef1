/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/order.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* What an order goes by: the largest comes first. */
typedef int64_t value_fn(const void *row);

struct order {
    const char *name;
    value_fn *value; /* NULL: by name */
};

struct direction {
    value_fn *value;
    bool reversed;
};

/* -- runs ------------------------------------------------------------------------------------- */

static int64_t run_trouble(const void *r)
{
    return ((const struct dt_top_run *)r)->trouble;
}

static int64_t run_step(const void *r)
{
    return ((const struct dt_top_run *)r)->row->step;
}

static int64_t run_tokens(const void *r)
{
    return ((const struct dt_top_run *)r)->row->tokens_per_s;
}

static int64_t run_world(const void *r)
{
    return ((const struct dt_top_run *)r)->row->world;
}

static int64_t run_restarts(const void *r)
{
    return ((const struct dt_top_run *)r)->row->restarts;
}

static int64_t run_age(const void *r)
{
    return ((const struct dt_top_run *)r)->row->since_s;
}

static const struct order run_orders[] = {
    {"name", NULL},           {"trouble", run_trouble}, {"step", run_step},
    {"tokens/s", run_tokens}, {"workers", run_world},   {"restarts", run_restarts},
    {"time", run_age},
};

/* -- nodes ------------------------------------------------------------------------------------ */

/* Those without a seat come last. */
static int64_t node_seat(const void *n)
{
    int seat = ((const struct dt_top_node *)n)->row->seat;
    return seat < 0 ? INT64_MIN : -(int64_t)seat;
}

static int64_t node_trouble(const void *n)
{
    return ((const struct dt_top_node *)n)->trouble;
}

static int64_t node_step(const void *n)
{
    return ((const struct dt_top_node *)n)->row->step;
}

static int64_t node_step_ms(const void *n)
{
    return ((const struct dt_top_node *)n)->row->step_ms;
}

static int64_t node_gpu(const void *n)
{
    const struct dt_status_node *row = ((const struct dt_top_node *)n)->row;
    return row->gpus ? row->gpu_busy : -1;
}

static int64_t node_heard(const void *n)
{
    return ((const struct dt_top_node *)n)->row->beat_age_s;
}

static const struct order node_orders[] = {
    {"seat", node_seat},         {"name", NULL},    {"trouble", node_trouble}, {"step", node_step},
    {"step time", node_step_ms}, {"GPU", node_gpu}, {"heard", node_heard},
};

#define COUNT(of) (sizeof(of) / sizeof *(of))

size_t dt_top_run_orders(void)
{
    return COUNT(run_orders);
}

size_t dt_top_node_orders(void)
{
    return COUNT(node_orders);
}

const char *dt_top_run_order(size_t order)
{
    return run_orders[order].name;
}

const char *dt_top_node_order(size_t order)
{
    return node_orders[order].name;
}

/* -- sorting ---------------------------------------------------------------------------------- */

/* By what D says; then NAMES, which is how their names compare. */
static int compare(const void *a, const void *b, const struct direction *d, int names)
{
    int64_t x = d->value ? d->value(a) : 0, y = d->value ? d->value(b) : 0;
    int order = d->value ? (x < y) - (x > y) : names;
    if (order)
        return d->reversed ? -order : order;
    return names;
}

static int compare_runs(const void *a, const void *b, void *direction)
{
    const struct dt_top_run *x = a, *y = b;
    return compare(a, b, direction, strverscmp(x->row->id, y->row->id));
}

static int compare_nodes(const void *a, const void *b, void *direction)
{
    const struct dt_top_node *x = a, *y = b;
    return compare(a, b, direction, strverscmp(x->row->name, y->row->name));
}

void dt_top_sort_runs(struct dt_top_run *runs, size_t len, size_t order, bool reversed)
{
    struct direction d = {run_orders[order].value, reversed};
    if (len)
        qsort_r(runs, len, sizeof *runs, compare_runs, &d);
}

void dt_top_sort_nodes(struct dt_top_node *nodes, size_t len, size_t order, bool reversed)
{
    struct direction d = {node_orders[order].value, reversed};
    if (len)
        qsort_r(nodes, len, sizeof *nodes, compare_nodes, &d);
}

/* -- the filter ------------------------------------------------------------------------------- */

bool dt_top_run_fits(const struct dt_top_run *run, const char *filter)
{
    const struct dt_status_run *r = run->row;
    return strcasestr(r->id, filter) || strcasestr(run->state, filter) ||
           strcasestr(r->spec.user, filter) || strcasestr(r->spec.script, filter);
}

bool dt_top_node_fits(const struct dt_top_node *node, const char *filter)
{
    return strcasestr(node->row->name, filter) || strcasestr(node->state, filter);
}
