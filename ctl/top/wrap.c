/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/top/wrap.h"

#include <string.h>

size_t dt_wrap_row(const char *text, int width, const char **next)
{
    size_t most = width > 0 ? (size_t)width : 1, line = strcspn(text, "\n"), len = most;
    if (line <= most) {
        *next = text + line + (text[line] == '\n');
        return line;
    }
    while (len > 0 && text[len] != ' ')
        len--;
    if (len == 0) { /* one word, or blanks in front of one */
        *next = text + most;
        return most;
    }
    *next = text + len + 1;
    return len;
}

size_t dt_wrap_count(const char *text, int width)
{
    size_t rows = 0;
    for (; *text; rows++)
        dt_wrap_row(text, width, &text);
    return rows;
}
