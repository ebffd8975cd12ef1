/* SPDX-License-Identifier: Apache-2.0 */
#include "base/say.h"

#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

void dt_say(const char *who, const char *text)
{
    struct dt_buf line = {0};
    dt_buf_printf(&line, "%s: ", who);
    dt_utf8_put_visible(&line, text, "");
    dt_buf_put_u8(&line, '\n');
    if (!line.bad)
        fwrite(line.at, 1, line.len, stderr);
    dt_buf_finish(&line);
}

void dt_say_lines(const char *who, const char *lines)
{
    struct dt_buf line = {0};
    for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
        n = strcspn(lines, "\n");
        dt_buf_clear(&line);
        dt_buf_put(&line, lines, n);
        if (n)
            dt_say(who, dt_buf_cstr(&line));
    }
    dt_buf_finish(&line);
}
