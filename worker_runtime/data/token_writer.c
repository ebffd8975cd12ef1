/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens go through a buffer of fixed size; the header gets its count when all is written, and the
 * name comes last. What a file says of its documents stands behind all tokens, so it is kept until
 * then: a bit for each token and 8 bytes for each document. */
#include "worker_runtime/data/token_writer.h"

#include "base/buf.h"
#include "base/draft.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define CHUNK ((size_t)32 << 10) /* tokens */
#define PAIRS 1                  /* of the flags of version 3 */

struct dt_token_writer {
    struct dt_draft draft;
    struct dt_token_kind kind;
    size_t width; /* bytes of a token */
    uint64_t tokens, documents, trained;
    struct dt_buf bits, begins;
    size_t held; /* bytes of WIDE that are not written yet */
    uint8_t wide[CHUNK * 4];
};

static int flush(struct dt_token_writer *w, struct dt_err *err)
{
    size_t held = w->held;
    w->held = 0;
    return dt_draft_write(&w->draft, w->wide, held, err);
}

int dt_token_writer_put(struct dt_token_writer *w, const uint32_t *ids, size_t count,
                        struct dt_err *err)
{
    for (size_t i = 0; i < count; i++) {
        if (ids[i] >= w->kind.vocabulary)
            return dt_err_set(err, DT_E_USAGE,
                              "the text has token %u, which was added to the tokenizer, and the "
                              "model has %u words (vocab_size in its config.json); take that token "
                              "out of the text",
                              ids[i], w->kind.vocabulary);
        for (size_t k = 0; k < w->width; k++)
            w->wide[w->held++] = (uint8_t)(ids[i] >> 8 * k);
        if (w->held == CHUNK * w->width && flush(w, err) < 0)
            return -1;
    }
    w->tokens += count;
    return 0;
}

/* The bit of token number AT; those before it have theirs. */
static void put_bit(struct dt_token_writer *w, uint64_t at, bool trained)
{
    if (at % 8 == 0)
        dt_buf_put_u8(&w->bits, 0);
    if (trained && !w->bits.bad)
        w->bits.at[at / 8] |= (uint8_t)(1u << at % 8);
    w->trained += trained;
}

int dt_token_writer_document(struct dt_token_writer *w, const uint32_t *ids, const bool *trained,
                             size_t count, struct dt_err *err)
{
    dt_buf_put_u64(&w->begins, w->tokens);
    w->documents++;
    for (size_t i = 0; i < count; i++)
        put_bit(w, w->tokens + i, i > 0 && trained[i]);
    if (w->bits.bad || w->begins.bad)
        return dt_err_set(err, DT_E_MEMORY, "no memory for the marks of %llu tokens",
                          (unsigned long long)(w->tokens + count));
    return dt_token_writer_put(w, ids, count, err);
}

uint64_t dt_token_writer_trained(const struct dt_token_writer *w)
{
    return w->trained;
}

uint64_t dt_token_writer_count(const struct dt_token_writer *w)
{
    return w->tokens;
}

static int put_header(struct dt_token_writer *w, struct dt_err *err)
{
    struct dt_buf head = {0};
    dt_buf_put_str(&head, "DTRTOKEN");
    dt_buf_put_u32(&head, w->kind.pairs ? 3 : w->kind.documents ? 2 : 1);
    dt_buf_put_u32(&head, (uint32_t)w->width);
    dt_buf_put_u32(&head, w->kind.tokenizer);
    dt_buf_put_u32(&head, w->kind.vocabulary);
    dt_buf_put_u64(&head, w->tokens);
    if (w->kind.documents || w->kind.pairs) {
        dt_buf_put_u64(&head, w->documents);
        dt_buf_put_u64(&head, w->trained);
    }
    if (w->kind.pairs)
        dt_buf_put_u64(&head, PAIRS);
    int rc = head.bad ? dt_err_set(err, DT_E_MEMORY, "no memory to write %s", w->draft.path)
                      : dt_draft_write(&w->draft, head.at, head.len, err);
    dt_buf_finish(&head);
    return rc;
}

struct dt_token_writer *dt_token_writer_open(const char *out, const struct dt_token_kind *kind,
                                             struct dt_err *err)
{
    struct dt_token_writer *w = calloc(1, sizeof *w);
    if (!w) {
        dt_err_set(err, DT_E_MEMORY, "no memory to write %s", out);
        return NULL;
    }
    w->kind = *kind;
    w->width = kind->vocabulary <= 0x10000 ? 2 : 4;
    if (dt_draft_open(&w->draft, out, err) == 0 && put_header(w, err) == 0)
        return w;
    dt_token_writer_close(w);
    return NULL;
}

void dt_token_writer_close(struct dt_token_writer *w)
{
    if (!w)
        return;
    dt_draft_close(&w->draft);
    dt_buf_finish(&w->bits);
    dt_buf_finish(&w->begins);
    free(w);
}

int dt_token_writer_commit(struct dt_token_writer *w, struct dt_err *err)
{
    if (flush(w, err) < 0 || dt_draft_write(&w->draft, w->bits.at, w->bits.len, err) < 0 ||
        dt_draft_write(&w->draft, w->begins.at, w->begins.len, err) < 0)
        return -1;
    if (lseek(w->draft.fd, 0, SEEK_SET) < 0)
        return dt_err_errno(err, DT_E_RUNTIME, errno, "cannot write %s", w->draft.path);
    return put_header(w, err) < 0 ? -1 : dt_draft_commit(&w->draft, err);
}
