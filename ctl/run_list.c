/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl run list. */
#include "base/str.h"
#include "ctl/commands.h"
#include "ctl/table.h"

#include <inttypes.h>

/* "4 of 2:4", as in status. */
static void add_nodes(struct dt_ctl_table *t, const struct dt_status_run *r)
{
    if (r->spec.max_nodes == r->spec.min_nodes)
        dt_ctl_table_printf(t, "%d of %d", r->nodes, r->spec.min_nodes);
    else
        dt_ctl_table_printf(t, "%d of %d:%d", r->nodes, r->spec.min_nodes, r->spec.max_nodes);
}

static void add_run(struct dt_ctl_table *t, const struct dt_status_run *r)
{
    char time[32];
    dt_ctl_table_add(t, r->id);
    dt_ctl_table_add(t, dt_ctl_run_state(r));
    dt_ctl_table_add(t, dt_str_from_duration(r->since_s * DT_SECOND, time, sizeof time));
    add_nodes(t, r);
    if (r->step > 0)
        dt_ctl_table_printf(t, "%" PRId64, r->step);
    else
        dt_ctl_table_add(t, "-");
    dt_ctl_table_add(t, *r->spec.user ? r->spec.user : "-");
}

static void put_table(const struct dt_ctl_rows *rows, struct dt_buf *out)
{
    static const char *const headings[] = {"RUN", "STATE", "FOR", "NODES", "STEP", "USER"};
    const struct dt_status_run *runs = rows->at;
    struct dt_ctl_table t = {.columns = sizeof headings / sizeof *headings};
    for (size_t i = 0; i < t.columns; i++)
        dt_ctl_table_add(&t, headings[i]);
    for (size_t i = 0; i < rows->len; i++)
        add_run(&t, &runs[i]);
    dt_ctl_table_put(&t, 0, out);
}

static void put_json(const struct dt_ctl_rows *rows, struct dt_buf *out)
{
    dt_buf_put_u8(out, '{');
    dt_ctl_put_rows(out, "runs", dt_status_run_fields, rows, sizeof(struct dt_status_run));
    dt_buf_put_str(out, "}\n");
}

static void put_names(const struct dt_ctl_rows *rows, struct dt_buf *out)
{
    const struct dt_status_run *runs = rows->at;
    for (size_t i = 0; i < rows->len; i++)
        dt_ctl_put_name(runs[i].id, out);
}

int dt_ctl_run_list(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                    struct dt_err *err)
{
    struct dt_ctl_pages pages;
    int rc = dt_ctl_pages_fetch_runs(c, &pages, err);
    if (rc == 0 && o->json)
        put_json(&pages.runs, out);
    else if (rc == 0 && o->quiet)
        put_names(&pages.runs, out);
    else if (rc == 0 && pages.runs.len == 0)
        dt_buf_put_str(out, "no runs\n");
    else if (rc == 0)
        put_table(&pages.runs, out);
    dt_ctl_pages_finish(&pages);
    return rc;
}
