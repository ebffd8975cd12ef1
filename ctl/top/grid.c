/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/grid.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define GAP 2
#define CELL_MAX 256

void dt_grid_init(struct dt_grid *g, const struct dt_grid_column *columns, size_t count)
{
    *g = (struct dt_grid){.columns = columns, .count = count};
}

void dt_grid_finish(struct dt_grid *g)
{
    dt_buf_finish(&g->text);
    dt_buf_finish(&g->looks);
    g->cells = 0;
}

void dt_grid_begin_row(struct dt_grid *g, unsigned look)
{
    dt_buf_put_u8(&g->looks, (uint8_t)look);
}

/* One that is longer than its column may be ends in "~". */
void dt_grid_add(struct dt_grid *g, const char *text)
{
    char shown[CELL_MAX];
    size_t most = (size_t)g->columns[g->cells % g->count].most;
    dt_str_printable(dt_bytes_of(text), shown, sizeof shown);
    if (strlen(shown) > most)
        memcpy(shown + most - 1, "~", 2);
    dt_buf_put(&g->text, shown, strlen(shown) + 1);
    g->cells++;
}

void dt_grid_printf(struct dt_grid *g, const char *fmt, ...)
{
    char text[CELL_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dt_grid_add(g, text);
}

/* -- which columns, how wide ------------------------------------------------------------------- */

static void measure(struct dt_grid *g)
{
    const char *cell = (const char *)g->text.at;
    memset(g->widths, 0, sizeof g->widths);
    for (size_t i = 0; i < g->cells; i++, cell += strlen(cell) + 1)
        if ((int)strlen(cell) > g->widths[i % g->count])
            g->widths[i % g->count] = (int)strlen(cell);
    for (size_t i = 0; i < g->count; i++) {
        int heading = (int)strlen(g->columns[i].heading);
        if (g->widths[i] < heading && (g->widths[i] > 0 || g->columns[i].worth == 0))
            g->widths[i] = heading;
    }
}

static int whole_width(const struct dt_grid *g)
{
    int whole = -GAP;
    for (size_t i = 0; i < g->count; i++)
        if (g->widths[i])
            whole += g->widths[i] + GAP;
    return whole;
}

/* False: all that are left must stay. */
static bool leave_one_out(struct dt_grid *g)
{
    size_t least = g->count;
    for (size_t i = 0; i < g->count; i++)
        if (g->widths[i] && g->columns[i].worth &&
            (least == g->count || g->columns[i].worth < g->columns[least].worth))
            least = i;
    if (least == g->count)
        return false;
    g->widths[least] = 0;
    return true;
}

void dt_grid_fit(struct dt_grid *g, int width)
{
    if (g->text.bad || g->looks.bad)
        g->cells = 0;
    measure(g);
    while (whole_width(g) > width && leave_one_out(g))
        ;
    int over = whole_width(g) - width; /* the first column, a name, gives way then */
    if (over > 0 && g->widths[0] > over)
        g->widths[0] -= over;
}

/* -- drawing ---------------------------------------------------------------------------------- */

static int draw_cell(const struct dt_grid *g, size_t column, struct dt_picture *p, int row, int at,
                     unsigned look, const char *text)
{
    int width = g->widths[column];
    if (!width)
        return at;
    dt_picture_printf(p, row, at, look, g->columns[column].right ? "%*.*s" : "%-*.*s", width, width,
                      text);
    return at + width + GAP;
}

void dt_grid_draw_headings(const struct dt_grid *g, struct dt_picture *p, int row, unsigned look)
{
    int at = 0;
    for (size_t i = 0; i < g->count; i++)
        at = draw_cell(g, i, p, row, at, look, g->columns[i].heading);
}

void dt_grid_draw(const struct dt_grid *g, struct dt_picture *p, int row, size_t first,
                  size_t count)
{
    const char *cell = (const char *)g->text.at;
    int at = 0;
    for (size_t i = 0; i < g->cells && i / g->count < first + count;
         i++, cell += strlen(cell) + 1) {
        size_t of = i / g->count, column = i % g->count;
        if (column == 0)
            at = 0;
        if (of >= first)
            at = draw_cell(g, column, p, row + (int)(of - first), at, g->looks.at[of], cell);
    }
}
