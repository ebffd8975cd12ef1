/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/generate/stops.h"

#include <string.h>

enum match { NO, BEGUN, WHOLE };

static enum match match(const char *stop, const uint8_t *at, size_t left)
{
    size_t len = strlen(stop);
    if (memcmp(stop, at, len < left ? len : left) != 0)
        return NO;
    return len <= left ? WHOLE : BEGUN;
}

static enum match match_any(const struct dt_stops *s, const uint8_t *at, size_t left)
{
    enum match best = NO;
    for (size_t i = 0; i < s->count && best != WHOLE; i++) {
        enum match one = match(s->at[i], at, left);
        best = one > best ? one : best;
    }
    return best;
}

size_t dt_stops_before(const struct dt_stops *s, struct dt_bytes text, bool last, bool *found)
{
    *found = false;
    for (size_t i = 0; i < text.len; i++) {
        enum match m = match_any(s, text.at + i, text.len - i);
        if (m == NO || (m == BEGUN && last))
            continue;
        *found = m == WHOLE;
        return i;
    }
    return text.len;
}
