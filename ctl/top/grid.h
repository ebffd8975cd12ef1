/* SPDX-License-Identifier: Apache-2.0 */
/* A table that fits the screen: columns that say nothing are left out, and where the screen is too
 * narrow, those that say least. Pure. */
#ifndef DT_CTL_TOP_GRID_H
#define DT_CTL_TOP_GRID_H

#include "base/buf.h"
#include "ctl/top/picture.h"

#include <stdbool.h>
#include <stddef.h>

#define DT_GRID_COLUMNS_MAX 20

struct dt_grid_column {
    const char *heading;
    int worth;  /* that of the least worth is left out first; 0: it never is */
    int most;   /* characters of a cell; a longer one is cut */
    bool right; /* numbers */
};

struct dt_grid {
    const struct dt_grid_column *columns;
    size_t count;                    /* of columns */
    size_t cells;                    /* so far, row by row */
    struct dt_buf text;              /* of all cells, each with its NUL */
    struct dt_buf looks;             /* a byte for each row: enum dt_look */
    int widths[DT_GRID_COLUMNS_MAX]; /* 0: left out */
};

/* To be finished. */
void dt_grid_init(struct dt_grid *g, const struct dt_grid_column *columns, size_t count);
void dt_grid_finish(struct dt_grid *g);

/* Its cells come next. */
void dt_grid_begin_row(struct dt_grid *g, unsigned look);
/* The next cell. "": not known. What a terminal might obey becomes \xNN. */
void dt_grid_add(struct dt_grid *g, const char *text);
void dt_grid_printf(struct dt_grid *g, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Chooses the columns, when all cells are there. */
void dt_grid_fit(struct dt_grid *g, int width);

void dt_grid_draw_headings(const struct dt_grid *g, struct dt_picture *p, int row, unsigned look);
/* COUNT of its rows from FIRST on, the first of them at ROW of the picture. */
void dt_grid_draw(const struct dt_grid *g, struct dt_picture *p, int row, size_t first,
                  size_t count);

#endif
