/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "worker_runtime/data/tokenizer/alphabet.h"
#include "worker_runtime/data/tokenizer/inside.h"
#include "worker_runtime/data/tokenizer/lossy.h"

#include <ctype.h>
#include <stdlib.h>

struct dt_decoder {
    const struct dt_tokenizer *tokenizer;
    struct dt_lossy lossy;
    struct dt_buf token, other; /* a token on its way through the replacements */
    struct dt_buf bytes;        /* of a run of "<0xHH>" */
    size_t strip;               /* characters that may still go */
    bool begun;
};

static void begin(struct dt_decoder *d)
{
    d->begun = false;
    d->strip = d->tokenizer->decoding.strip_most;
}

struct dt_decoder *dt_decoder_create(const struct dt_tokenizer *t, struct dt_err *err)
{
    struct dt_decoder *d = calloc(1, sizeof *d);
    if (!d) {
        dt_err_set(err, DT_E_MEMORY, "no memory for a tokenizer");
        return NULL;
    }
    d->tokenizer = t;
    begin(d);
    return d;
}

void dt_decoder_destroy(struct dt_decoder *d)
{
    if (!d)
        return;
    dt_buf_finish(&d->token);
    dt_buf_finish(&d->other);
    dt_buf_finish(&d->bytes);
    free(d);
}

/* -- one token -------------------------------------------------------------------------------- */

static void replace(struct dt_decoder *d, const char *from, const char *to)
{
    struct dt_bytes what = dt_bytes_of(from);
    dt_buf_clear(&d->other);
    for (size_t i = 0; i < d->token.len;) {
        bool here = d->token.len - i >= what.len && memcmp(d->token.at + i, from, what.len) == 0;
        dt_buf_put(&d->other, here ? (const void *)to : d->token.at + i, here ? strlen(to) : 1);
        i += here ? what.len : 1;
    }
    struct dt_buf done = d->other;
    d->other = d->token;
    d->token = done;
}

static bool is_byte_token(const struct dt_buf *token, uint8_t *byte)
{
    char hex[3] = "";
    if (token->len != 6 || memcmp(token->at, "<0x", 3) != 0 || token->at[5] != '>' ||
        !isxdigit(token->at[3]) || !isxdigit(token->at[4]))
        return false;
    memcpy(hex, token->at + 3, 2);
    *byte = (uint8_t)strtoul(hex, NULL, 16);
    return true;
}

/* TEXT without the characters at the start of the whole that go. */
static void put_text(struct dt_decoder *d, struct dt_bytes text, struct dt_buf *out)
{
    const char *strip = d->tokenizer->decoding.strip;
    size_t n = strip ? strlen(strip) : 0;
    while (d->strip && n && text.len >= n && memcmp(text.at, strip, n) == 0) {
        text = (struct dt_bytes){text.at + n, text.len - n};
        d->strip--;
    }
    if (text.len)
        d->strip = 0;
    dt_buf_put(out, text.at, text.len);
}

/* A run of bytes is text as a whole, or none of it is. */
static void put_bytes(struct dt_decoder *d, struct dt_buf *out)
{
    struct dt_bytes run = {d->bytes.at, d->bytes.len};
    bool valid = dt_lossy_whole(run) == run.len;
    if (valid)
        put_text(d, run, out);
    for (size_t i = 0; !valid && i < run.len; i++)
        put_text(d, dt_bytes_of("\xef\xbf\xbd"), out);
    dt_buf_clear(&d->bytes);
}

static void put_byte_level(struct dt_decoder *d, struct dt_bytes text, struct dt_buf *out)
{
    dt_buf_clear(&d->token);
    if (dt_alphabet_bytes(text, &d->token))
        text = (struct dt_bytes){d->token.at, d->token.len};
    dt_lossy_put(&d->lossy, text, false, out);
}

static void put_by_steps(struct dt_decoder *d, struct dt_bytes text, struct dt_buf *out)
{
    const struct dt_decoding *how = &d->tokenizer->decoding;
    uint8_t byte;
    dt_buf_clear(&d->token);
    dt_buf_put(&d->token, text.at, text.len);
    for (int i = 0; i < how->replacement_count; i++)
        replace(d, how->replacements[i].from, how->replacements[i].to);
    if (how->metaspace)
        replace(d, how->metaspace, how->metaspace_drop && !d->begun ? "" : " ");
    if (how->byte_fallback && is_byte_token(&d->token, &byte)) {
        dt_buf_put_u8(&d->bytes, byte);
        return;
    }
    put_bytes(d, out);
    if (d->begun && !how->joined)
        dt_buf_put_u8(out, ' ');
    put_text(d, (struct dt_bytes){d->token.at, d->token.len}, out);
}

void dt_decoder_put(struct dt_decoder *d, uint32_t id, struct dt_buf *out)
{
    const struct dt_tokenizer *t = d->tokenizer;
    const struct dt_vocab *texts = dt_vocab_has(&t->shown, id) ? &t->shown : &t->texts;
    if (!dt_vocab_has(texts, id))
        return;
    if (t->decoding.byte_level)
        put_byte_level(d, dt_vocab_text(texts, id), out);
    else
        put_by_steps(d, dt_vocab_text(texts, id), out);
    d->begun = true;
    out->bad |= d->token.bad || d->other.bad || d->bytes.bad;
}

void dt_decoder_end(struct dt_decoder *d, struct dt_buf *out)
{
    put_bytes(d, out);
    dt_lossy_put(&d->lossy, (struct dt_bytes){0}, true, out);
    begin(d);
}
