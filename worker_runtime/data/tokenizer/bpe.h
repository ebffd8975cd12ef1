/* SPDX-License-Identifier: Apache-2.0 */
/* Byte pair encoding: the symbols of a word, its characters at first, are merged pair by pair, the
 * pair with the lowest rank first, and of equal ones the leftmost. */
#ifndef DT_TOKENIZER_BPE_H
#define DT_TOKENIZER_BPE_H

#include "worker_runtime/data/tokenizer/vocab.h"

#include "base/err.h"

#define DT_BPE_NONE UINT32_MAX /* no token */

struct dt_bpe_merge {
    uint32_t left, right;
    uint32_t rank;   /* DT_BPE_NONE: a free slot */
    uint32_t result; /* the token of both */
};

/* The model of a tokenizer, which threads share once it is filled. Zeroed memory and then the
 * flags. */
struct dt_bpe {
    struct dt_vocab words; /* of byte-level ones the bytes that tokens stand for */
    struct dt_bpe_merge *merges;
    size_t merge_slots;
    uint32_t bytes[256];    /* the token of a byte, or of "<0xHH>" */
    uint32_t unknown;       /* for a character that is no token; DT_BPE_NONE: it is left out */
    bool byte_level;        /* a symbol is a byte, and not a character */
    bool byte_fallback;     /* an unknown character becomes its bytes, if they all are tokens */
    bool fuse_unknown;      /* one token for a run of them */
    bool whole_words_first; /* a word that is a token is that token, however it would be merged */
};

void dt_bpe_finish(struct dt_bpe *b);
/* Makes room for COUNT merges. */
int dt_bpe_reserve(struct dt_bpe *b, size_t count, struct dt_err *err);
/* The later one counts of two of the same pair. No more than there is room for. */
void dt_bpe_put_merge(struct dt_bpe *b, const struct dt_bpe_merge *merge);
/* What BYTES says, by the words; when all of them are there. */
void dt_bpe_find_bytes(struct dt_bpe *b);
/* The merge of the pair, or NULL. */
const struct dt_bpe_merge *dt_bpe_merge_of(const struct dt_bpe *b, uint32_t left, uint32_t right);

/* Ids as they come; zeroed memory is an empty list. */
struct dt_ids {
    uint32_t *at;
    size_t len, room;
    bool bad; /* an allocation failed */
};

void dt_ids_put(struct dt_ids *ids, const uint32_t *more, size_t count);
void dt_ids_finish(struct dt_ids *ids);

/* One thread's use of a model, which has to outlive it: it remembers words. */
struct dt_bpe_coder;

struct dt_bpe_coder *dt_bpe_coder_create(const struct dt_bpe *b, struct dt_err *err);
void dt_bpe_coder_destroy(struct dt_bpe_coder *c); /* NULL is fine */
/* Appends the tokens of WORD, which is UTF-8. */
void dt_bpe_encode(struct dt_bpe_coder *c, struct dt_bytes word, struct dt_ids *out);

#endif
