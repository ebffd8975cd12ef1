/* SPDX-License-Identifier: Apache-2.0 */
/* Files of tokens; the contract is dtrun/data.h. This folder is all between a text and the numbers
 * that a model reads: tokenize.h makes such files, sampler.h says which sample comes when. */
#ifndef DT_WORKER_RUNTIME_DATA_TOKENS_H
#define DT_WORKER_RUNTIME_DATA_TOKENS_H

#include "base/buf.h"

#include <dtrun/data.h>
#include <stdbool.h>

/* Made by our byte tokenizer, so that DT_BYTE_END ends a document: its header says so. */
bool dt_tokens_are_bytes(const struct dt_tokens *t);

/* By which a file is known again, wherever it lies: a checksum of its beginning and its end. */
uint32_t dt_tokens_mark(const struct dt_tokens *t);

/* Tokens FIRST to FIRST + COUNT - 1, which are there. */
int dt_tokens_read(const struct dt_tokens *t, size_t first, size_t count, int32_t *ids,
                   struct dt_err *err);

/* Documents that the file tells of; 0: it is of a version that tells of none. */
size_t dt_tokens_documents(const struct dt_tokens *t);
/* They come in pairs, the answer that was chosen and the one that was rejected. */
bool dt_tokens_are_pairs(const struct dt_tokens *t);
/* The first tokens of documents FIRST to FIRST + COUNT - 1, which are there. */
int dt_tokens_begins(const struct dt_tokens *t, size_t first, size_t count, uint64_t *begins,
                     struct dt_err *err);
/* Of tokens FIRST to FIRST + COUNT - 1, which are there: which are trained on. All are where the
 * file tells of no documents. */
int dt_tokens_trained(const struct dt_tokens *t, size_t first, size_t count, bool *trained,
                      struct dt_err *err);

/* What the file was made for, as far as it says so; 0: it does not. */
uint64_t dt_tokens_vocabulary(const struct dt_tokens *t);
/* Tokens from VOCABULARY on are refused from here on. */
void dt_tokens_narrow(struct dt_tokens *t, uint64_t vocabulary);

/* The checks of dt_tokens_open() and of all that is read later, over bytes in memory: for the
 * fuzzer. */
int dt_tokens_check(struct dt_bytes file, int raw_width, struct dt_err *err);

#endif
