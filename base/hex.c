/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hex.h"

#include <string.h>

static const char digits[] = "0123456789abcdef";

void dt_hex(const uint8_t *bytes, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

int dt_hex_value(char c)
{
    const char *digit = c ? strchr(digits, c) : NULL;
    return digit ? (int)(digit - digits) : -1;
}

bool dt_hex_read(const char *text, uint8_t *bytes, size_t len)
{
    if (strlen(text) != 2 * len)
        return false;
    for (size_t i = 0; i < len; i++) {
        int high = dt_hex_value(text[2 * i]), low = dt_hex_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}
