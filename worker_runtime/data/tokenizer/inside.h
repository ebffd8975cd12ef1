/* SPDX-License-Identifier: Apache-2.0 */
/* What a tokenizer consists of. */
#ifndef DT_TOKENIZER_INSIDE_H
#define DT_TOKENIZER_INSIDE_H

#include "worker_runtime/data/tokenizer/bpe.h"
#include "worker_runtime/data/tokenizer/stage.h"
#include "worker_runtime/data/tokenizer/tokenizer.h"

#define DT_STEPS_MAX 32
#define DT_REPLACEMENTS_MAX 8

/* How tokens become text again, in this order. */
struct dt_decoding {
    bool byte_level; /* characters of tokens stand for bytes; nothing of what follows */
    struct dt_replacement {
        char *from, *to; /* owned */
    } replacements[DT_REPLACEMENTS_MAX];
    int replacement_count;
    char *metaspace;     /* becomes a blank, and nothing in the first token if... */
    bool metaspace_drop; /* this is set; owned */
    bool byte_fallback;  /* "<0x41>" is "A" */
    char *strip;         /* a character that goes at the start of the text; NULL: none; owned */
    size_t strip_most;   /* that many of them */
    bool joined;         /* false: a blank between two tokens */
};

struct dt_tokenizer {
    struct dt_step steps[DT_STEPS_MAX];
    int step_count;
    struct dt_bpe bpe;
    struct dt_vocab texts; /* of all tokens, as the file writes them */
    uint32_t own;          /* tokens of the file's model are below it; added ones may be beyond */
    uint32_t words;        /* of the folder's model, where that has fewer; 0: it has all */
    struct dt_vocab shown; /* of those that the normalizer changes: what they become as a text */
    struct dt_ids front, back;
    struct dt_decoding decoding;
    uint32_t end;
};

#endif
