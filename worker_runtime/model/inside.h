/* SPDX-License-Identifier: Apache-2.0 */
/* A config.json as tables: each key Hugging Face writes is a row that says where its value goes,
 * what it has to be, or that it changes nothing in training. What reads and what writes one go
 * through the same rows. */
#ifndef DT_WORKER_RUNTIME_MODEL_INSIDE_H
#define DT_WORKER_RUNTIME_MODEL_INSIDE_H

#include "worker_runtime/model/shape.h"

#define DT_ROWS(t) (sizeof(t) / sizeof *(t))

enum dt_shape_kind {
    DT_SHAPE_COUNT,   /* 1 to .most, into the size_t at .at; null is as if not written */
    DT_SHAPE_REAL,    /* 0 to .most, into the float at .at */
    DT_SHAPE_FLAG,    /* into the bool at .at */
    DT_SHAPE_TRUE,    /* only true is ours */
    DT_SHAPE_FALSE,   /* only false is */
    DT_SHAPE_WORD,    /* only .word is */
    DT_SHAPE_DROPOUT, /* noted above 0; there is none here */
    DT_SHAPE_OFF, /* changes the arithmetic, unless it is null, false, empty, or the number .most */
    DT_SHAPE_TOKENS, /* a token or a list of tokens, into the dt_token_ids at .at; -1: none */
    DT_SHAPE_ROPE,   /* only plain rotation is */
    DT_SHAPE_IDLE,   /* changes nothing in training */
};

struct dt_shape_key {
    const char *name;
    enum dt_shape_kind kind;
    size_t at;
    double most;
    const char *word;
};

struct dt_shape_keys {
    const struct dt_shape_key *keys;
    size_t count;
};

struct dt_shape_keys dt_shape_family_keys(enum dt_model_family family);
extern const struct dt_shape_keys dt_shape_common_keys; /* of all families, and not written */
extern const struct dt_shape_keys dt_shape_token_keys;  /* of all families */

#endif
