/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/pickle/pickle.h"

#define PROTOCOL 4

void dt_pickle_put(struct dt_pickle_writer *w, enum dt_pickle_op op)
{
    dt_buf_put_u8(w->out, (uint8_t)op);
}

/* The frame's length is known at the end. */
void dt_pickle_begin(struct dt_pickle_writer *w, struct dt_buf *out)
{
    *w = (struct dt_pickle_writer){.out = out};
    dt_pickle_put(w, DT_PICKLE_PROTO);
    dt_buf_put_u8(out, PROTOCOL);
    dt_pickle_put(w, DT_PICKLE_FRAME);
    dt_buf_put_u64(out, 0);
    w->frame = out->len;
}

void dt_pickle_end(struct dt_pickle_writer *w)
{
    dt_pickle_put(w, DT_PICKLE_STOP);
    if (w->out->bad)
        return;
    uint64_t len = w->out->len - w->frame;
    for (size_t i = 0; i < 8; i++)
        w->out->at[w->frame - 8 + i] = (uint8_t)(len >> 8 * i);
}

void dt_pickle_put_int(struct dt_pickle_writer *w, int64_t v)
{
    if (v >= 0 && v <= UINT8_MAX) {
        dt_pickle_put(w, DT_PICKLE_BININT1);
        dt_buf_put_u8(w->out, (uint8_t)v);
    } else if (v >= 0 && v <= UINT16_MAX) {
        dt_pickle_put(w, DT_PICKLE_BININT2);
        dt_buf_put_u8(w->out, (uint8_t)v);
        dt_buf_put_u8(w->out, (uint8_t)(v >> 8));
    } else if (v >= INT32_MIN && v <= INT32_MAX) {
        dt_pickle_put(w, DT_PICKLE_BININT);
        dt_buf_put_u32(w->out, (uint32_t)v);
    } else {
        size_t n = 5; /* bytes until the rest of them is sign */
        while (n < 8 && v >> (8 * n - 1) != 0 && v >> (8 * n - 1) != -1)
            n++;
        dt_pickle_put(w, DT_PICKLE_LONG1);
        dt_buf_put_u8(w->out, (uint8_t)n);
        for (size_t i = 0; i < n; i++)
            dt_buf_put_u8(w->out, (uint8_t)(v >> 8 * i));
    }
}

void dt_pickle_put_text(struct dt_pickle_writer *w, const char *s)
{
    size_t len = strlen(s);
    dt_pickle_put(w, len <= UINT8_MAX ? DT_PICKLE_SHORT_BINUNICODE : DT_PICKLE_BINUNICODE);
    if (len <= UINT8_MAX)
        dt_buf_put_u8(w->out, (uint8_t)len);
    else
        dt_buf_put_u32(w->out, (uint32_t)len);
    dt_buf_put(w->out, s, len);
}

void dt_pickle_put_bytes(struct dt_pickle_writer *w, const void *bytes, uint8_t n)
{
    dt_pickle_put(w, DT_PICKLE_SHORT_BINBYTES);
    dt_buf_put_u8(w->out, n);
    dt_buf_put(w->out, bytes, n);
}

uint32_t dt_pickle_memoize(struct dt_pickle_writer *w)
{
    dt_pickle_put(w, DT_PICKLE_MEMOIZE);
    return w->memos++;
}

void dt_pickle_again(struct dt_pickle_writer *w, uint32_t memo)
{
    dt_pickle_put(w, memo <= UINT8_MAX ? DT_PICKLE_BINGET : DT_PICKLE_LONG_BINGET);
    if (memo <= UINT8_MAX)
        dt_buf_put_u8(w->out, (uint8_t)memo);
    else
        dt_buf_put_u32(w->out, memo);
}
