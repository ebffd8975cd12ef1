/* SPDX-License-Identifier: Apache-2.0 */
/* Characters of UTF-8, and those among them that a terminal obeys instead of showing them. Pure. */
#ifndef DT_BASE_UTF8_H
#define DT_BASE_UTF8_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* dt_utf8_len() where S begins no character of one byte. */
size_t dt_utf8_long_len(const uint8_t *s, size_t left);

/* The length of the character at S, 0 when there is none: overlong forms, surrogates and what is
 * above U+10FFFF are none (table 3-7 of the Unicode standard). LEFT is not 0. */
static inline size_t dt_utf8_len(const uint8_t *s, size_t left)
{
    return s[0] < 0x80 ? 1 : dt_utf8_long_len(s, left);
}

/* Whether all of TEXT is characters. */
bool dt_utf8_is_all(const char *text);

/* The code point of the character of N bytes at S. */
unsigned dt_utf8_code(const uint8_t *s, size_t n);

/* Whether that character is a control (U+0000 to U+001F, U+007F to U+009F, where U+009B begins
 * commands as ESC [ does) or turns the direction of what follows, so that a line reads as another.
 */
bool dt_utf8_steers(const uint8_t *s, size_t n);

/* Appends TEXT for a person's terminal: what would steer it comes as \x1b or \u009b, and so does
 * each byte that is no UTF-8. Controls that stand in KEEP stay as they are. */
void dt_utf8_put_visible(struct dt_buf *out, const char *text, const char *keep);

#endif
