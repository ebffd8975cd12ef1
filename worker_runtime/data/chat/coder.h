/* SPDX-License-Identifier: Apache-2.0 */
/* A rendered conversation becomes tokens, of each of which is known whether it is trained on. What
 * stands between two tokens of the template is encoded as one text, as Hugging Face's
 * apply_chat_template() has it; special tokens that somebody wrote into a conversation are text,
 * and end nothing. A token that begins in a prompt and ends in an answer counts as the answer's. */
#ifndef DT_DATA_CHAT_CODER_H
#define DT_DATA_CHAT_CODER_H

#include "worker_runtime/data/chat/template.h"

#include <stdint.h>

struct dt_tokenizer;

struct dt_chat_tokens {
    const uint32_t *ids;
    const bool *trained;
    size_t count;
};

struct dt_chat_coder;

/* Fails where the tokenizer has not all tokens that the template needs. T NULL: a byte is a token,
 * and only that of an end is there. */
struct dt_chat_coder *dt_chat_coder_create(const struct dt_tokenizer *t,
                                           const struct dt_template *template, struct dt_err *err);
void dt_chat_coder_destroy(struct dt_chat_coder *c); /* NULL is fine */

/* OUT is there until the next call. */
int dt_chat_coder_encode(struct dt_chat_coder *c, const struct dt_rendered *r,
                         struct dt_chat_tokens *out, struct dt_err *err);

#endif
