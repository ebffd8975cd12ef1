/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a file of tokens (dtrun/data.h), which gets its name when it is whole (base/draft.h):
 * whatever fails on the way leaves the old file, or none. */
#ifndef DT_WORKER_RUNTIME_DATA_TOKEN_WRITER_H
#define DT_WORKER_RUNTIME_DATA_TOKEN_WRITER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the header says of them. */
struct dt_token_kind {
    uint32_t tokenizer;  /* 0: unknown, 1: bytes */
    uint32_t vocabulary; /* all tokens are below it */
    bool documents;      /* version 2: they come by dt_token_writer_document() */
    bool pairs;          /* version 3: so do they, the chosen answer and the rejected one in turn */
};

struct dt_token_writer;

/* NULL and *err. */
struct dt_token_writer *dt_token_writer_open(const char *out, const struct dt_token_kind *kind,
                                             struct dt_err *err);
/* What was not committed goes. NULL is fine. */
void dt_token_writer_close(struct dt_token_writer *w);

int dt_token_writer_put(struct dt_token_writer *w, const uint32_t *ids, size_t count,
                        struct dt_err *err);
/* A document of COUNT tokens, at least one; TRAINED says of each whether it is trained on, and the
 * first never is. */
int dt_token_writer_document(struct dt_token_writer *w, const uint32_t *ids, const bool *trained,
                             size_t count, struct dt_err *err);
/* Everything is on disk, and the file has its name. */
int dt_token_writer_commit(struct dt_token_writer *w, struct dt_err *err);
uint64_t dt_token_writer_count(const struct dt_token_writer *w);
uint64_t dt_token_writer_trained(const struct dt_token_writer *w);

#endif
