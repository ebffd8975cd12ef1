/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/export/gguf.h"

#include <float.h>
#include <math.h>

#include "worker_runtime/ops/half.h"

#define VERSION 3
#define BLOCK 32                /* weights of a Q8_0 that share a factor ... */
#define BLOCK_BYTES (2 + BLOCK) /* ... of 16 bits */

void dt_gguf_finish(struct dt_gguf *g)
{
    dt_buf_finish(&g->pairs);
    dt_buf_finish(&g->tensors);
}

/* -- keys ------------------------------------------------------------------------------------- */

static void put_text(struct dt_buf *b, struct dt_bytes text)
{
    dt_buf_put_u64(b, text.len);
    dt_buf_put(b, text.at, text.len);
}

static void put_float(struct dt_buf *b, float v)
{
    dt_buf_put_u32(b, dt_float_bits(v));
}

static void put_key(struct dt_gguf *g, const char *key, enum dt_gguf_value kind)
{
    put_text(&g->pairs, dt_bytes_of(key));
    dt_buf_put_u32(&g->pairs, kind);
    g->pair_count++;
}

void dt_gguf_put_u32(struct dt_gguf *g, const char *key, uint32_t v)
{
    put_key(g, key, DT_GGUF_U32);
    dt_buf_put_u32(&g->pairs, v);
}

void dt_gguf_put_float(struct dt_gguf *g, const char *key, float v)
{
    put_key(g, key, DT_GGUF_FLOAT);
    put_float(&g->pairs, v);
}

void dt_gguf_put_bool(struct dt_gguf *g, const char *key, bool v)
{
    put_key(g, key, DT_GGUF_BOOL);
    dt_buf_put_u8(&g->pairs, v);
}

void dt_gguf_put_text(struct dt_gguf *g, const char *key, struct dt_bytes v)
{
    put_key(g, key, DT_GGUF_TEXT);
    put_text(&g->pairs, v);
}

void dt_gguf_put_array(struct dt_gguf *g, const char *key, enum dt_gguf_value kind, uint64_t count)
{
    put_key(g, key, DT_GGUF_ARRAY);
    dt_buf_put_u32(&g->pairs, kind);
    dt_buf_put_u64(&g->pairs, count);
}

void dt_gguf_add_i32(struct dt_gguf *g, int32_t v)
{
    dt_buf_put_u32(&g->pairs, (uint32_t)v);
}

void dt_gguf_add_float(struct dt_gguf *g, float v)
{
    put_float(&g->pairs, v);
}

void dt_gguf_add_text(struct dt_gguf *g, struct dt_bytes v)
{
    put_text(&g->pairs, v);
}

/* -- tensors ---------------------------------------------------------------------------------- */

bool dt_gguf_takes(enum dt_gguf_type type, size_t width)
{
    return type != DT_GGUF_Q8_0 || width % BLOCK == 0;
}

size_t dt_gguf_row_bytes(enum dt_gguf_type type, size_t width)
{
    switch (type) {
    case DT_GGUF_F32:
        return width * sizeof(float);
    case DT_GGUF_F16:
    case DT_GGUF_BF16:
        return width * sizeof(uint16_t);
    case DT_GGUF_Q8_0:
        return width / BLOCK * BLOCK_BYTES;
    }
    return 0;
}

size_t dt_gguf_padding(uint64_t bytes)
{
    return (size_t)(-bytes % DT_GGUF_ALIGN);
}

void dt_gguf_put_tensor(struct dt_gguf *g, const char *name, enum dt_gguf_type type, size_t rows,
                        size_t width)
{
    struct dt_buf *b = &g->tensors;
    uint64_t bytes = (uint64_t)dt_gguf_row_bytes(type, width) * (rows ? rows : 1);
    put_text(b, dt_bytes_of(name));
    dt_buf_put_u32(b, rows ? 2 : 1);
    dt_buf_put_u64(b, width); /* the innermost first */
    if (rows)
        dt_buf_put_u64(b, rows);
    dt_buf_put_u32(b, type);
    dt_buf_put_u64(b, g->data);
    g->data += bytes + dt_gguf_padding(bytes);
    g->tensor_count++;
}

void dt_gguf_put_head(const struct dt_gguf *g, struct dt_buf *out)
{
    size_t begin = out->len;
    dt_buf_put_str(out, "GGUF");
    dt_buf_put_u32(out, VERSION);
    dt_buf_put_u64(out, g->tensor_count);
    dt_buf_put_u64(out, g->pair_count);
    dt_buf_put(out, g->pairs.at, g->pairs.len);
    dt_buf_put(out, g->tensors.at, g->tensors.len);
    for (size_t n = dt_gguf_padding(out->len - begin); n > 0; n--)
        dt_buf_put_u8(out, 0);
    out->bad = out->bad || g->pairs.bad || g->tensors.bad;
}

/* -- data ------------------------------------------------------------------------------------- */

static void put_u16(uint8_t *to, uint16_t v)
{
    to[0] = (uint8_t)v;
    to[1] = (uint8_t)(v >> 8);
}

/* The largest is 127 or -127 of them. A weight that is not finite is no multiple of a factor: its
 * block becomes NaN. A factor that has no inverse is 0 in 16 bits: its block becomes 0. */
static void encode_block(const float *x, uint8_t *out)
{
    float largest = 0;
    bool finite = true;
    for (size_t i = 0; i < BLOCK; i++) {
        largest = fmaxf(largest, fabsf(x[i]));
        finite = finite && isfinite(x[i]);
    }
    float d = finite ? largest / 127 : NAN, inverse = d >= FLT_MIN ? 1 / d : 0;
    put_u16(out, dt_float_to_f16(d));
    for (size_t i = 0; i < BLOCK; i++)
        out[2 + i] = (uint8_t)(inverse > 0 ? (int8_t)roundf(x[i] * inverse) : 0);
}

void dt_gguf_encode(enum dt_gguf_type type, const float *row, size_t width, void *out)
{
    uint8_t *to = out;
    switch (type) {
    case DT_GGUF_F32:
        for (size_t i = 0; i < width; i++) {
            put_u16(to + 4 * i, (uint16_t)dt_float_bits(row[i]));
            put_u16(to + 4 * i + 2, (uint16_t)(dt_float_bits(row[i]) >> 16));
        }
        break;
    case DT_GGUF_F16:
        for (size_t i = 0; i < width; i++)
            put_u16(to + 2 * i, dt_float_to_f16(row[i]));
        break;
    case DT_GGUF_BF16:
        for (size_t i = 0; i < width; i++)
            put_u16(to + 2 * i, dt_float_to_bf16(row[i]));
        break;
    case DT_GGUF_Q8_0:
        for (size_t i = 0; i < width / BLOCK; i++)
            encode_block(row + i * BLOCK, to + i * BLOCK_BYTES);
        break;
    }
}
