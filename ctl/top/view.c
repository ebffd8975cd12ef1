/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/view.h"

#include "base/str.h"
#include "ctl/commands.h"
#include "ctl/top/inside.h"
#include "ctl/top/tables.h"
#include "ctl/top/wrap.h"

#include <stdio.h>
#include <string.h>

#define EVENTS_MOST 12 /* rows of events that a picture without an end has */
#define ROOMY 16       /* rows between header and footer from which on sections stand apart */

/* -- sections --------------------------------------------------------------------------------- */

struct section {
    int want, least; /* rows, with a heading */
    int rows;
    int row; /* where it begins */
};

enum { RUNS, VERDICT, NODES, EVENTS, SECTIONS };

/* A row for each of the first COUNT sections that wants one, again and again. */
static int give_rows(struct section *s, int count, int left)
{
    for (bool given = true; given && left > 0;) {
        given = false;
        for (int i = 0; i < count && left > 0; i++)
            if (s[i].rows > 0 && s[i].rows < s[i].want) {
                s[i].rows++;
                left--;
                given = true;
            }
    }
    return left;
}

/* First each gets its least, in their order; events get what the others leave. With ROOM for it a
 * blank row stands in front of each but the first. */
static void share_rows(struct section *s, int top, int room)
{
    int gap = room >= ROOMY, left = room;
    for (int i = 0; i < SECTIONS; i++) {
        s[i].rows = s[i].want < s[i].least ? s[i].want : s[i].least;
        left -= s[i].rows && left < room ? gap : 0;
        if (s[i].rows > left)
            s[i].rows = left > (i != VERDICT) ? left : 0; /* a heading alone says nothing */
        left -= s[i].rows;
    }
    give_rows(s, SECTIONS, give_rows(s, EVENTS, left));
    for (int i = 0, row = top; i < SECTIONS; i++) {
        row += s[i].rows && row > top ? gap : 0;
        s[i].row = row;
        row += s[i].rows;
    }
}

/* The first of LEN rows that is shown where ROOM of them fit: the chosen one is in the middle, as
 * far as there are others around. */
static size_t first_shown(size_t at, size_t len, size_t room)
{
    size_t first = at > room / 2 ? at - room / 2 : 0;
    if (len <= room)
        return 0;
    return first + room > len ? len - room : first;
}

/* The grid is at its end then. */
static void draw_table(struct dt_grid *g, const struct section *s, struct dt_picture *p,
                       const struct dt_top_list *l, bool choosing)
{
    size_t room = s->rows > 1 ? (size_t)s->rows - 1 : 0, len = g->cells / g->count;
    size_t first = first_shown(l->at, len, room);
    dt_grid_fit(g, p->columns);
    dt_grid_draw_headings(g, p, s->row, DT_LOOK_BOLD);
    dt_grid_draw(g, p, s->row + 1, first, room);
    if (choosing && len > 0 && room > 0)
        dt_picture_mark_row(p, s->row + 1 + (int)(l->at - first), DT_LOOK_REVERSE);
    dt_grid_finish(g);
}

static void draw_runs(const struct dt_top_model *m, const struct section *s, struct dt_picture *p)
{
    const struct dt_top_list *l = &m->lists[DT_TOP_RUNS];
    struct dt_grid g;
    if (s->rows == 0)
        return;
    dt_top_grid_of_runs(&g, m->runs, l->len);
    draw_table(&g, s, p, l, true);
}

static void draw_nodes(const struct dt_top_model *m, const struct section *s, struct dt_picture *p)
{
    const struct dt_top_list *l = &m->lists[DT_TOP_RUN];
    struct dt_grid g;
    if (s->rows == 0)
        return;
    dt_top_grid_of_nodes(&g, m->nodes, l->len);
    draw_table(&g, s, p, l, m->view == DT_TOP_RUN);
}

/* -- what is said of the chosen run ------------------------------------------------------------ */

/* "  compute 71%, communication 20%, data 1%, other 8%", as far as that is known. */
static void put_shares(const struct dt_status_run *r, struct dt_buf *out)
{
    if (r->compute + r->comm + r->data + r->idle == 0)
        return;
    dt_buf_printf(
        out, "  time of a step: compute %d%%, communication %d%%, data %d%%, other %d%%\n",
        (r->compute + 5) / 10, (r->comm + 5) / 10, (r->data + 5) / 10, (r->idle + 5) / 10);
}

static void put_verdict(const struct dt_top_model *m, struct dt_buf *out)
{
    const struct dt_top_run *run = dt_top_chosen_run(m);
    char shown[2 * DT_RUN_ID_MAX];
    const char *wanted = m->lists[DT_TOP_RUNS].chosen;
    if (run) {
        dt_ctl_put_run(run->row, out);
        put_shares(run->row, out);
    } else if (m->known && dt_top_place(m) == DT_TOP_RUN) {
        dt_str_printable(dt_bytes_of(wanted), shown, sizeof shown);
        dt_buf_printf(out, "the rendezvous knows no run \"%s\" now\n", shown);
    } else if (m->known) {
        dt_buf_put_str(out, m->pages.runs.len ? "no run fits the filter\n" : "no runs\n");
    }
}

/* The first line says how the run is; where there is a reason, it is the second. */
static void draw_verdict(const struct dt_top_model *m, const struct section *s, const char *text,
                         struct dt_picture *p)
{
    const struct dt_top_run *run = dt_top_chosen_run(m);
    int line = 0;
    for (int row = 0; *text && row < s->rows; row++) {
        const char *begin = text;
        size_t len = dt_wrap_row(text, p->columns, &text);
        unsigned look = line == 0                            ? DT_LOOK_BOLD
                        : line == 1 && run && *run->row->why ? run->look
                                                             : DT_LOOK_PLAIN;
        dt_picture_printf(p, s->row + row, 0, look, "%.*s", (int)len, begin);
        line += begin[len] == '\n';
    }
}

/* -- events ----------------------------------------------------------------------------------- */

/* Those of the chosen run, and those of none. */
static bool is_told(const struct dt_top_model *m, const struct dt_top_event *e)
{
    const struct dt_top_run *run = dt_top_chosen_run(m);
    return !*e->run || !run || strcmp(e->run, run->row->id) == 0;
}

static int count_events(const struct dt_top_model *m)
{
    int count = 0;
    for (size_t i = 0; i < m->events.len; i++)
        count += is_told(m, &m->events.at[i]);
    return count;
}

static unsigned look_of(const struct dt_top_event *e)
{
    return strcmp(e->weight, "error") == 0     ? DT_LOOK_BAD
           : strcmp(e->weight, "warning") == 0 ? DT_LOOK_WARN
                                               : DT_LOOK_PLAIN;
}

/* The newest at the bottom. */
static void draw_events(const struct dt_top_model *m, const struct section *s, struct dt_picture *p)
{
    int row = s->row + s->rows - 1;
    if (s->rows > 0)
        dt_picture_put(p, s->row, 0, DT_LOOK_BOLD, "EVENTS");
    for (size_t i = m->events.len; i > 0 && row > s->row; i--) {
        const struct dt_top_event *e = &m->events.at[i - 1];
        char words[2 * DT_WHY_MAX];
        if (!is_told(m, e))
            continue;
        dt_str_printable(dt_bytes_of(e->words), words, sizeof words);
        int at = dt_picture_put(p, row, 0, DT_LOOK_DIM, e->time);
        dt_picture_put(p, row, at + 1, look_of(e), words);
        row--;
    }
}

/* -- views ------------------------------------------------------------------------------------ */

static void want_rows(const struct dt_top_model *m, const char *verdict, int columns,
                      struct section *s)
{
    const struct dt_top_run *run = dt_top_chosen_run(m);
    bool has_runs = dt_top_place(m) == DT_TOP_RUNS && m->lists[DT_TOP_RUNS].len > 0;
    size_t runs = m->lists[DT_TOP_RUNS].len, nodes = m->lists[DT_TOP_RUN].len;
    int events = count_events(m), lines = (int)dt_wrap_count(verdict, columns);
    s[RUNS] = (struct section){.want = has_runs ? (int)runs + 1 : 0, .least = 4};
    s[VERDICT] = (struct section){.want = lines, .least = run && *run->row->why ? 3 : 2};
    s[NODES] = (struct section){.want = nodes ? (int)nodes + 1 : 0, .least = 4};
    s[EVENTS] = (struct section){.want = events ? events + 1 : 0, .least = 5};
}

static void draw_list(const struct dt_top_model *m, struct dt_picture *p)
{
    struct section s[SECTIONS];
    struct dt_buf verdict = {0};
    put_verdict(m, &verdict);
    want_rows(m, dt_buf_cstr(&verdict), p->columns, s);
    share_rows(s, DT_TOP_HEADER_ROWS, p->rows - DT_TOP_HEADER_ROWS - DT_TOP_FOOTER_ROWS);
    draw_runs(m, &s[RUNS], p);
    draw_verdict(m, &s[VERDICT], dt_buf_cstr(&verdict), p);
    draw_nodes(m, &s[NODES], p);
    draw_events(m, &s[EVENTS], p);
    dt_buf_finish(&verdict);
}

static void draw_text(struct dt_picture *p, const char *text, size_t first)
{
    size_t rows = dt_wrap_count(text, p->columns);
    size_t room = p->rows > DT_TOP_HEADER_ROWS + DT_TOP_FOOTER_ROWS
                      ? (size_t)p->rows - DT_TOP_HEADER_ROWS - DT_TOP_FOOTER_ROWS
                      : 1;
    size_t last = rows > room ? rows - room : 0;
    if (first > last)
        first = last;
    for (size_t row = 0; *text && row < first + room; row++) {
        const char *begin = text;
        size_t len = dt_wrap_row(text, p->columns, &text);
        if (row >= first)
            dt_picture_printf(p, DT_TOP_HEADER_ROWS + (int)(row - first), 0, DT_LOOK_PLAIN, "%.*s",
                              (int)len, begin);
    }
}

/* Nothing but what was last heard: not to be taken for what is so now. */
static void dim(struct dt_picture *p)
{
    for (int row = DT_TOP_HEADER_ROWS; row < p->rows; row++)
        dt_picture_mark_row(p, row, DT_LOOK_DIM);
}

void dt_top_draw(const struct dt_top_model *m, struct dt_picture *p)
{
    switch (m->view) {
    case DT_TOP_RUNS:
    case DT_TOP_RUN:
        draw_list(m, p);
        break;
    case DT_TOP_TEXT:
    case DT_TOP_HELP:
        draw_text(p, dt_top_text(m), m->line);
        break;
    }
    if (*m->trouble)
        dim(p);
    dt_top_draw_frame(m, p);
}

int dt_top_rows(const struct dt_top_model *m)
{
    size_t lists = m->lists[DT_TOP_RUNS].len + m->lists[DT_TOP_RUN].len;
    return DT_TOP_HEADER_ROWS + (int)lists + EVENTS_MOST + ROOMY;
}
