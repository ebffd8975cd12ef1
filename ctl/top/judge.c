/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/judge.h"

#include "ctl/commands.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct verdict {
    const char *state;
    unsigned look;
    int trouble;
};

static struct verdict judge_run(const struct dt_status_run *r)
{
    const char *state = dt_ctl_run_state(r);
    if (strcmp(r->state, "running") == 0)
        return *r->why ? (struct verdict){state, DT_LOOK_WARN, 4}
                       : (struct verdict){state, DT_LOOK_GOOD, 1};
    if (strcmp(r->state, "closed") != 0)
        return (struct verdict){state, DT_LOOK_WARN, r->paused ? 2 : 3};
    if (strcmp(state, "succeeded") == 0 || strcmp(state, "stopped") == 0)
        return (struct verdict){state, DT_LOOK_DIM, 0};
    return (struct verdict){state, DT_LOOK_BAD, 5};
}

/* The first row that is not before RUN, of rows that are sorted by run. */
static size_t first_of(const struct dt_status_node *nodes, size_t len, const char *run)
{
    size_t low = 0, high = len;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(nodes[middle].run, run) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct dt_top_run dt_top_judge_run(const struct dt_ctl_pages *p, const struct dt_status_run *row)
{
    const struct dt_status_node *nodes = p->nodes.at;
    size_t first = first_of(nodes, p->nodes.len, row->id), end = first;
    struct verdict v = judge_run(row);
    while (end < p->nodes.len && strcmp(nodes[end].run, row->id) == 0)
        end++;
    return (struct dt_top_run){
        .row = row,
        .state = v.state,
        .look = v.look,
        .trouble = v.trouble,
        .nodes = end > first ? nodes + first : NULL,
        .nodes_len = end - first,
    };
}

/* -- nodes ------------------------------------------------------------------------------------ */

static struct verdict judge_node(const struct dt_top_run *run, const struct dt_status_node *n)
{
    bool done = strcmp(n->doing, "done") == 0;
    if (done || strcmp(run->row->state, "closed") == 0)
        return (struct verdict){done ? "done" : "gone", DT_LOOK_DIM, 0};
    if (strcmp(n->state, "online") != 0)
        return (struct verdict){n->state, DT_LOOK_BAD, 5};
    if (strcmp(n->doing, "running") == 0)
        return (struct verdict){n->doing, DT_LOOK_PLAIN, 1};
    if (strcmp(n->doing, "parked") == 0)
        return (struct verdict){"spare", DT_LOOK_DIM, 2};
    return (struct verdict){n->doing, DT_LOOK_WARN, strcmp(n->doing, "stopping") == 0 ? 4 : 3};
}

static int by_seat(const void *a, const void *b)
{
    const struct dt_top_node *x = *(struct dt_top_node *const *)a,
                             *y = *(struct dt_top_node *const *)b;
    return (x->row->seat > y->row->seat) - (x->row->seat < y->row->seat);
}

/* A seat that nobody has now, as its node is gone, has as many workers as the one before. */
static void count_ranks(struct dt_top_node **seated, size_t len)
{
    int rank = 0, seat = 0, workers = len ? seated[0]->row->workers : 0;
    for (size_t i = 0; i < len; i++) {
        rank += (seated[i]->row->seat - seat) * workers;
        seated[i]->first_rank = rank;
        workers = seated[i]->row->workers;
        rank += workers;
        seat = seated[i]->row->seat + 1;
    }
}

void dt_top_judge_nodes(const struct dt_top_run *run, struct dt_top_node *nodes)
{
    struct dt_top_node **seated = calloc(run->nodes_len + 1, sizeof(struct dt_top_node *));
    size_t len = 0;
    for (size_t i = 0; i < run->nodes_len; i++) {
        struct verdict v = judge_node(run, &run->nodes[i]);
        nodes[i] = (struct dt_top_node){&run->nodes[i], v.state, v.look, v.trouble, -1};
        if (seated && nodes[i].row->seat >= 0)
            seated[len++] = &nodes[i];
    }
    if (seated)
        qsort(seated, len, sizeof *seated, by_seat);
    count_ranks(seated, len);
    free(seated);
}
