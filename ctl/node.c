/* SPDX-License-Identifier: Apache-2.0 */
/* dtrun-ctl node: list, drain, undrain. */
#include "base/str.h"
#include "ctl/commands.h"
#include "ctl/table.h"
#include "ctl/wish.h"

#include <inttypes.h>
#include <stdio.h>

/* -- list ------------------------------------------------------------------------------------- */

static void add_number(struct dt_ctl_table *t, int64_t n)
{
    if (n < 0)
        dt_ctl_table_add(t, "-");
    else
        dt_ctl_table_printf(t, "%" PRId64, n);
}

static void add_headings(struct dt_ctl_table *t, const char *const *headings)
{
    for (size_t i = 0; i < t->columns; i++)
        dt_ctl_table_add(t, headings[i]);
}

static void put_nodes(const struct dt_ctl_pages *p, struct dt_buf *out)
{
    static const char *const headings[] = {"NAME",    "RUN",   "DOING", "STATE", "SEAT",
                                           "WORKERS", "ROUND", "STEP",  "HEARD"};
    const struct dt_status_node *nodes = p->nodes.at;
    struct dt_ctl_table t = {.columns = sizeof headings / sizeof *headings};
    if (p->nodes.len == 0) {
        dt_buf_put_str(out, "no nodes\n");
        return;
    }
    add_headings(&t, headings);
    for (const struct dt_status_node *n = nodes; n < nodes + p->nodes.len; n++) {
        char time[32];
        dt_ctl_table_add(&t, n->name);
        dt_ctl_table_add(&t, n->run);
        dt_ctl_table_add(&t, n->doing);
        dt_ctl_table_add(&t, n->state);
        add_number(&t, n->seat);
        add_number(&t, n->workers);
        add_number(&t, n->round);
        add_number(&t, n->step);
        dt_ctl_table_printf(&t, "%s ago",
                            dt_str_from_duration(n->beat_age_s * DT_SECOND, time, sizeof time));
    }
    dt_ctl_table_put(&t, 0, out);
}

static bool is_out(const struct dt_status_excluded *e)
{
    return e->drained || e->until_s > 0;
}

static void add_standing(struct dt_ctl_table *t, const struct dt_status_excluded *e)
{
    char time[32];
    if (e->drained)
        dt_ctl_table_add(t, "drained");
    else if (e->until_s > 0)
        dt_ctl_table_printf(t, "quarantined for %s",
                            dt_str_from_duration(e->until_s * DT_SECOND, time, sizeof time));
    else if (e->probation_s > 0)
        dt_ctl_table_printf(t, "on probation for %s",
                            dt_str_from_duration(e->probation_s * DT_SECOND, time, sizeof time));
    else
        dt_ctl_table_add(t, "watched");
}

void dt_ctl_put_excluded(const struct dt_ctl_pages *p, struct dt_buf *out)
{
    static const char *const headings[] = {"NAME", "STANDING", "STRIKES", "WHY"};
    const struct dt_status_excluded *nodes = p->excluded.at;
    struct dt_ctl_table t = {.columns = sizeof headings / sizeof *headings};
    size_t kept_out = 0;
    if (p->excluded.len == 0)
        return;
    for (size_t i = 0; i < p->excluded.len; i++)
        kept_out += is_out(&nodes[i]);
    dt_buf_printf(out, "kept out: %zu, watched: %zu\n", kept_out, p->excluded.len - kept_out);
    add_headings(&t, headings);
    for (const struct dt_status_excluded *e = nodes; e < nodes + p->excluded.len; e++) {
        dt_ctl_table_add(&t, e->name);
        add_standing(&t, e);
        add_number(&t, e->strikes);
        dt_ctl_table_add(&t, *e->why ? e->why : "-");
    }
    dt_ctl_table_put(&t, 2, out);
}

static void put_json(const struct dt_ctl_options *o, const struct dt_ctl_pages *p,
                     struct dt_buf *out)
{
    dt_buf_put_u8(out, '{');
    if (o->quarantined)
        dt_ctl_put_rows(out, "excluded", dt_status_excluded_fields, &p->excluded,
                        sizeof(struct dt_status_excluded));
    else
        dt_ctl_put_rows(out, "nodes", dt_status_node_fields, &p->nodes,
                        sizeof(struct dt_status_node));
    dt_buf_put_str(out, "}\n");
}

static void put_names(const struct dt_ctl_options *o, const struct dt_ctl_pages *p,
                      struct dt_buf *out)
{
    const struct dt_status_node *nodes = p->nodes.at;
    const struct dt_status_excluded *excluded = p->excluded.at;
    for (size_t i = 0; i < p->nodes.len && !o->quarantined; i++)
        dt_ctl_put_name(nodes[i].name, out);
    for (size_t i = 0; i < p->excluded.len && o->quarantined; i++)
        dt_ctl_put_name(excluded[i].name, out);
}

int dt_ctl_node_list(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                     struct dt_err *err)
{
    struct dt_ctl_pages pages;
    int rc = dt_ctl_pages_fetch(c, "", &pages, err);
    if (rc == 0 && o->json)
        put_json(o, &pages, out);
    else if (rc == 0 && o->quiet)
        put_names(o, &pages, out);
    else if (rc == 0 && !o->quarantined)
        put_nodes(&pages, out);
    else if (rc == 0 && pages.excluded.len == 0)
        dt_buf_put_str(out, "no node is kept out or watched\n");
    else if (rc == 0)
        dt_ctl_put_excluded(&pages, out);
    dt_ctl_pages_finish(&pages);
    return rc;
}

/* -- drain ------------------------------------------------------------------------------------ */

int dt_ctl_node_drain(const struct dt_ctl_options *o, struct dt_sync_control *c, struct dt_buf *out,
                      struct dt_err *err)
{
    struct dt_message answer,
        request = {
            .type = DT_MSG_DRAIN,
            .drain = {.node = o->name, .undo = o->command == DT_CTL_NODE_UNDRAIN},
            .why = o->why,
        };
    if (dt_ctl_wish(o, c, &request, &answer, err) < 0)
        return -1;
    int rc = dt_ctl_put_answer(o, "node", answer.drain.done, answer.why, out, err);
    dt_message_finish(&answer);
    return rc;
}
