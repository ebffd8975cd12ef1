/* SPDX-License-Identifier: Apache-2.0 */
#include "worker_runtime/generate/speech.h"

#include "base/utf8.h"

#include <string.h>

void dt_speech_finish(struct dt_speech *s)
{
    dt_buf_finish(&s->waiting);
}

/* The first LEN bytes of what waits, which have no NUL among them. */
static void put_piece(struct dt_speech *s, size_t len, struct dt_buf *out)
{
    struct dt_buf piece = {0};
    dt_buf_put(&piece, s->waiting.at, len);
    dt_utf8_put_visible(out, dt_buf_cstr(&piece), "\n\t");
    out->bad = out->bad || piece.bad;
    dt_buf_finish(&piece);
}

static void put_visible(struct dt_speech *s, size_t len, struct dt_buf *out)
{
    while (len) {
        const uint8_t *nul = memchr(s->waiting.at, '\0', len);
        size_t n = nul ? (size_t)(nul - s->waiting.at) : len;
        put_piece(s, n, out);
        if (nul)
            dt_buf_put_str(out, "\\x00");
        dt_buf_consume(&s->waiting, n + (nul != NULL));
        len -= n + (nul != NULL);
    }
}

void dt_speech_put(struct dt_speech *s, struct dt_bytes part, bool end, struct dt_buf *out)
{
    if (s->stopped)
        return;
    dt_lossy_put(&s->utf8, part, end, &s->waiting);
    const struct dt_bytes text = {s->waiting.at, s->waiting.len};
    size_t n = dt_stops_before(&s->stops, text, end, &s->stopped);
    if (s->visible) {
        put_visible(s, n, out);
    } else if (n) {
        dt_buf_put(out, s->waiting.at, n);
        dt_buf_consume(&s->waiting, n);
    }
    out->bad = out->bad || s->waiting.bad;
}
