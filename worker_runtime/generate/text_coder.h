/* SPDX-License-Identifier: Apache-2.0 */
/* One text between people and a model: to tokens, and from them as they come. By a tokenizer, or,
 * as for models that were trained on bytes, a token is a byte. */
#ifndef DT_WORKER_RUNTIME_GENERATE_TEXT_CODER_H
#define DT_WORKER_RUNTIME_GENERATE_TEXT_CODER_H

#include "base/buf.h"
#include "base/err.h"
#include "worker_runtime/model/shape.h"

struct dt_tokenizer;
struct dt_decoder;
struct dt_template;

struct dt_text_coder {
    struct dt_tokenizer *tokenizer; /* NULL: a token is a byte */
    struct dt_decoder *decoder;
    int32_t answer_end; /* of what was asked; -1: nothing was */
};

struct dt_prompt {
    int32_t *at;
    size_t count, size;
};

/* TOKENIZER is a folder; "": a token is a byte. C needs no finish when it fails. */
int dt_text_coder_open(struct dt_text_coder *c, const char *tokenizer, struct dt_err *err);
void dt_text_coder_finish(struct dt_text_coder *c);

/* The tokens of TEXT, with what stands in front of each text, but nothing that would end it. One at
 * least: of an empty text, the one that begins a text of a model of SHAPE. Free P->at, also after
 * a failure. */
int dt_text_coder_encode(struct dt_text_coder *c, struct dt_bytes text,
                         const struct dt_shape *shape, struct dt_prompt *ids, struct dt_err *err);
/* The same of QUESTION as the first of a conversation, which models of a family are shown by
 * TEMPLATE, up to where the answer begins. SYSTEM: the text in front; "": none; NULL: the
 * template's own. */
int dt_text_coder_ask(struct dt_text_coder *c, const struct dt_template *template,
                      const char *system, struct dt_bytes question, struct dt_prompt *ids,
                      struct dt_err *err);
/* Appends what token ID, which stands behind those encoded and put before, adds to the text. */
void dt_text_coder_put(struct dt_text_coder *c, int32_t id, struct dt_buf *out);
void dt_text_coder_end(struct dt_text_coder *c, struct dt_buf *out); /* no token follows */
/* Whether ID ends a text of a model of SHAPE, or the answer to what was asked. */
bool dt_text_coder_ends(const struct dt_text_coder *c, const struct dt_shape *shape, int32_t id);

#endif
