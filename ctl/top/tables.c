/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/tables.h"

#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>

#define NAME_MOST 28
#define MIB (UINT64_C(1) << 20)

/* "": unknown. */
static void add_known(struct dt_grid *g, bool known, int64_t n)
{
    if (known)
        dt_grid_printf(g, "%" PRId64, n);
    else
        dt_grid_add(g, "");
}

/* "987", "12345", "1.23M": five digits say enough of a rate. */
static void add_rate(struct dt_grid *g, int64_t n)
{
    if (n >= 10000000)
        dt_grid_printf(g, "%.1fM", (double)n / 1e6);
    else if (n >= 100000)
        dt_grid_printf(g, "%.0fk", (double)n / 1e3);
    else
        add_known(g, n > 0, n);
}

static void add_duration(struct dt_grid *g, dt_ms time)
{
    char text[32];
    dt_grid_add(g, dt_str_from_duration(time, text, sizeof text));
}

/* -- runs ------------------------------------------------------------------------------------- */

/* clang-format off */
static const struct dt_grid_column run_columns[] = {
    {"RUN",      0,  NAME_MOST, false},
    {"STATE",    0,  12, false},
    {"ROUND",    5,  8,  true},
    {"NODES",    7,  12, true},
    {"WORKERS",  6,  8,  true},
    {"STEP",     11, 20, true},
    {"LOSS",     9,  10, true},
    {"TOKENS/S", 10, 10, true},
    {"MFU",      4,  6,  true},
    {"RESTARTS", 3,  8,  true},
    {"FOR",      8,  9,  true},
    {"OWNER",    2,  20, false},
};
/* clang-format on */

/* "4", where it is as many as asked for; "3/4", "3/2-4". */
static void add_nodes(struct dt_grid *g, const struct dt_status_run *r)
{
    if (r->spec.min_nodes != r->spec.max_nodes)
        dt_grid_printf(g, "%d/%d-%d", r->nodes, r->spec.min_nodes, r->spec.max_nodes);
    else
        dt_grid_printf(g, "%d/%d", r->nodes, r->spec.max_nodes);
}

/* A server of before tells of no run's step: then its furthest node does. */
static int64_t step_of(const struct dt_top_run *run)
{
    int64_t step = run->row->step;
    for (size_t i = 0; i < run->nodes_len && run->row->step == 0; i++)
        if (run->nodes[i].round == run->row->round && run->nodes[i].step > step)
            step = run->nodes[i].step;
    return step;
}

static void add_step(struct dt_grid *g, const struct dt_top_run *run)
{
    int64_t step = step_of(run);
    if (run->row->steps > 0)
        dt_grid_printf(g, "%" PRId64 "/%" PRId64, step, run->row->steps);
    else
        add_known(g, step > 0, step);
}

static int64_t tokens_of(const struct dt_top_run *run)
{
    int64_t sum = run->row->tokens_per_s;
    for (size_t i = 0; i < run->nodes_len && run->row->tokens_per_s == 0; i++)
        sum += run->nodes[i].tokens_per_s;
    return sum;
}

static void add_run(struct dt_grid *g, const struct dt_top_run *run)
{
    const struct dt_status_run *r = run->row;
    dt_grid_begin_row(g, run->look);
    dt_grid_add(g, r->id);
    dt_grid_add(g, run->state);
    add_known(g, r->round >= 0, r->round);
    add_nodes(g, r);
    add_known(g, r->world > 0, r->world);
    add_step(g, run);
    dt_grid_add(g, r->loss);
    add_rate(g, tokens_of(run));
    if (r->mfu > 0)
        dt_grid_printf(g, "%.1f%%", (double)r->mfu / 10);
    else
        dt_grid_add(g, "");
    dt_grid_printf(g, "%d/%d", r->restarts, r->spec.max_restarts);
    add_duration(g, r->since_s * DT_SECOND);
    dt_grid_add(g, *r->spec.user ? r->spec.user : r->begun_on);
}

void dt_top_grid_of_runs(struct dt_grid *g, const struct dt_top_run *runs, size_t len)
{
    dt_grid_init(g, run_columns, sizeof run_columns / sizeof *run_columns);
    for (size_t i = 0; i < len; i++)
        add_run(g, &runs[i]);
}

/* -- nodes ------------------------------------------------------------------------------------ */

/* clang-format off */
static const struct dt_grid_column node_columns[] = {
    {"NODE",      0,  NAME_MOST, false},
    {"STATE",     0,  12, false},
    {"SEAT",      6,  6,  true},
    {"RANKS",     8,  11, true},
    {"STEP",      11, 12, true},
    {"STEP TIME", 9,  10, true},
    {"TOKENS/S",  5,  10, true},
    {"GPU",       7,  5,  true},
    {"GPU MEM",   4,  12, true},
    {"DISK FREE", 3,  10, true},
    {"UPLOAD",    2,  10, true},
    {"HEARD",     10, 9,  true},
};
/* clang-format on */

/* "3", "8-15"; of a node without a seat how many workers it has would tell little. */
static void add_ranks(struct dt_grid *g, const struct dt_top_node *n)
{
    if (n->first_rank < 0 || n->row->workers == 0)
        dt_grid_add(g, "");
    else if (n->row->workers == 1)
        dt_grid_printf(g, "%d", n->first_rank);
    else
        dt_grid_printf(g, "%d-%d", n->first_rank, n->first_rank + n->row->workers - 1);
}

static void add_gpus(struct dt_grid *g, const struct dt_status_node *r)
{
    if (r->gpus && r->gpu_busy >= 0)
        dt_grid_printf(g, "%d%%", r->gpu_busy);
    else
        dt_grid_add(g, "");
    if (r->gpus && r->gpu_mem_total_mib > 0)
        dt_grid_printf(g, "%" PRId64 "/%" PRId64 " GiB", (r->gpu_mem_mib + 512) / 1024,
                       (r->gpu_mem_total_mib + 512) / 1024);
    else
        dt_grid_add(g, "");
}

static void add_disk(struct dt_grid *g, const struct dt_status_node *r)
{
    char text[32];
    if (*r->disk)
        dt_grid_add(g, dt_str_from_size((uint64_t)r->disk_free_mib * MIB, text, sizeof text));
    else
        dt_grid_add(g, "");
}

static void add_node(struct dt_grid *g, const struct dt_top_node *n)
{
    const struct dt_status_node *r = n->row;
    dt_grid_begin_row(g, n->look);
    dt_grid_add(g, r->name);
    dt_grid_add(g, n->state);
    add_known(g, r->seat >= 0, r->seat);
    add_ranks(g, n);
    add_known(g, r->step >= 0, r->step);
    if (r->step_ms > 0)
        add_duration(g, r->step_ms);
    else
        dt_grid_add(g, "");
    add_rate(g, r->tokens_per_s);
    add_gpus(g, r);
    add_disk(g, r);
    if (r->upload_behind_s > 0)
        add_duration(g, r->upload_behind_s * DT_SECOND);
    else
        dt_grid_add(g, "");
    add_duration(g, r->beat_age_s * DT_SECOND);
}

void dt_top_grid_of_nodes(struct dt_grid *g, const struct dt_top_node *nodes, size_t len)
{
    dt_grid_init(g, node_columns, sizeof node_columns / sizeof *node_columns);
    for (size_t i = 0; i < len; i++)
        add_node(g, &nodes[i]);
}
