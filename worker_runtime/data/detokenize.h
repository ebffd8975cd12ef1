/* SPDX-License-Identifier: Apache-2.0 */
/* A file of tokens becomes the text that it was made of. */
#ifndef DT_WORKER_RUNTIME_DATA_DETOKENIZE_H
#define DT_WORKER_RUNTIME_DATA_DETOKENIZE_H

#include "base/err.h"

struct dt_tokenizer;

/* Writes to OUT, NULL for standard output, the documents of PATH one behind the other, by T or NULL
 * for bytes. The tokens that dt_tokenize_files() puts around a document are left out. */
int dt_detokenize_file(const struct dt_tokenizer *t, const char *path, const char *out,
                       struct dt_err *err);

#endif
