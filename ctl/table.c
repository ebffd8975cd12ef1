/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/table.h"

#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS_MAX 12
#define CELL_MAX 2048

void dt_ctl_table_add(struct dt_ctl_table *t, const char *text)
{
    char shown[CELL_MAX];
    dt_str_printable(dt_bytes_of(text), shown, sizeof shown);
    dt_buf_put(&t->texts, shown, strlen(shown) + 1);
    t->cells++;
}

void dt_ctl_table_printf(struct dt_ctl_table *t, const char *fmt, ...)
{
    char text[CELL_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    dt_ctl_table_add(t, text);
}

void dt_ctl_table_put(struct dt_ctl_table *t, int indent, struct dt_buf *out)
{
    int widths[COLUMNS_MAX] = {0};
    const char *cell = (const char *)t->texts.at;
    out->bad |= t->texts.bad;
    if (t->texts.bad)
        t->cells = 0;
    for (size_t i = 0; i < t->cells; i++, cell += strlen(cell) + 1)
        if ((int)strlen(cell) > widths[i % t->columns])
            widths[i % t->columns] = (int)strlen(cell);
    cell = (const char *)t->texts.at;
    for (size_t i = 0; i < t->cells; i++, cell += strlen(cell) + 1) {
        size_t column = i % t->columns;
        if (column == 0)
            dt_buf_printf(out, "%*s", indent, "");
        if (column + 1 == t->columns)
            dt_buf_printf(out, "%s\n", cell); /* nothing to be aligned behind it */
        else
            dt_buf_printf(out, "%-*s", widths[column] + 2, cell);
    }
    dt_buf_finish(&t->texts);
    t->cells = 0;
}
