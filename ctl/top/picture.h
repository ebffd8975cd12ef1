/* SPDX-License-Identifier: Apache-2.0 */
/* What a screen shows: characters in rows and columns, and how each looks. All of it is printable
 * ASCII, whatever was put there, so that no name can steer a terminal. Pure. */
#ifndef DT_CTL_TOP_PICTURE_H
#define DT_CTL_TOP_PICTURE_H

#include "base/buf.h"

#include <stdbool.h>

/* Bits; at most one of the colours. */
enum dt_look {
    DT_LOOK_PLAIN = 0,
    DT_LOOK_BOLD = 1,
    DT_LOOK_DIM = 2,
    DT_LOOK_REVERSE = 4,
    DT_LOOK_GOOD = 8,  /* green */
    DT_LOOK_WARN = 16, /* yellow */
    DT_LOOK_BAD = 32,  /* red */
};

struct dt_picture {
    int rows, columns;
    char *text;          /* rows * columns characters, without NUL */
    unsigned char *look; /* enum dt_look, of each */
};

/* Blank. -1: no memory; the picture has no rows then. */
int dt_picture_init(struct dt_picture *p, int rows, int columns);
void dt_picture_finish(struct dt_picture *p);

/* Puts TEXT there, as far as the row goes. Returns the column behind it. */
int dt_picture_put(struct dt_picture *p, int row, int column, unsigned look, const char *text);
int dt_picture_printf(struct dt_picture *p, int row, int column, unsigned look, const char *fmt,
                      ...) __attribute__((format(printf, 5, 6)));

/* Adds LOOK to each place of the row. */
void dt_picture_mark_row(struct dt_picture *p, int row, unsigned look);

/* Appends its rows as lines of plain text: without blanks at their ends, and without rows at the
 * end that are blank. */
void dt_picture_put_text(const struct dt_picture *p, struct dt_buf *out);

#endif
