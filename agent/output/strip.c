/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/strip.h"

#include <stdbool.h>
#include <string.h>

#define ESC 0x1b
#define BEL 0x07

static int after_escape(uint8_t c)
{
    if (c == '[')
        return DT_STRIP_CONTROL;
    if (c == ']' || c == 'P' || c == 'X' || c == '^' || c == '_')
        return DT_STRIP_STRING;
    return c >= 0x20 && c < 0x30 ? DT_STRIP_ESCAPE : DT_STRIP_TEXT;
}

static int after_string_byte(uint8_t c)
{
    if (c == ESC)
        return DT_STRIP_STRING_END;
    return c == BEL ? DT_STRIP_TEXT : DT_STRIP_STRING;
}

/* True: the byte is text. The end of a line ends a code too: one that was cut off by a crash, or
 * was never one, takes no more than its line along. */
static bool step(struct dt_strip *s, uint8_t c)
{
    if (c == '\n' || c == '\r') {
        s->state = DT_STRIP_TEXT;
        return true;
    }
    switch (s->state) {
    case DT_STRIP_TEXT:
        if (c != ESC)
            return true;
        s->state = DT_STRIP_ESCAPE;
        break;
    case DT_STRIP_ESCAPE:
        s->state = after_escape(c);
        break;
    case DT_STRIP_CONTROL:
        if (c >= 0x40 && c < 0x7f)
            s->state = DT_STRIP_TEXT;
        break;
    case DT_STRIP_STRING:
        s->state = after_string_byte(c);
        break;
    case DT_STRIP_STRING_END:
        s->state = c == '\\' ? DT_STRIP_TEXT : after_string_byte(c);
        break;
    }
    return false;
}

size_t dt_strip(struct dt_strip *s, uint8_t *bytes, size_t len)
{
    if (s->state == DT_STRIP_TEXT && !memchr(bytes, ESC, len))
        return len;
    size_t left = 0;
    for (size_t i = 0; i < len; i++)
        if (step(s, bytes[i]))
            bytes[left++] = bytes[i];
    return left;
}
