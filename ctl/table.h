/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of text in columns as wide as they must be. Pure. */
#ifndef DT_CTL_TABLE_H
#define DT_CTL_TABLE_H

#include "base/buf.h"

#include <stddef.h>

struct dt_ctl_table {
    size_t columns;
    size_t cells;        /* so far; the first COLUMNS are headings */
    struct dt_buf texts; /* of all cells, each with its NUL */
};

/* The next cell, row by row. What a terminal might obey is shown as \xNN. */
void dt_ctl_table_add(struct dt_ctl_table *t, const char *text);
void dt_ctl_table_printf(struct dt_ctl_table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends its lines, INDENT spaces in, and empties it. */
void dt_ctl_table_put(struct dt_ctl_table *t, int indent, struct dt_buf *out);

#endif
