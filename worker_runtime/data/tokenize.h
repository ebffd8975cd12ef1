/* SPDX-License-Identifier: Apache-2.0 */
/* Texts become files of tokens, and such files texts. Without a tokenizer of a model a byte is a
 * token: 256 bytes, and 256 for the end of a document; the vocabulary is padded to 320. Any text
 * trains at once. */
#ifndef DT_WORKER_RUNTIME_DATA_TOKENIZE_H
#define DT_WORKER_RUNTIME_DATA_TOKENIZE_H

#include "base/err.h"

#include <stdint.h>

#define DT_BYTE_END 256
#define DT_BYTE_VOCABULARY 320

struct dt_tokenizer;
struct dt_tokens;

/* Each file is a document: what T, or NULL for bytes, makes of it, then the end of a document. OUT
 * is replaced when all is written. "-": standard input. */
int dt_tokenize_files(const struct dt_tokenizer *t, const char *const *files, int count,
                      const char *out, uint64_t *tokens, struct dt_err *err);

/* The file of tokens PATH, which was made with a tokenizer like T, or with none where T is NULL, as
 * far as its header tells. NULL and *err. */
struct dt_tokens *dt_tokenized_open(const struct dt_tokenizer *t, const char *path,
                                    struct dt_err *err);

#endif
