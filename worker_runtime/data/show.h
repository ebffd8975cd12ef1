/* SPDX-License-Identifier: Apache-2.0 */
/* What a model will read in a file of tokens, for people: text, with what is trained on marked. */
#ifndef DT_WORKER_RUNTIME_DATA_SHOW_H
#define DT_WORKER_RUNTIME_DATA_SHOW_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

struct dt_tokenizer;
struct dt_tokens;

struct dt_show_options {
    int64_t only; /* that document alone, from 0 on; -1: all */
    bool colour;  /* marks are colours, and not brackets */
};

/* Gets a part of the text; -1 and *err ends it. */
typedef int dt_show_fn(void *arg, struct dt_bytes part, struct dt_err *err);

/* T NULL: a byte is a token. A file that tells of no documents is one. What would steer a terminal
 * comes as text. */
int dt_show_tokens(const struct dt_tokens *tokens, const struct dt_tokenizer *t,
                   const struct dt_show_options *o, dt_show_fn *put, void *arg, struct dt_err *err);

#endif
