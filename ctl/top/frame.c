/* SPDX-License-Identifier: Apache-2.0 */
/* What stands above and below each view: whom it is about, whether that answers, and keys. */
#include "base/str.h"
#include "ctl/fold.h"
#include "ctl/top/inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *plural(size_t n)
{
    return n == 1 ? "" : "s";
}

/* -- header ----------------------------------------------------------------------------------- */

/* On a narrow screen the time of the day matters more than which dtrun serves there. */
static void draw_title(const struct dt_top_model *m, struct dt_picture *p)
{
    char time[DT_CLOCK_TEXT], endpoint[256], version[64], server[128] = "";
    dt_clock_format_seconds(m->now_s, time);
    dt_str_printable(dt_bytes_of(m->endpoint), endpoint, sizeof endpoint);
    int at = dt_picture_printf(p, 0, 0, DT_LOOK_BOLD, "rendezvous %s", endpoint);
    const char *of_day = time + strcspn(time, " ") + 1;
    int day = (int)strlen(time) + 2, hours = (int)strlen(of_day) + 2;
    if (m->known)
        snprintf(server, sizeof server, " (%s, dtrun %s)",
                 strcmp(m->pages.server.host, "daemon") == 0 ? "daemon" : "agent",
                 dt_str_printable(dt_bytes_of(m->pages.server.version), version, sizeof version));
    if (at + (int)strlen(server) + hours <= p->columns)
        at = dt_picture_put(p, 0, at, DT_LOOK_PLAIN, server);
    if (at + day <= p->columns)
        dt_picture_put(p, 0, p->columns - day + 2, DT_LOOK_PLAIN, time);
    else if (at + hours <= p->columns)
        dt_picture_put(p, 0, p->columns - hours + 2, DT_LOOK_PLAIN, of_day);
}

/* "kept out: node[3-4]" */
static void draw_kept_out(const struct dt_top_model *m, struct dt_picture *p, int at)
{
    const struct dt_status_excluded *rows = m->pages.excluded.at;
    const char **names = calloc(m->pages.excluded.len + 1, sizeof *names);
    struct dt_buf folded = {0};
    size_t count = 0;
    char shown[512];
    for (size_t i = 0; names && i < m->pages.excluded.len; i++)
        if (rows[i].drained || rows[i].until_s > 0)
            names[count++] = rows[i].name;
    if (count) {
        dt_ctl_fold(names, count, &folded);
        dt_str_printable(dt_bytes_of(dt_buf_cstr(&folded)), shown, sizeof shown);
        dt_picture_printf(p, 1, at, DT_LOOK_WARN, ", kept out: %s", shown);
    }
    dt_buf_finish(&folded);
    free(names);
}

static void draw_state(const struct dt_top_model *m, struct dt_picture *p)
{
    char text[1024], time[32];
    if (*m->trouble) {
        dt_str_printable(dt_bytes_of(m->trouble), text, sizeof text);
        dt_picture_printf(
            p, 1, 0, DT_LOOK_BAD, "no answer%s%s, trying again: %s", m->known ? " for " : "",
            m->known ? dt_str_from_duration(m->silent_s * DT_SECOND, time, sizeof time) : "", text);
        return;
    }
    if (!m->known) {
        dt_picture_put(p, 1, 0, DT_LOOK_DIM, "connecting ...");
        return;
    }
    int at = 0;
    if (m->frozen)
        at = dt_picture_put(p, 1, 0, DT_LOOK_WARN, "frozen: ");
    at = dt_picture_printf(p, 1, at, DT_LOOK_PLAIN, "%zu run%s, %zu node%s", m->pages.runs.len,
                           plural(m->pages.runs.len), m->pages.nodes.len,
                           plural(m->pages.nodes.len));
    draw_kept_out(m, p, at);
}

/* -- footer ----------------------------------------------------------------------------------- */

static void draw_hints(const struct dt_top_model *m, struct dt_picture *p)
{
    static const char *const keys[] = {
        [DT_TOP_RUNS] = "h help  q quit  Enter open  t look  l log  / filter  p freeze",
        [DT_TOP_RUN] = "h help  Esc back  t look  l log  / filter  p freeze",
        [DT_TOP_TEXT] = "Esc back  Up/Down PgUp/PgDn scroll",
        [DT_TOP_HELP] = "Esc back",
    };
    bool in_list = m->view == DT_TOP_RUNS || m->view == DT_TOP_RUN;
    const struct dt_top_list *l = &m->lists[in_list ? m->view : DT_TOP_RUNS];
    int at = 0, row = p->rows - DT_TOP_FOOTER_ROWS;
    if (m->typing) {
        dt_picture_printf(p, row, 0, DT_LOOK_BOLD, "filter: %s_", l->filter);
        return;
    }
    if (in_list) {
        at = dt_picture_printf(p, row, at, DT_LOOK_DIM, "%zu of %zu  ", l->len ? l->at + 1 : 0,
                               l->len);
        at = dt_picture_printf(p, row, at, DT_LOOK_DIM, "s by %s%s  ",
                               dt_top_order_name(m->view, l->order),
                               l->reversed ? ", reversed" : "");
        if (*l->filter)
            at = dt_picture_printf(p, row, at, DT_LOOK_WARN, "only \"%s\"  ", l->filter);
    }
    dt_picture_put(p, row, at, DT_LOOK_DIM, keys[m->view]);
}

void dt_top_draw_frame(const struct dt_top_model *m, struct dt_picture *p)
{
    draw_title(m, p);
    if (m->view == DT_TOP_TEXT)
        dt_picture_put(p, 1, 0, DT_LOOK_BOLD, m->title);
    else
        draw_state(m, p);
    draw_hints(m, p);
}
