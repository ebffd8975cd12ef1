/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/picture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int dt_picture_init(struct dt_picture *p, int rows, int columns)
{
    size_t places = (size_t)rows * (size_t)columns;
    *p = (struct dt_picture){.rows = rows, .columns = columns};
    p->text = malloc(places + 1);
    p->look = calloc(places + 1, 1);
    if (!p->text || !p->look) {
        dt_picture_finish(p);
        return -1;
    }
    memset(p->text, ' ', places);
    return 0;
}

void dt_picture_finish(struct dt_picture *p)
{
    free(p->text);
    free(p->look);
    *p = (struct dt_picture){0};
}

int dt_picture_put(struct dt_picture *p, int row, int column, unsigned look, const char *text)
{
    if (row < 0 || row >= p->rows || column < 0)
        return column;
    for (; *text && column < p->columns; text++, column++) {
        size_t at = (size_t)row * (size_t)p->columns + (size_t)column;
        p->text[at] = *text;
        if (*text < 0x20 || *text > 0x7e)
            p->text[at] = '?';
        p->look[at] = (unsigned char)look;
    }
    return column;
}

int dt_picture_printf(struct dt_picture *p, int row, int column, unsigned look, const char *fmt,
                      ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dt_picture_put(p, row, column, look, text);
}

void dt_picture_mark_row(struct dt_picture *p, int row, unsigned look)
{
    for (int column = 0; row >= 0 && row < p->rows && column < p->columns; column++)
        p->look[(size_t)row * (size_t)p->columns + (size_t)column] |= (unsigned char)look;
}

/* Without blanks at its end. */
static size_t length_of(const struct dt_picture *p, int row)
{
    const char *text = p->text + (size_t)row * (size_t)p->columns;
    size_t len = (size_t)p->columns;
    while (len > 0 && text[len - 1] == ' ')
        len--;
    return len;
}

void dt_picture_put_text(const struct dt_picture *p, struct dt_buf *out)
{
    int rows = p->rows;
    while (rows > 0 && length_of(p, rows - 1) == 0)
        rows--;
    for (int row = 0; row < rows; row++) {
        dt_buf_put(out, p->text + (size_t)row * (size_t)p->columns, length_of(p, row));
        dt_buf_put_u8(out, '\n');
    }
}
