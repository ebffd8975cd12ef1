/* SPDX-License-Identifier: Apache-2.0 */
/* A model with its adapters in its weights, W + s B A, as a folder of Hugging Face's: it needs no
 * adapters any more, and computes what the two did together. */
#ifndef DT_WORKER_RUNTIME_CKPT_MERGE_H
#define DT_WORKER_RUNTIME_CKPT_MERGE_H

#include "base/err.h"

#include <stddef.h>

struct dt_ckpt_merge {
    const char *adapters; /* a folder of peft's, or what a run saved its checkpoints in */
    const char *base;     /* the model's folder; NULL: the one that the adapters name */
    const char *out;      /* a folder, which is made; a model that is there is not replaced */
};

struct dt_ckpt_merged {
    size_t layers, tensors; /* that were changed, and of the model */
};

/* Tensors keep their types; each sum is made in float and rounded once. Config.json is copied, and
 * tokenizers are those of the adapters' folder where it has them. */
int dt_ckpt_merge(const struct dt_ckpt_merge *m, struct dt_ckpt_merged *done, struct dt_err *err);

#endif
