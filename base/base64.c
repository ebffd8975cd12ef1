/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void dt_base64_write(struct dt_buf *out, struct dt_bytes bytes)
{
    for (size_t at = 0; at < bytes.len; at += 3) {
        size_t n = bytes.len - at < 3 ? bytes.len - at : 3;
        uint32_t bits = 0;
        for (size_t i = 0; i < 3; i++)
            bits = bits << 8 | (i < n ? bytes.at[at + i] : 0);
        for (size_t i = 0; i < 4; i++)
            dt_buf_put_u8(out, i <= n ? (uint8_t)alphabet[bits >> (18 - 6 * i) & 63] : '=');
    }
}

/* -1: no digit. */
static int digit(uint8_t c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

/* Four digits, of which the last PADDING are "=" and the bits that these leave over are zero. */
static int read_four(const uint8_t *at, size_t padding, struct dt_buf *out)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int d = i < 4 - padding ? digit(at[i]) : 0;
        if (d < 0)
            return -1;
        bits = bits << 6 | (uint32_t)d;
    }
    if (bits & ((1u << 8 * padding) - 1))
        return -1;
    for (size_t i = 0; i < 3 - padding; i++)
        dt_buf_put_u8(out, (uint8_t)(bits >> (16 - 8 * i)));
    return 0;
}

int dt_base64_read(struct dt_bytes text, struct dt_buf *out, struct dt_err *err)
{
    if (text.len % 4)
        return dt_err_set(err, DT_E_PROTOCOL, "%zu characters cannot be base64", text.len);
    for (size_t at = 0; at < text.len; at += 4) {
        const uint8_t *four = text.at + at;
        bool last = at + 4 == text.len;
        size_t padding = !last || four[3] != '=' ? 0 : four[2] != '=' ? 1 : 2;
        if (read_four(four, padding, out) < 0)
            return dt_err_set(err, DT_E_PROTOCOL, "no base64 at character %zu", at);
    }
    if (out->bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for %zu bytes of base64", text.len);
    return 0;
}
