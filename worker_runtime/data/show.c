/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens become text run by run: those of one kind, trained on or not, which stand behind each
 * other. */
#include "worker_runtime/data/show.h"

#include "base/utf8.h"
#include "worker_runtime/data/tokenize.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"
#include "worker_runtime/data/tokens.h"

#include <stdlib.h>

#define CHUNK ((size_t)4 << 10) /* tokens */

static const struct marks {
    const char *begin, *end, *head, *head_end;
} brackets = {"[[", "]]", "", ""}, colours = {"\033[32m", "\033[0m", "\033[1m", "\033[0m"};

struct showing {
    const struct dt_tokens *tokens;
    const struct dt_tokenizer *tokenizer; /* NULL: a byte is a token */
    const struct marks *marks;
    dt_show_fn *put;
    void *arg;
    struct dt_decoder *decoder;
    struct dt_buf run; /* bytes of the run at hand that are not shown yet */
    struct dt_buf out;
    bool inside; /* what is trained on */
    int32_t ids[CHUNK];
    bool trained[CHUNK];
};

/* How much of the run does not end within a character. */
static size_t whole_characters(const struct dt_buf *run)
{
    for (size_t back = 1; back <= 3 && back <= run->len; back++) {
        uint8_t c = run->at[run->len - back];
        size_t needs = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
        if (needs > back)
            return run->len - back;
        if (c < 0x80 || c >= 0xc0)
            break;
    }
    return run->len;
}

/* The first LEN bytes of the run. A NUL ends no text here. */
static void put_visible(struct showing *z, size_t len)
{
    uint8_t kept = 0;
    dt_buf_cstr(&z->run); /* a NUL behind it */
    if (z->run.bad)
        return;
    for (size_t at = 0, n; at < len; at += n) {
        uint8_t *text = z->run.at + at;
        kept = z->run.at[len];
        z->run.at[len] = '\0';
        n = strlen((const char *)text);
        dt_utf8_put_visible(&z->out, (const char *)text, "\n\t");
        z->run.at[len] = kept;
        if (at + n < len) {
            dt_buf_put_str(&z->out, "\\x00");
            n++;
        }
    }
    dt_buf_consume(&z->run, len);
}

static int flush(struct showing *z, struct dt_err *err)
{
    if (z->run.bad || z->out.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a text");
    int rc = z->out.len ? z->put(z->arg, (struct dt_bytes){z->out.at, z->out.len}, err) : 0;
    dt_buf_clear(&z->out);
    return rc;
}

static void turn(struct showing *z, bool inside)
{
    if (z->inside == inside)
        return;
    put_visible(z, z->run.len);
    dt_buf_put_str(&z->out, inside ? z->marks->begin : z->marks->end);
    z->inside = inside;
}

static void put_token(struct showing *z, uint32_t id)
{
    if (z->decoder)
        dt_decoder_put(z->decoder, id, &z->run);
    else if (id < DT_BYTE_END)
        dt_buf_put_u8(&z->run, (uint8_t)id);
    else
        dt_buf_put_str(&z->run, "<end>");
}

/* Tokens FROM to TO - 1. */
static int put_tokens(struct showing *z, size_t from, size_t to, struct dt_err *err)
{
    for (size_t at = from, n; at < to; at += n) {
        n = to - at < CHUNK ? to - at : CHUNK;
        if (dt_tokens_read(z->tokens, at, n, z->ids, err) < 0 ||
            dt_tokens_trained(z->tokens, at, n, z->trained, err) < 0)
            return -1;
        for (size_t i = 0; i < n; i++) {
            turn(z, z->trained[i]);
            put_token(z, (uint32_t)z->ids[i]);
        }
        put_visible(z, whole_characters(&z->run));
        if (flush(z, err) < 0)
            return -1;
    }
    return 0;
}

static int count_trained(struct showing *z, size_t from, size_t to, size_t *count,
                         struct dt_err *err)
{
    *count = 0;
    for (size_t at = from, n; at < to; at += n) {
        n = to - at < CHUNK ? to - at : CHUNK;
        if (dt_tokens_trained(z->tokens, at, n, z->trained, err) < 0)
            return -1;
        for (size_t i = 0; i < n; i++)
            *count += z->trained[i];
    }
    return 0;
}

static const char *part_of_pair(const struct showing *z, size_t document)
{
    if (!dt_tokens_are_pairs(z->tokens))
        return "";
    return document % 2 ? ", rejected" : ", chosen";
}

static int show(struct showing *z, size_t document, size_t from, size_t to, struct dt_err *err)
{
    size_t trained;
    if (count_trained(z, from, to, &trained, err) < 0)
        return -1;
    dt_buf_printf(&z->out, "%sdocument %zu%s: %zu tokens, %zu trained on%s\n", z->marks->head,
                  document, part_of_pair(z, document), to - from, trained, z->marks->head_end);
    if (put_tokens(z, from, to, err) < 0)
        return -1;
    if (z->decoder)
        dt_decoder_end(z->decoder, &z->run);
    put_visible(z, z->run.len);
    turn(z, false);
    dt_buf_put_str(&z->out, "\n");
    return flush(z, err);
}

static size_t documents_of(const struct dt_tokens *t)
{
    size_t n = dt_tokens_documents(t);
    return n ? n : 1;
}

static int show_number(struct showing *z, size_t i, struct dt_err *err)
{
    size_t all = dt_tokens_documents(z->tokens);
    uint64_t begins[2] = {0, dt_tokens_count(z->tokens)};
    if (all && dt_tokens_begins(z->tokens, i, i + 1 < all ? 2 : 1, begins, err) < 0)
        return -1;
    return show(z, i, (size_t)begins[0], (size_t)begins[1], err);
}

static int show_all(struct showing *z, const struct dt_show_options *o, struct dt_err *err)
{
    size_t all = documents_of(z->tokens);
    if (o->only >= 0 && (uint64_t)o->only >= all)
        return dt_err_set(err, DT_E_USAGE, "there is no document %lld; there are %zu, from 0 on",
                          (long long)o->only, all);
    if (o->only >= 0)
        return show_number(z, (size_t)o->only, err);
    for (size_t i = 0; i < all; i++)
        if (show_number(z, i, err) < 0)
            return -1;
    return 0;
}

int dt_show_tokens(const struct dt_tokens *tokens, const struct dt_tokenizer *t,
                   const struct dt_show_options *o, dt_show_fn *put, void *arg, struct dt_err *err)
{
    struct showing *z = calloc(1, sizeof *z);
    if (!z)
        return dt_err_set(err, DT_E_MEMORY, "no memory for a text");
    z->tokens = tokens;
    z->tokenizer = t;
    z->marks = o->colour ? &colours : &brackets;
    z->put = put;
    z->arg = arg;
    if (t)
        z->decoder = dt_decoder_create(t, err);
    int rc = t && !z->decoder ? -1 : show_all(z, o, err);
    dt_decoder_destroy(z->decoder);
    dt_buf_finish(&z->run);
    dt_buf_finish(&z->out);
    free(z);
    return rc;
}
