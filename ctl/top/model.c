/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/inside.h"

#include "base/utf8.h"
#include "ctl/top/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dt_top_model_init(struct dt_top_model *m, const char *endpoint, const char *only)
{
    *m = (struct dt_top_model){.endpoint = endpoint, .only = only};
    m->view = m->below = *only ? DT_TOP_RUN : DT_TOP_RUNS;
    snprintf(m->lists[DT_TOP_RUNS].chosen, DT_RUN_ID_MAX, "%s", only);
}

void dt_top_model_finish(struct dt_top_model *m)
{
    dt_ctl_pages_finish(&m->pages);
    dt_top_events_finish(&m->events);
    dt_buf_finish(&m->text);
    free(m->runs);
    free(m->nodes);
    *m = (struct dt_top_model){0};
}

const struct dt_top_run *dt_top_chosen_run(const struct dt_top_model *m)
{
    const struct dt_top_list *l = &m->lists[DT_TOP_RUNS];
    return l->at < l->len ? &m->runs[l->at] : NULL;
}

static const struct dt_top_node *chosen_node(const struct dt_top_model *m)
{
    const struct dt_top_list *l = &m->lists[DT_TOP_RUN];
    return l->at < l->len ? &m->nodes[l->at] : NULL;
}

size_t dt_top_ranks(const struct dt_top_model *m, struct dt_rank_range *range)
{
    const struct dt_top_node *n = chosen_node(m);
    if (dt_top_place(m) != DT_TOP_RUN || !n || n->first_rank < 0 || n->row->workers == 0)
        return 0;
    *range = (struct dt_rank_range){n->first_rank, n->first_rank + n->row->workers - 1};
    return 1;
}

const char *dt_top_order_name(enum dt_top_view view, size_t order)
{
    return view == DT_TOP_RUNS ? dt_top_run_order(order) : dt_top_node_order(order);
}

enum dt_top_view dt_top_place(const struct dt_top_model *m)
{
    return m->view == DT_TOP_RUNS || m->view == DT_TOP_RUN ? m->view : m->below;
}

/* -- what is shown, and which of it is chosen -------------------------------------------------- */

static const char *name_at(const struct dt_top_model *m, enum dt_top_view list, size_t at)
{
    return list == DT_TOP_RUNS ? m->runs[at].row->id : m->nodes[at].row->name;
}

void dt_top_choose(struct dt_top_model *m, enum dt_top_view list, size_t at)
{
    struct dt_top_list *l = &m->lists[list];
    if (at >= l->len)
        at = l->len ? l->len - 1 : 0;
    l->at = at;
    if (l->len)
        snprintf(l->chosen, sizeof l->chosen, "%s", name_at(m, list, at));
}

/* The same one as before. Where that is gone, the one that stands in its place now; but who looks
 * into a run sees no other one in its place. */
static void choose_again(struct dt_top_model *m, enum dt_top_view list)
{
    struct dt_top_list *l = &m->lists[list];
    size_t at = 0;
    while (at < l->len && strcmp(name_at(m, list, at), l->chosen) != 0)
        at++;
    if (at == l->len && list == DT_TOP_RUNS && dt_top_place(m) == DT_TOP_RUN)
        l->at = at;
    else
        dt_top_choose(m, list, at < l->len ? at : l->at);
}

/* The run that is open is there whatever the filter says. */
static bool is_wanted(const struct dt_top_model *m, const struct dt_top_run *run)
{
    const struct dt_top_list *l = &m->lists[DT_TOP_RUNS];
    return dt_top_run_fits(run, l->filter) ||
           (dt_top_place(m) == DT_TOP_RUN && strcmp(run->row->id, l->chosen) == 0);
}

static void arrange_runs(struct dt_top_model *m)
{
    const struct dt_status_run *rows = m->pages.runs.at;
    struct dt_top_list *l = &m->lists[DT_TOP_RUNS];
    free(m->runs);
    m->runs = calloc(m->pages.runs.len + 1, sizeof *m->runs);
    l->len = 0;
    for (size_t i = 0; m->runs && i < m->pages.runs.len; i++) {
        m->runs[l->len] = dt_top_judge_run(&m->pages, &rows[i]);
        l->len += is_wanted(m, &m->runs[l->len]);
    }
    dt_top_sort_runs(m->runs, l->len, l->order, l->reversed);
    choose_again(m, DT_TOP_RUNS);
}

void dt_top_arrange_nodes(struct dt_top_model *m)
{
    const struct dt_top_run *run = dt_top_chosen_run(m);
    struct dt_top_list *l = &m->lists[DT_TOP_RUN];
    size_t all = run ? run->nodes_len : 0;
    free(m->nodes);
    m->nodes = calloc(all + 1, sizeof *m->nodes);
    l->len = 0;
    if (m->nodes && run)
        dt_top_judge_nodes(run, m->nodes);
    for (size_t i = 0; m->nodes && i < all; i++)
        if (dt_top_node_fits(&m->nodes[i], l->filter))
            m->nodes[l->len++] = m->nodes[i];
    dt_top_sort_nodes(m->nodes, l->len, l->order, l->reversed);
    choose_again(m, DT_TOP_RUN);
}

void dt_top_arrange(struct dt_top_model *m)
{
    arrange_runs(m);
    dt_top_arrange_nodes(m);
}

/* -- news ------------------------------------------------------------------------------------- */

void dt_top_model_hear(struct dt_top_model *m, struct dt_ctl_pages *pages,
                       struct dt_top_events *events, bool anew)
{
    dt_ctl_pages_finish(&m->pages);
    m->pages = *pages;
    *pages = (struct dt_ctl_pages){0};
    if (anew)
        dt_top_events_finish(&m->events);
    dt_top_events_append(&m->events, events);
    m->known = true;
    *m->trouble = '\0';
    m->silent_s = 0;
    dt_top_arrange(m);
}

void dt_top_model_miss(struct dt_top_model *m, const char *why)
{
    snprintf(m->trouble, sizeof m->trouble, "%s", why);
}

void dt_top_model_show_text(struct dt_top_model *m, const char *title, const char *text)
{
    if (title)
        snprintf(m->title, sizeof m->title, "%s", title);
    dt_buf_clear(&m->text);
    dt_utf8_put_visible(&m->text, text, "\n");
    dt_buf_cstr(&m->text); /* a NUL behind it */
    dt_top_show(m, DT_TOP_TEXT);
}
