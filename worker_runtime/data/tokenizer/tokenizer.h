/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face's tokenizers: the tokenizer.json of a model's folder, as long as it is byte pair
 * encoding. Texts become the tokens that the library of that name makes of them, one for one. A
 * part of a file that would change tokens and is not known here is refused by name. */
#ifndef DT_TOKENIZER_TOKENIZER_H
#define DT_TOKENIZER_TOKENIZER_H

#include "base/buf.h"
#include "base/err.h"

#include <stdint.h>

#define DT_TOKEN_NONE UINT32_MAX

/* Does not change once it is there: threads may share it. */
struct dt_tokenizer;

/* 0: FOLDER and its tokenizer.json are there. -1: it says which is not. */
int dt_tokenizer_check_folder(const char *folder, struct dt_err *err);
/* FOLDER holds tokenizer.json, and may hold tokenizer_config.json or special_tokens_map.json, which
 * name the token that ends a document, and config.json, whose vocab_size may leave out the last of
 * the added tokens. NULL and *err. */
struct dt_tokenizer *dt_tokenizer_open(const char *folder, struct dt_err *err);
/* TEXT: what stands in tokenizer.json. */
struct dt_tokenizer *dt_tokenizer_read(struct dt_bytes text, struct dt_err *err);
void dt_tokenizer_close(struct dt_tokenizer *t); /* NULL is fine */

/* All ids are below it, but for those of added tokens that the folder's model has no word for: a
 * Gemma 3 of text alone comes with a token of images, whose id is the first behind its words. */
uint32_t dt_tokenizer_vocabulary(const struct dt_tokenizer *t);
/* The token that ends a document; DT_TOKEN_NONE: the folder names none. */
uint32_t dt_tokenizer_end(const struct dt_tokenizer *t);
/* What the file puts in front of each text and behind it: N of them. */
const uint32_t *dt_tokenizer_front(const struct dt_tokenizer *t, size_t *n);
const uint32_t *dt_tokenizer_back(const struct dt_tokenizer *t, size_t *n);
/* Token ID as the file writes it, empty where it is none; and the token that the file writes as
 * TEXT, DT_TOKEN_NONE where there is none. */
struct dt_bytes dt_tokenizer_text(const struct dt_tokenizer *t, uint32_t id);
uint32_t dt_tokenizer_id(const struct dt_tokenizer *t, struct dt_bytes text);

/* -- texts to tokens -------------------------------------------------------------------------- */

/* Gets tokens in their order, some at a time; -1 and *err ends the encoding. */
typedef int dt_ids_fn(void *arg, const uint32_t *ids, size_t count, struct dt_err *err);

struct dt_encoder;

/* THREADS work beside the caller's, which alone calls TAKE; 0: it does all. T outlives it. */
struct dt_encoder *dt_encoder_create(const struct dt_tokenizer *t, int threads, dt_ids_fn *take,
                                     void *arg, struct dt_err *err);
void dt_encoder_destroy(struct dt_encoder *e); /* NULL is fine */

/* A part of a text, cut anywhere. What is no UTF-8 becomes U+FFFD. Only text that is final is
 * encoded: what the next part may change waits. */
int dt_encoder_put(struct dt_encoder *e, struct dt_bytes part, struct dt_err *err);
/* The text is over, and so gets its last tokens: those of the file, and ID unless it is
 * DT_TOKEN_NONE or the last of them. What is put next is a text of its own. */
int dt_encoder_end(struct dt_encoder *e, uint32_t id, struct dt_err *err);
/* Everything has been given to TAKE. After dt_encoder_end(). */
int dt_encoder_drain(struct dt_encoder *e, struct dt_err *err);

/* -- texts made of pieces and tokens ---------------------------------------------------------- */

/* For an encoder without threads that is used by these alone: a text is put together from tokens,
 * which are named by their ids, and from pieces of text between them, in which special tokens are
 * nothing but text. Nothing is added in front of it or behind it. */

/* The token TEXT, and whether white space beside it goes with it (added.h). False: it is none. */
struct dt_token_found {
    uint32_t id;
    bool eats_before, eats_behind;
};
bool dt_tokenizer_find(const struct dt_tokenizer *t, const char *text, struct dt_token_found *out);

/* What stands between two tokens, as one; TAKE has had all of it on return. FIRST: nothing of its
 * text came before it. */
int dt_encoder_piece(struct dt_encoder *e, struct dt_bytes piece, bool first, struct dt_err *err);

/* -- tokens to text --------------------------------------------------------------------------- */

struct dt_decoder;

struct dt_decoder *dt_decoder_create(const struct dt_tokenizer *t, struct dt_err *err);
void dt_decoder_destroy(struct dt_decoder *d); /* NULL is fine */
/* Appends to OUT what is final of the text; ids that are no tokens have none. */
void dt_decoder_put(struct dt_decoder *d, uint32_t id, struct dt_buf *out);
/* The text is over; the next token begins another one. */
void dt_decoder_end(struct dt_decoder *d, struct dt_buf *out);

#endif
