/* SPDX-License-Identifier: Apache-2.0 */
#include "base/utf8.h"

#include <string.h>

size_t dt_utf8_long_len(const uint8_t *s, size_t left)
{
    uint8_t low = 0x80, high = 0xbf;
    size_t n;
    if (s[0] >= 0xc2 && s[0] <= 0xdf)
        n = 2;
    else if (s[0] >= 0xe0 && s[0] <= 0xef)
        n = 3;
    else if (s[0] >= 0xf0 && s[0] <= 0xf4)
        n = 4;
    else
        return 0;
    if (s[0] == 0xe0)
        low = 0xa0;
    else if (s[0] == 0xed)
        high = 0x9f;
    else if (s[0] == 0xf0)
        low = 0x90;
    else if (s[0] == 0xf4)
        high = 0x8f;
    if (n > left || s[1] < low || s[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

bool dt_utf8_is_all(const char *text)
{
    const uint8_t *s = (const uint8_t *)text;
    for (size_t left = strlen(text), n; left > 0; s += n, left -= n)
        if ((n = dt_utf8_len(s, left)) == 0)
            return false;
    return true;
}

unsigned dt_utf8_code(const uint8_t *s, size_t n)
{
    unsigned code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (s[i] & 0x3fu);
    return code;
}

bool dt_utf8_steers(const uint8_t *s, size_t n)
{
    unsigned c = dt_utf8_code(s, n);
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

static void put_escape(struct dt_buf *out, const uint8_t *s, size_t n)
{
    if (n > 1)
        dt_buf_printf(out, "\\u%04x", dt_utf8_code(s, n));
    else
        dt_buf_printf(out, "\\x%02x", s[0]);
}

void dt_utf8_put_visible(struct dt_buf *out, const char *text, const char *keep)
{
    const uint8_t *s = (const uint8_t *)text, *end = s + strlen(text);
    for (size_t n; s < end; s += n ? n : 1) {
        n = dt_utf8_len(s, (size_t)(end - s));
        if (n && (!dt_utf8_steers(s, n) || (n == 1 && strchr(keep, s[0]))))
            dt_buf_put(out, s, n);
        else
            put_escape(out, s, n);
    }
}
