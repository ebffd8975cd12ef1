/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/report/markup.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>

static const char *entity(uint8_t c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

/* XML has no such characters, though UTF-8 does. */
static bool is_no_character(const uint8_t *s, size_t n)
{
    unsigned code = dt_utf8_code(s, n);
    return code == 0xfffe || code == 0xffff;
}

void dt_markup_text(struct dt_buf *out, const char *text, size_t most)
{
    struct dt_buf seen = {0};
    dt_utf8_put_visible(&seen, text ? text : "", "");
    size_t left = seen.len;
    for (const uint8_t *s = seen.at; left > 0;) {
        size_t n = dt_utf8_len(s, left);
        if (n == 0)
            break; /* dt_utf8_put_visible() leaves none */
        if (seen.len - left + n > most) {
            dt_buf_put_str(out, "\xe2\x80\xa6");
            break;
        }
        const char *name = entity(*s);
        if (name)
            dt_buf_put_str(out, name);
        else if (is_no_character(s, n))
            dt_buf_put_str(out, "\xef\xbf\xbd");
        else
            dt_buf_put(out, s, n);
        s += n;
        left -= n;
    }
    out->bad = out->bad || seen.bad;
    dt_buf_finish(&seen);
}

void dt_markup_number(struct dt_buf *out, double v, int digits)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%.*f", digits, isfinite(v) && fabs(v) < 1e15 ? v : 0.0);
    if (digits > 0)
        while (text[n - 1] == '0')
            n--;
    if (text[n - 1] == '.')
        n--;
    if (n == 2 && text[0] == '-' && text[1] == '0')
        dt_buf_put_u8(out, '0');
    else
        dt_buf_put(out, text, (size_t)n);
}
