/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens by their bytes, and their bytes by their id. Ids may have gaps. */
#ifndef DT_TOKENIZER_VOCAB_H
#define DT_TOKENIZER_VOCAB_H

#include "base/buf.h"

#include <stdint.h>

#define DT_VOCAB_IDS_MAX ((uint32_t)1 << 24)

struct dt_vocab_entry {
    uint32_t at, len; /* in BYTES */
    bool there;
};

/* Zeroed memory is an empty one. */
struct dt_vocab {
    struct dt_buf bytes;
    struct dt_vocab_entry *entries; /* by id */
    uint32_t limit, room;           /* all ids are below LIMIT */
    uint32_t *slots;                /* id + 1, by hash; 0: free */
    uint32_t slot_count, filled;
};

void dt_vocab_finish(struct dt_vocab *v);

/* -1: no memory, more than 4 GiB of bytes, or an ID that is not below DT_VOCAB_IDS_MAX. Of two ids
 * with the same bytes the later one is found. */
int dt_vocab_add(struct dt_vocab *v, uint32_t id, struct dt_bytes text);
int64_t dt_vocab_find(const struct dt_vocab *v, struct dt_bytes text); /* -1: it is no token */
bool dt_vocab_has(const struct dt_vocab *v, uint32_t id);
struct dt_bytes dt_vocab_text(const struct dt_vocab *v, uint32_t id); /* empty where it is none */

#endif
