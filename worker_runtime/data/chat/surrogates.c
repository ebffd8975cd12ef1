/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/data/chat/surrogates.h"

#include <string.h>

#define ESCAPE ((size_t)6) /* \uXXXX */

enum half { NEITHER, FIRST, SECOND };

static int digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What the escape at JSON[AT] stands for. */
static enum half half_at(struct dt_bytes json, size_t at)
{
    unsigned code = 0;
    if (at > json.len || json.len - at < ESCAPE || json.at[at] != '\\' || json.at[at + 1] != 'u')
        return NEITHER;
    for (size_t i = 2; i < ESCAPE; i++) {
        int digit = digit_of(json.at[at + i]);
        if (digit < 0)
            return NEITHER;
        code = code * 16 + (unsigned)digit;
    }
    return code >= 0xd800 && code < 0xdc00   ? FIRST
           : code >= 0xdc00 && code < 0xe000 ? SECOND
                                             : NEITHER;
}

/* The first one from FROM on that is alone; JSON.len: there is none. A backslash stands in strings
 * only, and the byte behind it belongs to it. */
static size_t next(struct dt_bytes json, size_t from)
{
    for (size_t at = from; at < json.len;) {
        const uint8_t *found = memchr(json.at + at, '\\', json.len - at);
        if (!found)
            break;
        at = (size_t)(found - json.at);
        enum half half = half_at(json, at);
        bool pair = half == FIRST && half_at(json, at + ESCAPE) == SECOND;
        if (half != NEITHER && !pair)
            return at;
        at += pair ? 2 * ESCAPE : 2;
    }
    return json.len;
}

bool dt_surrogates_are_in(struct dt_bytes json)
{
    return next(json, 0) < json.len;
}

void dt_surrogates_replace(uint8_t *json, size_t len)
{
    const struct dt_bytes all = {json, len};
    for (size_t at = 0; (at = next(all, at)) < len; at += ESCAPE)
        memcpy(json + at, "\\ufffd", ESCAPE);
}
