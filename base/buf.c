/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dt_buf_finish(struct dt_buf *b)
{
    free(b->base);
    *b = (struct dt_buf){0};
}

void dt_buf_clear(struct dt_buf *b)
{
    b->at = b->base;
    b->len = 0;
}

size_t dt_buf_free_room(const struct dt_buf *b)
{
    return b->base ? b->size - (size_t)(b->at - b->base) - b->len : 0;
}

static void compact(struct dt_buf *b)
{
    if (b->at != b->base && b->len)
        memmove(b->base, b->at, b->len);
    b->at = b->base;
}

static int resize(struct dt_buf *b, size_t size)
{
    uint8_t *base = realloc(b->base, size);
    if (!base)
        return -1;
    b->base = b->at = base;
    b->size = size;
    return 0;
}

static int grow(struct dt_buf *b, size_t need)
{
    size_t size = b->size ? b->size : 256;
    while (size < need) {
        if (size > SIZE_MAX / 2)
            return -1;
        size *= 2;
    }
    return resize(b, size);
}

int dt_buf_resize(struct dt_buf *b, size_t size)
{
    compact(b);
    if (size < b->len)
        size = b->len;
    return size == b->size || resize(b, size) == 0 ? 0 : -1;
}

void dt_buf_trim(struct dt_buf *b)
{
    if (b->len == 0)
        dt_buf_finish(b);
    else
        dt_buf_resize(b, b->len); /* what a failure keeps is no harm */
}

uint8_t *dt_buf_room(struct dt_buf *b, size_t n)
{
    if (b->bad)
        return NULL;
    if (dt_buf_free_room(b) < n) {
        compact(b);
        /* n > SIZE_MAX - len cannot be: no buffer of ours comes near; still, never wrap. */
        if (n > SIZE_MAX - b->len || (b->size - b->len < n && grow(b, b->len + n) < 0)) {
            b->bad = true;
            return NULL;
        }
    }
    return b->at + b->len;
}

void dt_buf_grew(struct dt_buf *b, size_t n)
{
    b->len += n;
}

void dt_buf_consume(struct dt_buf *b, size_t n)
{
    if (n == 0)
        return; /* `at` may be NULL */
    b->at += n;
    b->len -= n;
    if (b->len == 0)
        b->at = b->base;
}

void dt_buf_put(struct dt_buf *b, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    uint8_t *to = dt_buf_room(b, n);
    if (!to)
        return;
    memcpy(to, bytes, n);
    b->len += n;
}

void dt_buf_put_u8(struct dt_buf *b, uint8_t v)
{
    dt_buf_put(b, &v, sizeof v);
}

void dt_buf_put_u32(struct dt_buf *b, uint32_t v)
{
    v = htole32(v);
    dt_buf_put(b, &v, sizeof v);
}

void dt_buf_set_u32(struct dt_buf *b, size_t at, uint32_t v)
{
    v = htole32(v);
    if (!b->bad)
        memcpy(b->at + at, &v, sizeof v);
}

void dt_buf_put_u64(struct dt_buf *b, uint64_t v)
{
    v = htole64(v);
    dt_buf_put(b, &v, sizeof v);
}

void dt_buf_put_i64(struct dt_buf *b, int64_t v)
{
    dt_buf_put_u64(b, (uint64_t)v);
}

void dt_buf_put_str(struct dt_buf *b, const char *s)
{
    dt_buf_put(b, s, strlen(s));
}

void dt_buf_put_text(struct dt_buf *b, const char *s)
{
    size_t len = strlen(s);
    dt_buf_put_u32(b, (uint32_t)len);
    dt_buf_put(b, s, len);
}

void dt_buf_vprintf(struct dt_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    /* Mostly there is room already, and formatting is what costs. */
    size_t room = b->bad ? 0 : dt_buf_free_room(b);
    int n = vsnprintf(room ? (char *)b->at + b->len : NULL, room, fmt, ap);
    uint8_t *to = n < 0 ? NULL : dt_buf_room(b, (size_t)n + 1);
    if (to) {
        if ((size_t)n >= room)
            vsnprintf((char *)to, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void dt_buf_printf(struct dt_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    dt_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

const char *dt_buf_cstr(struct dt_buf *b)
{
    uint8_t *end = dt_buf_room(b, 1);
    if (!end)
        return "";
    *end = '\0';
    return (const char *)b->at;
}

const uint8_t *dt_read_bytes(struct dt_reader *r, uint64_t n)
{
    if (r->bad || n > dt_reader_left(r)) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *at = r->at;
    r->at += n;
    return at;
}

uint8_t dt_read_u8(struct dt_reader *r)
{
    const uint8_t *at = dt_read_bytes(r, 1);
    return at ? *at : 0;
}

uint32_t dt_read_u32(struct dt_reader *r)
{
    uint32_t v = 0;
    const uint8_t *at = dt_read_bytes(r, sizeof v);
    if (at)
        memcpy(&v, at, sizeof v);
    return le32toh(v);
}

uint64_t dt_read_u64(struct dt_reader *r)
{
    uint64_t v = 0;
    const uint8_t *at = dt_read_bytes(r, sizeof v);
    if (at)
        memcpy(&v, at, sizeof v);
    return le64toh(v);
}

int64_t dt_read_i64(struct dt_reader *r)
{
    return (int64_t)dt_read_u64(r);
}

void dt_read_text(struct dt_reader *r, char *out, size_t size)
{
    uint32_t len = dt_read_u32(r);
    const uint8_t *at = len < size ? dt_read_bytes(r, len) : NULL;
    bool fits = at && !memchr(at, '\0', len);
    r->bad = r->bad || !fits;
    if (fits)
        memcpy(out, at, len);
    out[fits ? len : 0] = '\0';
}
