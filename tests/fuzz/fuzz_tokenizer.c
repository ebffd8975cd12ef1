/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer.json and, behind a NUL, a text. A file is taken or refused with a sentence; of one
 * that is taken, the text has the same tokens whole and byte by byte, all of them below the
 * vocabulary, and these become a text again. */
#include "tests/fuzz/fuzz.h"
#include "worker_runtime/data/tokenizer/bpe.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"

#include <string.h>

#define TEXT_MAX 512

static int take(void *arg, const uint32_t *ids, size_t count, struct dt_err *err)
{
    (void)err;
    dt_ids_put(arg, ids, count);
    return 0;
}

/* Whether all of TEXT could be encoded: a pattern may give up. */
static int encode(const struct dt_tokenizer *t, struct dt_bytes text, size_t slice,
                  struct dt_ids *out)
{
    struct dt_err err = {0};
    int rc = 0;
    struct dt_encoder *e = dt_encoder_create(t, 0, take, out, &err);
    FUZZ_CHECK(e != NULL);
    for (size_t i = 0, n; i < text.len && rc == 0; i += n) {
        n = text.len - i < slice ? text.len - i : slice;
        rc = dt_encoder_put(e, (struct dt_bytes){text.at + i, n}, &err);
    }
    if (rc == 0)
        rc = dt_encoder_end(e, DT_TOKEN_NONE, &err);
    if (rc == 0)
        rc = dt_encoder_drain(e, &err);
    dt_encoder_destroy(e);
    FUZZ_CHECK(rc == 0 || strlen(err.text) > 0);
    return rc;
}

static void decode(const struct dt_tokenizer *t, const struct dt_ids *ids)
{
    struct dt_err err = {0};
    struct dt_buf text = {0};
    struct dt_decoder *d = dt_decoder_create(t, &err);
    FUZZ_CHECK(d != NULL);
    for (size_t i = 0; i < ids->len; i++) {
        FUZZ_CHECK(ids->at[i] < dt_tokenizer_vocabulary(t));
        dt_decoder_put(d, ids->at[i], &text);
    }
    dt_decoder_end(d, &text);
    dt_decoder_destroy(d);
    dt_buf_finish(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dt_err err = {0};
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    struct dt_bytes file = {data, nul ? (size_t)(nul - data) : size};
    struct dt_bytes text = {nul ? nul + 1 : data, nul ? size - file.len - 1 : 0};
    struct dt_tokenizer *t = dt_tokenizer_read(file, &err);
    FUZZ_CHECK(t || strlen(err.text) > 0);
    if (t && text.len <= TEXT_MAX) {
        struct dt_ids whole = {0}, bytewise = {0};
        if (encode(t, text, TEXT_MAX, &whole) == 0 && encode(t, text, 1, &bytewise) == 0) {
            FUZZ_CHECK(whole.len == bytewise.len);
            FUZZ_CHECK(whole.len == 0 ||
                       memcmp(whole.at, bytewise.at, whole.len * sizeof *whole.at) == 0);
            decode(t, &whole);
        }
        dt_ids_finish(&whole);
        dt_ids_finish(&bytewise);
    }
    dt_tokenizer_close(t);
    return 0;
}
