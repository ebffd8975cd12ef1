/* SPDX-License-Identifier: Apache-2.0 */
#include "base/say.h"

#include "base/utf8.h"

#include <stdio.h>

void dt_say(const char *program, const char *text)
{
    struct dt_buf line = {0};
    dt_buf_printf(&line, "%s: ", program);
    dt_utf8_put_visible(&line, text, "");
    dt_buf_put_u8(&line, '\n');
    if (!line.bad)
        fwrite(line.at, 1, line.len, stderr);
    dt_buf_finish(&line);
}
