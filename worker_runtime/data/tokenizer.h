/* SPDX-License-Identifier: Apache-2.0 */
/* The byte tokenizer: 256 bytes, and 256 for the end of a document; the vocabulary is padded to
 * 320. Any text trains at once. */
#ifndef DT_WORKER_RUNTIME_DATA_TOKENIZER_H
#define DT_WORKER_RUNTIME_DATA_TOKENIZER_H

#include "base/err.h"

#include <stdint.h>

#define DT_BYTE_END 256
#define DT_BYTE_VOCABULARY 320

/* Each file is a document: its bytes, then the end of a document. OUT is replaced when all is
 * written. "-": standard input. */
int dt_tokenize_files(const char *const *files, int count, const char *out, uint64_t *tokens,
                      struct dt_err *err);

#endif
