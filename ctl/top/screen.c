/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/screen.h"

#include <string.h>

#define CLEAR "\033[H\033[2J"
#define ERASE_REST "\033[K"
#define PLAIN "\033[m"

static void put_look(unsigned look, bool colours, struct dt_buf *out)
{
    static const struct {
        unsigned look;
        const char *code;
        bool is_colour;
    } codes[] = {
        {DT_LOOK_BOLD, ";1", false}, {DT_LOOK_DIM, ";2", false},  {DT_LOOK_REVERSE, ";7", false},
        {DT_LOOK_GOOD, ";32", true}, {DT_LOOK_WARN, ";33", true}, {DT_LOOK_BAD, ";31", true},
    };
    dt_buf_put_str(out, "\033[0");
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (look & codes[i].look && (colours || !codes[i].is_colour))
            dt_buf_put_str(out, codes[i].code);
    dt_buf_put_u8(out, 'm');
}

static void put_row(const struct dt_picture *p, int row, bool colours, struct dt_buf *out)
{
    const char *text = p->text + (size_t)row * (size_t)p->columns;
    const unsigned char *look = p->look + (size_t)row * (size_t)p->columns;
    int len = p->columns;
    unsigned current = DT_LOOK_PLAIN;
    while (len > 0 && text[len - 1] == ' ' && !(look[len - 1] & DT_LOOK_REVERSE))
        len--;
    dt_buf_printf(out, "\033[%d;1H", row + 1);
    for (int i = 0; i < len; i++) {
        if (look[i] != current)
            put_look(current = look[i], colours, out);
        dt_buf_put_u8(out, (uint8_t)text[i]);
    }
    if (current != DT_LOOK_PLAIN)
        dt_buf_put_str(out, PLAIN);
    if (len < p->columns) /* behind the last column it would erase what stands in that */
        dt_buf_put_str(out, ERASE_REST);
}

static bool is_same_row(const struct dt_picture *a, const struct dt_picture *b, int row)
{
    size_t at = (size_t)row * (size_t)a->columns, len = (size_t)a->columns;
    return memcmp(a->text + at, b->text + at, len) == 0 &&
           memcmp(a->look + at, b->look + at, len) == 0;
}

void dt_screen_put(const struct dt_picture *shown, const struct dt_picture *next, bool colours,
                   struct dt_buf *out)
{
    bool anew = shown->rows != next->rows || shown->columns != next->columns;
    if (anew)
        dt_buf_put_str(out, PLAIN CLEAR);
    for (int row = 0; row < next->rows; row++)
        if (anew || !is_same_row(shown, next, row))
            put_row(next, row, colours, out);
}
