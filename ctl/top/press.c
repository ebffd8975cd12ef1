/* SPDX-License-Identifier: Apache-2.0 */
/* What keys do. */
#include "ctl/top/inside.h"
#include "ctl/top/order.h"
#include "ctl/top/wrap.h"

#include <string.h>

#define FRAME_ROWS (DT_TOP_HEADER_ROWS + DT_TOP_FOOTER_ROWS)

static const char help[] =
    "Up, Down, k, j     choose the run or node above, below\n"
    "PgUp, PgDn         further; Home and End, g and G, to either end\n"
    "Enter              show the nodes of the chosen run\n"
    "Esc, q             back; q in the list of all runs quits\n"
    "s, r               take the next order; turn the order round\n"
    "/                  show only what has a text in its name, state, user or\n"
    "                   script; Enter keeps that, Esc shows all again\n"
    "t                  where the workers stand, as dtrun-ctl look says: those of\n"
    "                   the chosen node, or of the whole run\n"
    "l                  what the same workers print, by dtrun-ctl logs --follow, until\n"
    "                   Ctrl-C\n"
    "p                  freeze the picture, and ask for news again; runs go on\n"
    "Ctrl-L             draw everything again\n"
    "\n"
    "A column that nobody tells anything for is left out; on a narrow screen,\n"
    "those that say least are. STEP TIME is that of a node's slowest worker, GPU\n"
    "how busy its GPUs are, DISK FREE that of the fullest disk it writes to, and\n"
    "UPLOAD how long its oldest checkpoint has waited to be uploaded.\n";

const char *dt_top_text(const struct dt_top_model *m)
{
    if (m->view == DT_TOP_HELP)
        return help;
    return m->text.bad || !m->text.at ? "" : (const char *)m->text.at;
}

/* -- from view to view ------------------------------------------------------------------------- */

/* Whether TO may follow FROM. A text may come at any time, as it is awaited while keys are pressed.
 */
static const bool moves[][4] = {
    [DT_TOP_RUNS] = {[DT_TOP_RUN] = true, [DT_TOP_TEXT] = true, [DT_TOP_HELP] = true},
    [DT_TOP_RUN] = {[DT_TOP_RUNS] = true, [DT_TOP_TEXT] = true, [DT_TOP_HELP] = true},
    [DT_TOP_TEXT] = {[DT_TOP_RUNS] = true, [DT_TOP_RUN] = true, [DT_TOP_TEXT] = true},
    [DT_TOP_HELP] = {[DT_TOP_RUNS] = true, [DT_TOP_RUN] = true, [DT_TOP_TEXT] = true},
};

void dt_top_show(struct dt_top_model *m, enum dt_top_view view)
{
    if (!moves[m->view][view])
        return;
    if (m->view == DT_TOP_RUNS || m->view == DT_TOP_RUN)
        m->below = m->view;
    m->view = view; /* the only assignment but the first */
    m->typing = false;
    m->line = 0;
    if (view == DT_TOP_RUNS)
        dt_top_arrange(m);
}

/* False: this was the outermost. */
static bool go_back(struct dt_top_model *m)
{
    if (m->view == DT_TOP_TEXT || m->view == DT_TOP_HELP)
        dt_top_show(m, m->below);
    else if (m->view == DT_TOP_RUN && !*m->only)
        dt_top_show(m, DT_TOP_RUNS);
    else
        return false;
    return true;
}

static enum dt_top_wish quit(struct dt_top_model *m)
{
    return go_back(m) ? DT_TOP_NOTHING : DT_TOP_QUIT;
}

/* -- moving ----------------------------------------------------------------------------------- */

/* How far a key leads down; 0: it is none of those. */
static long distance(struct dt_key key, int page)
{
    switch (key.kind) {
    case DT_KEY_UP:
        return -1;
    case DT_KEY_DOWN:
        return 1;
    case DT_KEY_PAGE_UP:
        return -page;
    case DT_KEY_PAGE_DOWN:
        return page;
    case DT_KEY_HOME:
        return -(long)INT32_MAX;
    case DT_KEY_END:
        return INT32_MAX;
    case DT_KEY_CHARACTER:
        return key.character == 'j'   ? 1
               : key.character == 'k' ? -1
               : key.character == ' ' ? page
               : key.character == 'b' ? -page
               : key.character == 'g' ? -(long)INT32_MAX
               : key.character == 'G' ? INT32_MAX
                                      : 0;
    case DT_KEY_OTHER:
    case DT_KEY_ENTER:
    case DT_KEY_ESCAPE:
    case DT_KEY_BACKSPACE:
    case DT_KEY_REDRAW:
        break;
    }
    return 0;
}

/* AT, so far further down, and not beyond LAST. */
static size_t moved(size_t at, long by, size_t last)
{
    if (by < 0)
        return at > (size_t)-by ? at - (size_t)-by : 0;
    return last - at > (size_t)by ? at + (size_t)by : last;
}

static void move(struct dt_top_model *m, long by, int rows, int columns)
{
    if (m->view == DT_TOP_TEXT || m->view == DT_TOP_HELP) {
        size_t lines = dt_wrap_count(dt_top_text(m), columns), room = 1;
        if (rows > FRAME_ROWS)
            room = (size_t)(rows - FRAME_ROWS);
        size_t last = lines > room ? lines - room : 0;
        m->line = moved(m->line < last ? m->line : last, by, last);
    } else if (m->lists[m->view].len) {
        struct dt_top_list *l = &m->lists[m->view];
        dt_top_choose(m, m->view, moved(l->at, by, l->len - 1));
        if (m->view == DT_TOP_RUNS)
            dt_top_arrange_nodes(m);
    }
}

/* -- the lists -------------------------------------------------------------------------------- */

static void set_filter(struct dt_top_model *m, size_t len, char last)
{
    struct dt_top_list *l = &m->lists[m->view];
    if (len >= sizeof l->filter)
        return;
    if (len > 0 && last)
        l->filter[len - 1] = last;
    l->filter[len] = '\0';
    dt_top_arrange(m);
}

static void type(struct dt_top_model *m, struct dt_key key)
{
    size_t len = strlen(m->lists[m->view].filter);
    if (key.kind == DT_KEY_CHARACTER)
        set_filter(m, len + 1, key.character);
    else if (key.kind == DT_KEY_BACKSPACE && len > 0)
        set_filter(m, len - 1, '\0');
    else if (key.kind == DT_KEY_ESCAPE)
        set_filter(m, 0, '\0');
    if (key.kind == DT_KEY_ENTER || key.kind == DT_KEY_ESCAPE)
        m->typing = false;
}

static void order_next(struct dt_top_model *m)
{
    struct dt_top_list *l = &m->lists[m->view];
    size_t orders = m->view == DT_TOP_RUNS ? dt_top_run_orders() : dt_top_node_orders();
    l->order = (l->order + 1) % orders;
    l->reversed = false;
    dt_top_arrange(m);
}

static void reverse(struct dt_top_model *m)
{
    m->lists[m->view].reversed = !m->lists[m->view].reversed;
    dt_top_arrange(m);
}

static enum dt_top_wish freeze_or_go_on(struct dt_top_model *m)
{
    m->frozen = !m->frozen;
    return m->frozen ? DT_TOP_NOTHING : DT_TOP_REFRESH;
}

static enum dt_top_wish press_in_list(struct dt_top_model *m, char character)
{
    switch (character) {
    case 's':
        order_next(m);
        break;
    case 'r':
        reverse(m);
        break;
    case '/':
        m->typing = true;
        break;
    case 'p':
        return freeze_or_go_on(m);
    case 't':
        return dt_top_chosen_run(m) ? DT_TOP_LOOK : DT_TOP_NOTHING;
    case 'l':
        return dt_top_chosen_run(m) ? DT_TOP_LOG : DT_TOP_NOTHING;
    case 'h':
    case '?':
        dt_top_show(m, DT_TOP_HELP);
        break;
    default:
        break;
    }
    return DT_TOP_NOTHING;
}

/* -- all of them ------------------------------------------------------------------------------ */

static void escape(struct dt_top_model *m)
{
    bool in_list = m->view == DT_TOP_RUNS || m->view == DT_TOP_RUN;
    if (in_list && *m->lists[m->view].filter)
        set_filter(m, 0, '\0');
    else
        go_back(m);
}

enum dt_top_wish dt_top_model_press(struct dt_top_model *m, struct dt_key key, int rows,
                                    int columns)
{
    bool in_list = m->view == DT_TOP_RUNS || m->view == DT_TOP_RUN;
    int page = rows > 2 * FRAME_ROWS ? rows - 2 * FRAME_ROWS : 1;
    long by = m->typing && key.kind == DT_KEY_CHARACTER ? 0 : distance(key, page);
    if (key.kind == DT_KEY_REDRAW)
        return DT_TOP_REDRAW;
    if (by)
        move(m, by, rows, columns);
    else if (m->typing)
        type(m, key);
    else if (key.kind == DT_KEY_ESCAPE)
        escape(m);
    else if (key.kind == DT_KEY_ENTER && m->view == DT_TOP_RUNS && dt_top_chosen_run(m))
        dt_top_show(m, DT_TOP_RUN);
    else if (key.kind == DT_KEY_CHARACTER && key.character == 'q')
        return quit(m);
    else if (key.kind == DT_KEY_CHARACTER && in_list)
        return press_in_list(m, key.character);
    else if (m->view == DT_TOP_HELP)
        go_back(m);
    return DT_TOP_NOTHING;
}
