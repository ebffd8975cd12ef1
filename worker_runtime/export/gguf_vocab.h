/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer in GGUF: keys that llama.cpp makes the same tokens by. */
#ifndef DT_WORKER_RUNTIME_EXPORT_GGUF_VOCAB_H
#define DT_WORKER_RUNTIME_EXPORT_GGUF_VOCAB_H

#include "base/err.h"
#include "worker_runtime/export/gguf.h"
#include "worker_runtime/model/shape.h"

/* That in FOLDER, for a model of SHAPE. What llama.cpp has no name for is refused, as it would cut
 * texts in other tokens and say nothing. */
int dt_gguf_put_vocab(struct dt_gguf *g, const char *folder, const struct dt_shape *s,
                      struct dt_err *err);
/* A token is a byte, as in the files of `dtrun-train tokenize` without a tokenizer. */
int dt_gguf_put_bytes_vocab(struct dt_gguf *g, const struct dt_shape *s, struct dt_err *err);

#endif
