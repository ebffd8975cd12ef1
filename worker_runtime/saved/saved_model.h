/* SPDX-License-Identifier: Apache-2.0 */
/* A model that somebody has saved: what it is, and its weights, which stay in its files until they
 * are asked for. For who uses a model and does not train it. */
#ifndef DT_WORKER_RUNTIME_SAVED_SAVED_MODEL_H
#define DT_WORKER_RUNTIME_SAVED_SAVED_MODEL_H

#include "worker_runtime/ckpt/checkpoint.h"

struct dt_saved_model {
    char folder[PATH_MAX];   /* where its files are */
    char adapters[PATH_MAX]; /* and those of adapters that are in its weights; "": it has none */
    struct dt_shape shape;
    struct dt_ckpt_model model; /* the tensors of that shape */
    struct dt_ckpt_weights *weights;
};

/* FOLDER is a checkpoint, or holds some and then the newest is meant, or is one of Hugging Face's,
 * or of peft's: then the model is that of the folder BASE, or where that is NULL the one that the
 * adapters name. NOTES gets lines on what its config.json says in vain. End M also when it fails;
 * it does not move until then. */
int dt_saved_model_open(struct dt_saved_model *m, const char *folder, const char *base,
                        struct dt_buf *notes, struct dt_err *err);
void dt_saved_model_close(struct dt_saved_model *m);

/* By which its texts become tokens: the folder NAMED, or where that is NULL the folder MODEL, or
 * that of the model which it adapts (BASE, or NULL and it says which), if it has a tokenizer. OUT
 * "": a token is a byte, as in our own files without a tokenizer. -1 and *err: nobody knows. */
int dt_saved_model_tokenizer(const char *named, const char *model, const char *base,
                             const struct dt_shape *s, char out[PATH_MAX], struct dt_err *err);

#endif
