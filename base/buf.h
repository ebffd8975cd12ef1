/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes: a growing buffer to write into, and a bounded reader for what came from outside.
 *
 * Both are sticky: go through the whole message, then ask once whether all went well. All integers
 * are little-endian on our wires; this file alone knows that. */
#ifndef DT_BASE_BUF_H
#define DT_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A view of bytes that somebody else owns. */
struct dt_bytes {
    const uint8_t *at;
    size_t len;
};

static inline bool dt_bytes_equal(struct dt_bytes a, struct dt_bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

/* memcpy() for a view that may be the empty one, whose pointer may be NULL. */
static inline void dt_bytes_copy(void *to, struct dt_bytes from)
{
    if (from.len)
        memcpy(to, from.at, from.len);
}

/* A string literal or C string as bytes. */
static inline struct dt_bytes dt_bytes_of(const char *s)
{
    return (struct dt_bytes){(const uint8_t *)s, strlen(s)};
}

/* How far a decoder got. It consumes nothing unless DONE, so delivery in any slices gives the same
 * answers. */
enum dt_decoded { DT_MORE, DT_DONE, DT_BAD };

/* Growing buffer. Zeroed memory is an empty one. Bytes from `at` to `at + len` are content;
 * consuming from the front moves `at` and gives room back when the buffer is compacted by the next
 * growth. */
struct dt_buf {
    uint8_t *at;
    size_t len;
    uint8_t *base; /* what was allocated; at >= base */
    size_t size;
    bool bad; /* an allocation failed; later writes do nothing */
};

void dt_buf_finish(struct dt_buf *b);
void dt_buf_clear(struct dt_buf *b); /* empty again, memory and badness kept */

/* Room for N more bytes behind the content, or NULL (and bad). dt_buf_grew() makes written bytes
 * content. */
uint8_t *dt_buf_room(struct dt_buf *b, size_t n);
void dt_buf_grew(struct dt_buf *b, size_t n);
size_t dt_buf_free_room(const struct dt_buf *b); /* how much fits without growing or moving */
void dt_buf_consume(struct dt_buf *b, size_t n);

/* Moves the content to the front of an allocation of SIZE bytes, or as many as the content needs.
 * -1: no memory, and nothing is changed. */
int dt_buf_resize(struct dt_buf *b, size_t size);
/* Gives back what stands allocated behind the content. */
void dt_buf_trim(struct dt_buf *b);

void dt_buf_put(struct dt_buf *b, const void *bytes, size_t n);
void dt_buf_put_u8(struct dt_buf *b, uint8_t v);
void dt_buf_put_u32(struct dt_buf *b, uint32_t v);
void dt_buf_set_u32(struct dt_buf *b, size_t at, uint32_t v); /* over content; at + 4 <= len */
void dt_buf_put_u64(struct dt_buf *b, uint64_t v);
void dt_buf_put_i64(struct dt_buf *b, int64_t v);
void dt_buf_put_str(struct dt_buf *b, const char *s);
void dt_buf_put_text(struct dt_buf *b, const char *s); /* behind its length, a u32 */
void dt_buf_printf(struct dt_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void dt_buf_vprintf(struct dt_buf *b, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* The content as a C string; the NUL behind it is not content. "" when bad. */
const char *dt_buf_cstr(struct dt_buf *b);

/* Bounded reader over memory that outlives it. After the first short read all reads give 0/NULL. */
struct dt_reader {
    const uint8_t *at, *end;
    bool bad;
};

static inline struct dt_reader dt_reader_over(const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    return (struct dt_reader){.at = at,
                              .end = len > 0 ? at + len : at}; /* no bytes may be at NULL */
}

static inline size_t dt_reader_left(const struct dt_reader *r)
{
    return (size_t)(r->end - r->at);
}

const uint8_t *dt_read_bytes(struct dt_reader *r, uint64_t n);
uint8_t dt_read_u8(struct dt_reader *r);
uint32_t dt_read_u32(struct dt_reader *r);
uint64_t dt_read_u64(struct dt_reader *r);
int64_t dt_read_i64(struct dt_reader *r);
/* What dt_buf_put_text() wrote, with a NUL behind it. One that has no room in SIZE bytes, or a NUL
 * inside, is bad, and OUT then is "". */
void dt_read_text(struct dt_reader *r, char *out, size_t size);

#endif
